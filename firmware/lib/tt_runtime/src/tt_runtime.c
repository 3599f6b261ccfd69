#include "tt_runtime.h"

#include <string.h>

#include "tt_random.h"

#if TT_KERNELS_ABI != 1
#error "this runtime was written for version 1 of the kernels' structs"
#endif

static void clear_batch(tt_model *model)
{
    memset(model->buffers, 0, model->program->buffer_bytes);
    model->samples = 0;
}

tt_status tt_init(tt_model *model, const tt_program *program, void *memory, size_t bytes)
{
    if (model == NULL || program == NULL || memory == NULL) {
        return TT_ERROR_ARGUMENT;
    }
    if (program->abi != TT_RUNTIME_ABI) {
        return TT_ERROR_ABI;
    }
    const size_t needed =
        (size_t)program->state_bytes + program->buffer_bytes + program->arena_bytes;
    if (bytes < needed || (uintptr_t)memory % TT_ALIGNMENT != 0u) {
        return TT_ERROR_MEMORY;
    }
    model->program = program;
    model->state = memory;
    model->buffers = model->state + program->state_bytes;
    model->arena = model->buffers + program->buffer_bytes;
    model->seed = 0;
    model->learning_rate = 0.0f;
    model->batch = 1;
    tt_reset(model);
    return TT_OK;
}

void tt_reset(tt_model *model)
{
    const tt_program *program = model->program;
    memset(model->state, 0, program->state_bytes);
    for (uint32_t i = 0; i < program->initial_count; i++) {
        const tt_initial *piece = &program->initial[i];
        memcpy(model->state + piece->offset, piece->data, piece->bytes);
    }
    model->step_index = 0;
    clear_batch(model);
}

int8_t *tt_input(tt_model *model)
{
    return (int8_t *)(model->arena + model->program->input_offset);
}

static void take_input(tt_model *model, const int8_t *input)
{
    int8_t *place = tt_input(model);
    if (input != place) {
        memmove(place, input, model->program->input_bytes); /* it may overlap the place */
    }
}

static int32_t index_of_largest_score(const float *scores, uint32_t count)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < count; i++) {
        best = scores[i] > scores[best] ? i : best;
    }
    return (int32_t)best;
}

static int32_t index_of_largest_value(const int8_t *values, uint32_t count)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < count; i++) {
        best = values[i] > values[best] ? i : best;
    }
    return (int32_t)best;
}

static tt_output read_output(const tt_model *model)
{
    const tt_program *program = model->program;
    uint8_t *place = model->arena + program->output_offset;
    tt_output output = {NULL, NULL, program->output_count, 0};
    if (program->output_kind == (uint8_t)TT_OUTPUT_SCORES) {
        output.scores = (const float *)(void *)place;
        output.best = index_of_largest_score(output.scores, output.count);
    } else {
        output.values = (const int8_t *)place;
        output.best = index_of_largest_value(output.values, output.count);
    }
    return output;
}

tt_status tt_infer(tt_model *model, const int8_t *input, tt_output *output)
{
    if (model == NULL || input == NULL || output == NULL) {
        return TT_ERROR_ARGUMENT;
    }
    take_input(model, input);
    const tt_frame frame = {model->state, model->buffers, model->arena, NULL, NULL};
    model->program->forward(&frame);
    *output = read_output(model);
    return TT_OK;
}

static tt_status check_target(const tt_program *program, const tt_target *target)
{
    if (program->target_kind == (uint8_t)TT_TARGET_CLASS) {
        const bool known = target->label >= 0 && target->label < (int32_t)program->classes;
        return known ? TT_OK : TT_ERROR_TARGET;
    }
    return target->values != NULL ? TT_OK : TT_ERROR_TARGET;
}

/* At the end of a batch its gradients become a step. */
static bool apply_batch(tt_model *model, const tt_frame *frame)
{
    model->samples++;
    if (model->samples < model->batch) {
        return false;
    }
    model->program->apply(frame);
    model->samples = 0;
    return true;
}

static tt_status run_step(tt_model *model, const int8_t *input, const tt_target *target,
                          tt_step_report *report, bool apply)
{
    if (model == NULL || input == NULL) {
        return TT_ERROR_ARGUMENT;
    }
    const tt_program *program = model->program;
    if (program->backward == NULL) {
        return TT_ERROR_NO_TRAINING;
    }
    const tt_status status = check_target(program, target);
    if (status != TT_OK) {
        return status;
    }
    take_input(model, input);
    tt_error_counts errors = {0, 0};
    const tt_step step = {tt_step_key(model->seed, model->step_index),
                          model->learning_rate / (float)model->batch, apply, &errors};
    const bool is_class = program->target_kind == (uint8_t)TT_TARGET_CLASS;
    const tt_frame frame = {model->state, model->buffers, model->arena,
                            is_class ? (const void *)&target->label : target->values, &step};
    program->forward(&frame);
    const int32_t best = report != NULL ? read_output(model).best : 0;
    program->backward(&frame);
    float loss;
    memcpy(&loss, model->arena + program->loss_offset, sizeof loss);
    const bool applied = apply && (program->apply == NULL || apply_batch(model, &frame));
    if (report != NULL) {
        *report = (tt_step_report){loss, best, model->step_index, applied, errors};
    }
    model->step_index++;
    return TT_OK;
}

tt_status tt_train_step(tt_model *model, const int8_t *input, tt_target target,
                        tt_step_report *report)
{
    return run_step(model, input, &target, report, true);
}

tt_status tt_calibrate_step(tt_model *model, const int8_t *input, tt_target target,
                            tt_step_report *report)
{
    return run_step(model, input, &target, report, false);
}

tt_status tt_set_learning_rate(tt_model *model, float rate)
{
    if (model == NULL || !(rate >= 0.0f && rate <= 3.4028234e38f)) {
        return TT_ERROR_ARGUMENT;
    }
    model->learning_rate = rate;
    return TT_OK;
}

void tt_set_seed(tt_model *model, uint32_t seed) { model->seed = seed; }

tt_status tt_set_batch(tt_model *model, uint16_t samples)
{
    if (model == NULL || samples == 0u || samples > TT_BATCH_MAX) {
        return TT_ERROR_ARGUMENT;
    }
    if (model->program->apply == NULL) {
        return TT_ERROR_NO_BATCH;
    }
    model->batch = samples;
    clear_batch(model);
    return TT_OK;
}

uint32_t tt_step_index(const tt_model *model) { return model->step_index; }

void tt_set_step_index(tt_model *model, uint32_t index) { model->step_index = index; }

const uint8_t *tt_state(const tt_model *model) { return model->state; }

tt_status tt_set_state(tt_model *model, const void *state, size_t bytes)
{
    if (model == NULL || state == NULL || bytes != model->program->state_bytes) {
        return TT_ERROR_ARGUMENT;
    }
    memmove(model->state, state, bytes);
    clear_batch(model);
    return TT_OK;
}
