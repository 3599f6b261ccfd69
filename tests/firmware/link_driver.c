/*
 * Damaged and random frames for the device's end of a link: `link_driver SEED FRAMES`.
 *
 * The model is a toy whose state is a count of samples and a sum over their bytes, so that any step
 * too many shows. Half of the frames are damaged on the line (bits, cuts, doubles, noise) and must
 * change nothing; the others carry random requests with a valid CRC and may do what requests do.
 * Exit code 0, or the number of the check that failed; sanitizers end the process themselves.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tt_link.h"
#include "tt_store.h"

#define INPUT_BYTES 40u
#define STATE_BYTES 64u
#define ARENA_BYTES 64u
#define PAYLOAD 256u
#define WIRE_MAX 700u

enum { CHECK_CHANGED = 1, CHECK_DEAF = 2, CHECK_TWICE = 3, CHECK_SETUP = 4, CHECK_ANSWER = 5 };

typedef struct wire {
    uint8_t bytes[WIRE_MAX];
    uint32_t count;
} wire;

static uint32_t memory[(STATE_BYTES + ARENA_BYTES) / 4u];
static uint8_t flash[2048];
static uint32_t buffer[TT_LINK_BUFFER_WORDS(PAYLOAD)];
static tt_model model;
static tt_link device;
static uint8_t answers[65536];
static uint32_t answer_bytes;
static uint32_t random_state;

static uint32_t next(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state;
}

/* ---- the toy: scores in the arena behind the input, count and sum in the state ---- */

static void forward(const tt_frame *frame)
{
    float scores[2] = {0.25f, 0.75f};
    memcpy(frame->arena + 48, scores, sizeof scores);
}

static void backward(const tt_frame *frame)
{
    uint32_t values[2];
    const float loss = 1.0f;
    memcpy(values, frame->state, sizeof values);
    values[0]++;
    for (uint32_t i = 0; i < INPUT_BYTES; i++) {
        values[1] = values[1] * 31u + frame->arena[i];
    }
    if (frame->step->apply) {
        memcpy(frame->state, values, sizeof values);
    }
    memcpy(frame->arena + 56, &loss, sizeof loss);
}

static const tt_program program = {
    .abi = TT_RUNTIME_ABI,
    .name = "toy",
    .fingerprint = 0x70707070u,
    .state_bytes = STATE_BYTES,
    .arena_bytes = ARENA_BYTES,
    .input_bytes = INPUT_BYTES,
    .output_offset = 48,
    .loss_offset = 56,
    .output_count = 2,
    .classes = 2,
    .output_kind = TT_OUTPUT_SCORES,
    .target_kind = TT_TARGET_CLASS,
    .forward = forward,
    .backward = backward,
};

/* ---- the line ---- */

static void collect(void *context, const uint8_t *bytes, uint32_t count)
{
    (void)context;
    if (count <= sizeof answers - answer_bytes) {
        memcpy(answers + answer_bytes, bytes, count);
        answer_bytes += count;
    }
}

static void append(void *context, const uint8_t *bytes, uint32_t count)
{
    wire *w = context;
    if (count > WIRE_MAX - w->count) {
        exit(CHECK_SETUP);
    }
    memcpy(w->bytes + w->count, bytes, count);
    w->count += count;
}

static void make_frame(wire *w, uint8_t kind, uint32_t sequence, const void *payload,
                       uint32_t bytes)
{
    uint8_t body[TT_LINK_HEADER_BYTES + PAYLOAD + 64u + TT_WIRE_CRC_BYTES];
    const uint8_t head[4] = {TT_LINK_VERSION, kind, 0x34, 0x12};
    memcpy(body, head, 4);
    memcpy(body + 4, &sequence, 4);
    memcpy(body + TT_LINK_HEADER_BYTES, payload, bytes);
    w->count = 0;
    tt_wire_send(body, TT_LINK_HEADER_BYTES + bytes, append, w);
}

static void feed(const uint8_t *bytes, uint32_t count)
{
    answer_bytes = 0;
    for (uint32_t at = 0; at < count;) {
        const uint32_t left = count - at, part = 1u + next() % 64u;
        const uint32_t taken = part < left ? part : left;
        tt_link_receive(&device, bytes + at, taken);
        at += taken;
    }
}

static void make_train(wire *w, uint32_t sequence)
{
    uint8_t payload[12 + INPUT_BYTES] = {0};
    const float rate = 0.5f;
    memcpy(payload, &rate, sizeof rate);
    payload[8] = (uint8_t)(next() & 1u);
    for (uint32_t i = 0; i < INPUT_BYTES; i++) {
        payload[12u + i] = (uint8_t)(next() % 3u == 0u ? 0u : next());
    }
    make_frame(w, TT_LINK_TRAIN, sequence, payload, sizeof payload);
}

/* A frame without the delimiters around it. */
static wire strip(const wire *w)
{
    wire inner = {.count = 0};
    uint32_t begin = 0, end = w->count;
    while (begin < end && w->bytes[begin] == 0u) {
        begin++;
    }
    while (begin < end && w->bytes[end - 1u] == 0u) {
        end--;
    }
    memcpy(inner.bytes, w->bytes + begin, end - begin);
    inner.count = end - begin;
    return inner;
}

