/*
 * The simulator's side in C: loops over samples for a caller in another language.
 *
 * Compiled together with one generated model, whose program is named by -DTT_HOST_PROGRAM=... All
 * memory is the caller's; several models can be under way at once.
 */
#include "tt_runtime.h"

#ifndef TT_HOST_PROGRAM
#error "define TT_HOST_PROGRAM as the name of the generated program"
#endif

extern const tt_program TT_HOST_PROGRAM;

/* A run over samples; the caller has checked sizes and indices. */
typedef struct tt_host_run {
    const int8_t *inputs; /* [N, input_bytes] */
    const void *targets;  /* int32 [N] or int8 [N, output_count] */
    const float *rates;   /* [count], or NULL: the rate stays */
    const int64_t *order; /* [count], indices of samples */
    uint64_t count;       /* samples to run */
    uint8_t *outputs;     /* [count, bytes of an output], or NULL */
    float *losses;        /* [count] */
    int32_t *best;        /* [count] */
    int32_t apply;        /* 0: calibrate only */
} tt_host_run;

uint32_t tt_host_model_bytes(void);
uint32_t tt_host_fingerprint(void);
void tt_host_use(tt_model *model);
int32_t tt_host_open(tt_model *model, void *memory, uint64_t bytes);
int32_t tt_host_infer(tt_model *model, const tt_host_run *run);
int32_t tt_host_train(tt_model *model, const tt_host_run *run);

uint32_t tt_host_model_bytes(void) { return (uint32_t)sizeof(tt_model); }

uint32_t tt_host_fingerprint(void) { return TT_HOST_PROGRAM.fingerprint; }

/* Let this library's code go on with a model that another build of the same program opened. */
void tt_host_use(tt_model *model) { model->program = &TT_HOST_PROGRAM; }

int32_t tt_host_open(tt_model *model, void *memory, uint64_t bytes)
{
    return (int32_t)tt_init(model, &TT_HOST_PROGRAM, memory, (size_t)bytes);
}

static const int8_t *input_of(const tt_host_run *run, uint64_t i)
{
    return run->inputs + (uint64_t)run->order[i] * TT_HOST_PROGRAM.input_bytes;
}

static tt_target target_of(const tt_host_run *run, uint64_t i)
{
    const uint64_t at = (uint64_t)run->order[i];
    if (TT_HOST_PROGRAM.target_kind == (uint8_t)TT_TARGET_CLASS) {
        return tt_class_target(((const int32_t *)run->targets)[at]);
    }
    return tt_values_target((const int8_t *)run->targets + at * TT_HOST_PROGRAM.output_count);
}

static void keep_output(const tt_host_run *run, uint64_t i, const tt_output *output)
{
    const bool scores = output->scores != NULL;
    const uint32_t bytes = scores ? output->count * (uint32_t)sizeof(float) : output->count;
    const uint8_t *from =
        scores ? (const uint8_t *)output->scores : (const uint8_t *)output->values;
    for (uint32_t b = 0; b < bytes; b++) {
        run->outputs[i * bytes + b] = from[b];
    }
    run->best[i] = output->best;
}

int32_t tt_host_infer(tt_model *model, const tt_host_run *run)
{
    for (uint64_t i = 0; i < run->count; i++) {
        tt_output output;
        const tt_status status = tt_infer(model, input_of(run, i), &output);
        if (status != TT_OK) {
            return (int32_t)status;
        }
        keep_output(run, i, &output);
    }
    return 0;
}

int32_t tt_host_train(tt_model *model, const tt_host_run *run)
{
    for (uint64_t i = 0; i < run->count; i++) {
        tt_step_report report;
        tt_status status = TT_OK;
        if (run->rates != NULL) {
            status = tt_set_learning_rate(model, run->rates[i]);
        }
        if (status == TT_OK) {
            status = run->apply != 0
                         ? tt_train_step(model, input_of(run, i), target_of(run, i), &report)
                         : tt_calibrate_step(model, input_of(run, i), target_of(run, i), &report);
        }
        if (status != TT_OK) {
            return (int32_t)status;
        }
        run->losses[i] = report.loss;
        run->best[i] = report.best;
    }
    return 0;
}

#if defined(TT_TRACE)
typedef void (*tt_host_trace_callback)(uint32_t op);

static tt_host_trace_callback trace_callback;

void tt_host_set_trace(tt_host_trace_callback callback);

void tt_host_set_trace(tt_host_trace_callback callback) { trace_callback = callback; }

void tt_trace(const tt_frame *frame, uint32_t op)
{
    (void)frame;
    if (trace_callback != NULL) {
        trace_callback(op);
    }
}
#endif
