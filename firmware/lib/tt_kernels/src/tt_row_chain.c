#include <string.h>

#include "tt_bytes.h"
#include "tt_kernels.h"

/* Where each stage stands. */
typedef struct tt_row_chain_state {
    int32_t done[TT_ROW_STAGES];  /* rows made */
    int32_t first[TT_ROW_STAGES]; /* the row at the start of the line buffer */
} tt_row_chain_state;

static int32_t first_row(const tt_row_stage *stage, int32_t row)
{
    return tt_clamp(row * stage->stride - stage->pad, 0, stage->in_rows);
}

static int32_t end_row(const tt_row_stage *stage, int32_t row)
{
    return tt_clamp(row * stage->stride - stage->pad + stage->reach, 0, stage->in_rows);
}

/* Rows that a stage makes when it runs next. */
static int32_t next_count(const tt_row_chain_params *p, const tt_row_chain_state *s, int32_t index)
{
    const int32_t left = p->stage[index].rows - s->done[index];
    return left < p->batch ? left : p->batch;
}

static bool can_run(const tt_row_chain_params *p, const tt_row_chain_state *s, int32_t index)
{
    const tt_row_stage *stage = &p->stage[index];
    if (s->done[index] >= stage->rows) {
        return false;
    }
    const int32_t end = end_row(stage, s->done[index] + next_count(p, s, index) - 1);
    return (stage->source >= TT_ROW_STAGES || s->done[stage->source] >= end) &&
           (stage->other >= TT_ROW_STAGES || s->done[stage->other] >= end);
}

/* First row of a stage that any later one still reads. */
static int32_t needed_from(const tt_row_chain_params *p, const tt_row_chain_state *s, int32_t index)
{
    int32_t needed = s->done[index];
    for (int32_t i = index + 1; i < p->stages; i++) {
        const tt_row_stage *reader = &p->stage[i];
        const bool reads = reader->source == index || reader->other == index;
        if (reads && s->done[i] < reader->rows) {
            const int32_t first = first_row(reader, s->done[i]);
            needed = first < needed ? first : needed;
        }
    }
    return needed;
}

/* Place of the next rows of a stage. */
static int8_t *next_row(const tt_row_chain_params *p, const tt_row_chain_io *io,
                        tt_row_chain_state *s, int32_t index)
{
    const tt_row_stage *stage = &p->stage[index];
    const int32_t row_bytes = (int32_t)stage->row_bytes;
    if (index == p->stages - 1) {
        return io->output + s->done[index] * row_bytes;
    }
    int8_t *buffer = io->scratch + stage->buffer;
    if (s->done[index] - s->first[index] + next_count(p, s, index) > stage->capacity) {
        const int32_t needed = needed_from(p, s, index);
        tt_copy_bytes(buffer, buffer + (needed - s->first[index]) * row_bytes,
                      (size_t)((s->done[index] - needed) * row_bytes));
        s->first[index] = needed;
    }
    return buffer + (s->done[index] - s->first[index]) * row_bytes;
}

static const int8_t *source_row(const tt_row_chain_params *p, const tt_row_chain_io *io,
                                const tt_row_chain_state *s, int32_t source, int32_t row,
                                int32_t row_bytes)
{
    if (source >= TT_ROW_STAGES) {
        return io->operands[source - TT_ROW_STAGES] + row * row_bytes;
    }
    return io->scratch + p->stage[source].buffer + (row - s->first[source]) * row_bytes;
}

/* The layer's window over the input rows that some output rows read. */
static void narrow(tt_window *w, const tt_row_stage *stage, int32_t row, int32_t count)
{
    const int32_t first = first_row(stage, row);
    const int32_t end = end_row(stage, row + count - 1);
    const bool empty = end <= first; /* then all taps lie above */
    w->in_h = (uint16_t)(empty ? 0 : end - first);
    w->out_h = (uint16_t)count;
    w->pad_h = (uint16_t)(empty ? stage->reach : first - (row * stage->stride - stage->pad));
}

static void run_rows(const tt_row_chain_params *p, const tt_row_chain_io *io, tt_row_chain_state *s,
                     int32_t index)
{
    const tt_row_stage *stage = &p->stage[index];
    const int32_t row = s->done[index];
    const int32_t count = next_count(p, s, index);
    const int32_t first = first_row(stage, row);
    const int32_t in_row_bytes = (int32_t)stage->in_row_bytes;
    const int8_t *input = source_row(p, io, s, stage->source, first, in_row_bytes);
    int8_t *output = next_row(p, io, s, index);
    const tt_layer_io layer = {
        .input = input,
        .weights = io->weights[index],
        .bias = io->bias[index],
        .output = output,
        .scratch = (int32_t *)(void *)io->scratch,
    };
    if (stage->kind == TT_ROW_CONV2D) {
        tt_conv2d_s8_params params = stage->layer.conv2d;
        narrow(&params.window, stage, row, count);
        tt_conv2d_s8(&params, &layer);
    } else if (stage->kind == TT_ROW_DEPTHWISE_CONV2D) {
        tt_depthwise_conv2d_s8_params params = stage->layer.depthwise_conv2d;
        narrow(&params.window, stage, row, count);
        tt_depthwise_conv2d_s8(&params, &layer);
    } else if (stage->kind == TT_ROW_ADD) {
        const int8_t *other = source_row(p, io, s, stage->other, first, in_row_bytes);
        for (int32_t i = 0; i < count; i++) {
            const int32_t at = i * in_row_bytes;
            const tt_add_s8_io pair = {.a = input + at, .b = other + at, .output = output + at};
            tt_add_s8(&stage->layer.add, &pair);
        }
    } else {
        tt_copy_bytes(output, input, (size_t)count * stage->row_bytes);
    }
    s->done[index] = row + count;
}

void tt_row_chain(const tt_row_chain_params *params, const tt_row_chain_io *io)
{
    tt_row_chain_state state;
    memset(&state, 0, sizeof state);
    const int32_t last = params->stages - 1;
    while (state.done[last] < params->stage[last].rows) {
        int32_t index = last; /* the last stage that can run: no row is made before its time */
        while (index > 0 && !can_run(params, &state, index)) {
            index--;
        }
        run_rows(params, io, &state, index);
    }
}