/* Damage a frame; returns whether anything but delimiters changed (damage can undo damage). */
static bool damage(wire *w)
{
    const wire before = strip(w);
    const uint32_t times = 1u + next() % 4u;
    for (uint32_t i = 0; i < times && w->count > 3u; i++) {
        const uint32_t at = 1u + next() % (w->count - 2u);
        switch (next() % 5u) {
        case 0: /* a bit */
            w->bytes[at] = (uint8_t)(w->bytes[at] ^ (1u << (next() & 7u)));
            break;
        case 1: /* the rest is lost */
            w->count = at;
            break;
        case 2: /* bytes are lost */
            memmove(w->bytes + at, w->bytes + at + 1u, w->count - at - 1u);
            w->count--;
            break;
        case 3: /* a byte is doubled */
            if (w->count < WIRE_MAX) {
                memmove(w->bytes + at + 1u, w->bytes + at, w->count - at);
                w->count++;
            }
            break;
        default: /* noise */
            w->bytes[at] = (uint8_t)next();
            break;
        }
    }
    const wire after = strip(w);
    return after.count != before.count || memcmp(after.bytes, before.bytes, after.count) != 0;
}

static uint32_t count_of_samples(void)
{
    uint32_t count;
    memcpy(&count, tt_state(&model), sizeof count);
    return count;
}

static bool open_session(void)
{
    wire w;
    make_frame(&w, TT_LINK_HELLO, 0u, "", 0u);
    feed(w.bytes, w.count);
    return answer_bytes != 0u;
}

/* A damaged frame changes nothing, and the frame after it is done, once though it comes twice. */
static int damaged_frame(uint32_t *samples)
{
    wire w;
    uint8_t before[STATE_BYTES];
    static const uint8_t stop = 0u;
    memcpy(before, tt_state(&model), sizeof before);
    const uint32_t expected = device.expected;
    if (next() % 8u == 0u) {
        w.count = next() % WIRE_MAX;
        for (uint32_t i = 0; i < w.count; i++) {
            w.bytes[i] = (uint8_t)next();
        }
    } else {
        make_train(&w, expected);
        if (!damage(&w)) {
            return 0;
        }
    }
    feed(w.bytes, w.count);
    feed(&stop, 1u);
    if (memcmp(before, tt_state(&model), sizeof before) != 0 || device.expected != expected) {
        return CHECK_CHANGED;
    }
    if (next() % 4u != 0u) {
        return 0;
    }
    make_train(&w, expected);
    feed(w.bytes, w.count);
    if (answer_bytes == 0u || count_of_samples() != *samples + 1u) {
        return CHECK_DEAF;
    }
    (*samples)++;
    uint8_t first[256];
    const uint32_t first_bytes = answer_bytes;
    memcpy(first, answers, first_bytes < sizeof first ? first_bytes : sizeof first);
    feed(w.bytes, w.count);
    if (count_of_samples() != *samples) {
        return CHECK_TWICE;
    }
    return answer_bytes == first_bytes && memcmp(first, answers, first_bytes) == 0 ? 0
                                                                                   : CHECK_ANSWER;
}

/* Any request with any payload: it may change the state, but must not harm. */
static void random_request(void)
{
    uint8_t payload[PAYLOAD + 32u];
    wire w;
    uint32_t bytes = next() % 4u == 0u ? next() % (uint32_t)sizeof payload : next() % 64u;
    for (uint32_t i = 0; i < bytes; i++) {
        payload[i] = (uint8_t)(next() % 2u == 0u ? 0u : next());
    }
    if (next() % 4u == 0u) { /* sizes that fit exactly */
        static const uint32_t sizes[] = {0u, 8u, 12u, INPUT_BYTES, 12u + INPUT_BYTES, 68u};
        bytes = sizes[next() % 6u];
    }
    const uint32_t sequence =
        next() % 8u == 0u ? next() : device.expected - (next() % 4u == 0u ? next() % 12u : 0u);
    const uint8_t kind = next() % 16u == 0u ? (uint8_t)next() : (uint8_t)(1u + next() % 14u);
    make_frame(&w, kind, sequence, payload, bytes);
    feed(w.bytes, w.count);
}

/* After random requests: a fresh start, and the toy counts again. */
static int recover(uint32_t *samples)
{
    wire w;
    if (!open_session()) {
        return CHECK_DEAF;
    }
    make_frame(&w, TT_LINK_RESET, device.expected, "", 0u);
    feed(w.bytes, w.count);
    *samples = 0;
    return count_of_samples() == 0u && !tt_link_is_busy(&device) ? 0 : CHECK_DEAF;
}

int main(int argc, char **argv)
{
    static const tt_link_about about = {"toy", 1.0f, 0, 0.0f, 0};
    if (argc != 3) {
        return CHECK_SETUP;
    }
    random_state = (uint32_t)strtoul(argv[1], NULL, 10) * 2654435761u | 1u;
    const unsigned long frames = strtoul(argv[2], NULL, 10);
    tt_storage storage;
    tt_storage_ram(&storage, flash, sizeof flash, 256u);
    const tt_link_config config = {
        .model = &model,
        .about = &about,
        .storage = &storage,
        .write = collect,
        .buffer = buffer,
        .buffer_words = sizeof buffer / sizeof buffer[0],
    };
    uint32_t samples = 0;
    if (tt_init(&model, &program, memory, sizeof memory) != TT_OK ||
        tt_link_open(&device, &config) != TT_OK || !open_session()) {
        return CHECK_SETUP;
    }
    for (unsigned long i = 0; i < frames; i++) {
        int check = 0;
        if (i % 64u < 32u) {
            check = damaged_frame(&samples);
        } else {
            random_request();
            check = i % 64u == 63u ? recover(&samples) : 0;
        }
        if (check != 0) {
            printf("check %d failed at frame %lu\n", check, i);
            return check;
        }
    }
    printf("%lu frames, %lu damaged\n", frames, (unsigned long)device.damaged);
    return 0;
}
