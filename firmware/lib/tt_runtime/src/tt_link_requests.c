#include "tt_link_requests.h"

#include <string.h>

typedef struct hello_answer {
    int32_t status;
    uint16_t runtime_abi, kernels_abi;
    uint32_t fingerprint;
    uint32_t state_bytes, memory_bytes, input_bytes;
    uint16_t output_count, classes;
    uint8_t output_kind, target_kind, window, flags;
    uint32_t payload_bytes, receive_bytes;
    float input_scale;
    int32_t input_zero_point;
    float output_scale;
    int32_t output_zero_point;
    uint32_t ticks_hz;
    uint32_t step_index, seed;
    uint16_t batch, reserved;
    uint32_t expected; /* sequence number of the next request */
} hello_answer;        /* then the program's name and the scheme, each with a final 0 */

enum { HAS_STORAGE = 1, CAN_TRAIN = 2, HAS_BATCHES = 4, HALF_STATE = 8 };
enum { CALIBRATE = 1 };

typedef struct learn_request {
    float rate;
    uint32_t flags;
} learn_request; /* then the target, then the input unless it was put before */

typedef struct train_answer {
    int32_t status;
    float loss;
    int32_t best;
    uint32_t step_index;
    uint16_t applied, reserved;
    tt_error_counts errors;
} train_answer;

typedef struct evaluate_answer {
    int32_t status, best;
    uint32_t correct;
    float score;
} evaluate_answer;

typedef struct infer_answer {
    int32_t status, best;
    uint32_t bytes; /* of the output that follow */
} infer_answer;

_Static_assert(sizeof(hello_answer) == 76u, "layout of the answer");
_Static_assert(sizeof(train_answer) == 24u, "layout of the answer");
_Static_assert(sizeof(train_answer) <= TT_LINK_KEPT_BYTES, "answers of training are kept");
_Static_assert(sizeof(evaluate_answer) <= TT_LINK_KEPT_BYTES, "answers of evaluation are kept");

uint32_t tt_link_payload_bytes(const tt_link *link)
{
    return link->config.buffer_words * 4u - TT_LINK_HEADER_BYTES - TT_WIRE_CRC_BYTES;
}

uint32_t tt_link_give(uint8_t *payload, const void *answer, size_t bytes)
{
    memcpy(payload, answer, bytes);
    return (uint32_t)bytes;
}

uint32_t tt_link_give_status(uint8_t *payload, tt_status status)
{
    const int32_t value = (int32_t)status;
    return tt_link_give(payload, &value, sizeof value);
}

/* ---- hello ---- */

static uint32_t add_text(uint8_t *payload, uint32_t at, uint32_t end, const char *text)
{
    while (*text != '\0' && at + 1u < end) {
        payload[at++] = (uint8_t)*text++;
    }
    payload[at] = 0u;
    return at + 1u;
}

static uint32_t hello(const tt_link *link, uint8_t *payload)
{
    const tt_link_config *config = &link->config;
    const tt_model *model = config->model;
    const tt_program *program = model->program;
    const uint32_t flags = (config->storage != NULL ? HAS_STORAGE : 0u) |
                           (program->backward != NULL ? CAN_TRAIN : 0u) |
                           (program->apply != NULL ? HAS_BATCHES : 0u) |
                           (link->half_state ? HALF_STATE : 0u);
    const hello_answer answer = {
        .status = (int32_t)TT_OK,
        .runtime_abi = TT_RUNTIME_ABI,
        .kernels_abi = TT_KERNELS_ABI,
        .fingerprint = program->fingerprint,
        .state_bytes = program->state_bytes,
        .memory_bytes = program->state_bytes + program->buffer_bytes + program->arena_bytes,
        .input_bytes = program->input_bytes,
        .output_count = program->output_count,
        .classes = program->classes,
        .output_kind = program->output_kind,
        .target_kind = program->target_kind,
        .window = (uint8_t)TT_LINK_WINDOW,
        .flags = (uint8_t)flags,
        .payload_bytes = tt_link_payload_bytes(link),
        .receive_bytes = config->receive_bytes,
        .input_scale = config->about->input_scale,
        .input_zero_point = config->about->input_zero_point,
        .output_scale = config->about->output_scale,
        .output_zero_point = config->about->output_zero_point,
        .ticks_hz = config->ticks != NULL ? config->ticks_hz : 0u,
        .step_index = model->step_index,
        .seed = model->seed,
        .batch = model->batch,
        .expected = link->expected,
    };
    const uint32_t end = tt_link_payload_bytes(link);
    uint32_t at = tt_link_give(payload, &answer, sizeof answer);
    at = add_text(payload, at, end - 1u, program->name);
    return add_text(payload, at, end, config->about->scheme);
}

/* ---- samples ---- */

/* The input that a request carries, or the one that was put before; NULL if there is none. */
static const int8_t *find_input(tt_link *link, const uint8_t *at, uint32_t bytes)
{
    tt_model *model = link->config.model;
    const uint32_t put = link->put_bytes;
    link->put_bytes = 0u; /* a call uses the place up */
    if (bytes == model->program->input_bytes) {
        return (const int8_t *)at;
    }
    return bytes == 0u && put != 0u ? tt_input(model) : NULL;
}

static uint32_t target_bytes(const tt_program *program)
{
    return program->target_kind == (uint8_t)TT_TARGET_VALUES ? program->output_count
                                                             : (uint32_t)sizeof(int32_t);
}

typedef struct sample {
    learn_request request;
    tt_target target;
    const int8_t *input;
} sample;

static tt_status take_sample(tt_link *link, const uint8_t *payload, uint32_t bytes, sample *taken)
{
    const tt_program *program = link->config.model->program;
    const uint32_t before = (uint32_t)sizeof(learn_request) + target_bytes(program);
    if (bytes < before) {
        return TT_ERROR_REQUEST;
    }
    memcpy(&taken->request, payload, sizeof taken->request);
    const uint8_t *at = payload + sizeof taken->request;
    if (program->target_kind == (uint8_t)TT_TARGET_VALUES) {
        taken->target = tt_values_target((const int8_t *)at);
    } else {
        int32_t label;
        memcpy(&label, at, sizeof label);
        taken->target = tt_class_target(label);
    }
    if (link->half_state) {
        return TT_ERROR_HALF_STATE;
    }
    taken->input = find_input(link, payload + before, bytes - before);
    return taken->input != NULL ? TT_OK : TT_ERROR_REQUEST;
}

static uint32_t now(const tt_link *link)
{
    return link->config.ticks != NULL ? link->config.ticks() : 0u;
}

static uint32_t train(tt_link *link, uint8_t *payload, uint32_t bytes)
{
    tt_model *model = link->config.model;
    sample taken;
    tt_step_report report = {0};
    tt_status status = take_sample(link, payload, bytes, &taken);
    if (status == TT_OK) {
        status = tt_set_learning_rate(model, taken.request.rate);
    }
    if (status == TT_OK) {
        const uint32_t begin = now(link);
        status = (taken.request.flags & CALIBRATE) != 0u
                     ? tt_calibrate_step(model, taken.input, taken.target, &report)
                     : tt_train_step(model, taken.input, taken.target, &report);
        link->ticks = now(link) - begin;
        link->trained += status == TT_OK ? 1u : 0u;
    }
    const train_answer answer = {
        .status = (int32_t)status,
        .loss = report.loss,
        .best = report.best,
        .step_index = report.step_index,
        .applied = report.applied ? 1u : 0u,
        .errors = report.errors,
    };
    return tt_link_give(payload, &answer, sizeof answer);
}

/* Probability of the wanted class, or mean squared difference in steps of the output. */
static float score_of(const tt_output *output, const tt_target *target)
{
    if (output->scores != NULL) {
        return output->scores[target->label];
    }
    uint32_t sum = 0;
    for (uint32_t i = 0; i < output->count; i++) {
        const int32_t gap = (int32_t)output->values[i] - (int32_t)target->values[i];
        sum += (uint32_t)(gap * gap); /* 2^16 values of at most 255 squared */
    }
    return (float)sum / (float)output->count;
}

static uint32_t evaluate(tt_link *link, uint8_t *payload, uint32_t bytes)
{
    const tt_program *program = link->config.model->program;
    sample taken;
    evaluate_answer answer = {0};
    tt_output output;
    tt_status status = take_sample(link, payload, bytes, &taken);
    const bool is_class = program->target_kind == (uint8_t)TT_TARGET_CLASS;
    if (status == TT_OK && (program->target_kind == (uint8_t)TT_TARGET_NONE ||
                            (is_class && (taken.target.label < 0 ||
                                          taken.target.label >= (int32_t)program->classes)))) {
        status = TT_ERROR_TARGET;
    }
    if (status == TT_OK) {
        status = tt_infer(link->config.model, taken.input, &output);
    }
    if (status == TT_OK) {
        answer.best = output.best;
        answer.correct = is_class && output.best == taken.target.label ? 1u : 0u;
        answer.score = score_of(&output, &taken.target);
    }
    answer.status = (int32_t)status;
    return tt_link_give(payload, &answer, sizeof answer);
}

static uint32_t infer(tt_link *link, uint8_t *payload, uint32_t bytes)
{
    infer_answer answer = {(int32_t)TT_ERROR_HALF_STATE, 0, 0u};
    tt_output output;
    if (link->half_state) {
        return tt_link_give(payload, &answer, sizeof answer);
    }
    const int8_t *input = find_input(link, payload, bytes);
    if (input == NULL) {
        answer.status = (int32_t)TT_ERROR_REQUEST;
        return tt_link_give(payload, &answer, sizeof answer);
    }
    answer.status = (int32_t)tt_infer(link->config.model, input, &output);
    if (answer.status == (int32_t)TT_OK) {
        const bool scores = output.scores != NULL;
        const void *from = scores ? (const void *)output.scores : (const void *)output.values;
        const uint32_t room = (tt_link_payload_bytes(link) - (uint32_t)sizeof answer) / 4u * 4u;
        const uint32_t whole = output.count * (scores ? (uint32_t)sizeof(float) : 1u);
        answer.best = output.best;
        answer.bytes = whole < room ? whole : room;
        memcpy(payload + sizeof answer, from, answer.bytes);
    }
    return tt_link_give(payload, &answer, sizeof answer) + answer.bytes;
}

static tt_status put_input(tt_link *link, const uint8_t *payload, uint32_t bytes)
{
    tt_model *model = link->config.model;
    uint32_t offset;
    if (bytes <= sizeof offset) {
        return TT_ERROR_REQUEST;
    }
    if (link->half_state) {
        return TT_ERROR_HALF_STATE;
    }
    memcpy(&offset, payload, sizeof offset);
    const uint32_t count = bytes - (uint32_t)sizeof offset;
    if (offset > model->program->input_bytes || count > model->program->input_bytes - offset) {
        return TT_ERROR_ARGUMENT;
    }
    memcpy(tt_input(model) + offset, payload + sizeof offset, count);
    link->put_bytes += count;
    return TT_OK;
}

/* ---- all of them ---- */

bool tt_link_is_pure(const tt_link *link, uint8_t kind, uint32_t bytes)
{
    return kind == (uint8_t)TT_LINK_READ_STATE || kind == (uint8_t)TT_LINK_STATISTICS ||
           (kind == (uint8_t)TT_LINK_INFER && bytes != 0u && link->put_bytes == 0u);
}

uint32_t tt_link_do(tt_link *link, uint8_t kind, uint8_t *payload, uint32_t bytes)
{
    switch (kind) {
    case TT_LINK_HELLO:
        return hello(link, payload);
    case TT_LINK_INFER:
        return infer(link, payload, bytes);
    case TT_LINK_TRAIN:
        return train(link, payload, bytes);
    case TT_LINK_EVALUATE:
        return evaluate(link, payload, bytes);
    case TT_LINK_PUT_INPUT:
        return tt_link_give_status(payload, put_input(link, payload, bytes));
    default:
        return tt_link_do_state(link, kind, payload, bytes);
    }
}
