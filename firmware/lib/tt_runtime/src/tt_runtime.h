/*
 * tt_runtime.h: run and train a generated model.
 *
 *     #include "digits.h"                        // the generated model
 *
 *     TT_MEMORY(memory, DIGITS_MEMORY_BYTES);    // all the RAM that the model needs
 *     static tt_model model;
 *
 *     tt_init(&model, &digits_program, memory, sizeof memory);
 *     tt_train_step(&model, input, tt_class_target(3), &report);
 *     tt_infer(&model, input, &output);
 *
 * There is no hidden state: a model is its tt_model and its memory, both owned by the caller, and
 * any number of models can live side by side. Nothing is allocated. Calls for one model must not
 * overlap in time (interrupts, threads). Every call returns TT_OK or a negative error, and after
 * an error the model is as it was before.
 */
#ifndef TT_RUNTIME_H
#define TT_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tt_program.h"
#include "tt_status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Samples whose gradients may be summed up before the weights move. */
#define TT_BATCH_MAX 256u

/* Defines an array `name` of at least `bytes` bytes that is aligned as tt_init wants it. */
#define TT_MEMORY(name, bytes) static uint32_t name[((bytes) + 3u) / 4u]

/* One model; its fields are private. */
typedef struct tt_model {
    const tt_program *program;
    uint8_t *state, *buffers, *arena;
    uint32_t seed;
    uint32_t step_index;
    float learning_rate;
    uint16_t batch;   /* samples a step */
    uint16_t samples; /* of the batch under way */
} tt_model;

/* A result. The pointers lead into the model's memory: valid until the next call for the model. */
typedef struct tt_output {
    const float *scores;  /* probabilities of the classes, sum 1; NULL for plain values */
    const int8_t *values; /* the model's quantized output; NULL where there are scores */
    uint16_t count;       /* of scores or values */
    int32_t best;         /* index of the largest, the first of equal ones */
} tt_output;

/* What the output ought to be. */
typedef struct tt_target {
    int32_t label;        /* class index, from 0; for models that output scores */
    const int8_t *values; /* quantized as the output, as many; for models that output values */
} tt_target;

/* What happened in a training step. */
typedef struct tt_step_report {
    float loss;             /* of this sample, before the update: cross-entropy in nats, or mean
                               squared error in squared real units */
    int32_t best;           /* prediction for this sample, before the update; as in tt_output */
    uint32_t step_index;    /* of this step, from 0 */
    bool applied;           /* whether trained values moved in this step */
    tt_error_counts errors; /* error tensors, and how many of them were cut at their range: a few
                               now and then; many mean steps too large, or no calibration */
} tt_step_report;

static inline tt_target tt_class_target(int32_t label)
{
    tt_target target = {label, NULL};
    return target;
}

static inline tt_target tt_values_target(const int8_t *values)
{
    tt_target target = {0, values};
    return target;
}

/*
 * Prepare a model in its initial, pre-trained state: seed 0, learning rate 0, batch 1.
 *
 * memory: `bytes` bytes, at least <NAME>_MEMORY_BYTES, aligned to TT_ALIGNMENT (see TT_MEMORY). It
 * belongs to the model until the model is not used any more. The first bytes of it are the state.
 * Errors: TT_ERROR_ARGUMENT (NULL), TT_ERROR_ABI, TT_ERROR_MEMORY.
 */
tt_status tt_init(tt_model *model, const tt_program *program, void *memory,
                  size_t bytes) TT_MUST_USE;

/* Back to the initial state and to step 0. Seed, learning rate and batch stay. */
void tt_reset(tt_model *model);

/*
 * Where the next input may be written (<NAME>_INPUT_BYTES bytes), which saves its copy. Any call
 * of tt_infer, tt_train_step or tt_calibrate_step uses the place for other things.
 */
int8_t *tt_input(tt_model *model);

/*
 * Run the model. Trained values do not change; the seed does not matter.
 *
 * input: <NAME>_INPUT_BYTES bytes, quantized with <NAME>_INPUT_SCALE and _ZERO_POINT, NHWC; may be
 * tt_input(model). Errors: TT_ERROR_ARGUMENT.
 */
tt_status tt_infer(tt_model *model, const int8_t *input, tt_output *output) TT_MUST_USE;

/*
 * Learn from one sample. Without batches the trained values move at once, with batches after every
 * n-th call. The input is taken as in tt_infer.
 *
 * report may be NULL. Errors: TT_ERROR_ARGUMENT, TT_ERROR_TARGET, TT_ERROR_NO_TRAINING.
 */
tt_status tt_train_step(tt_model *model, const int8_t *input, tt_target target,
                        tt_step_report *report) TT_MUST_USE;

/*
 * As tt_train_step, but trained values stay: only the ranges of errors and the sizes of steps are
 * measured, which prepares the first training steps. Counts as a step, not into a batch.
 */
tt_status tt_calibrate_step(tt_model *model, const int8_t *input, tt_target target,
                            tt_step_report *report) TT_MUST_USE;

/*
 * The rate of the following steps, finite and >= 0. With a batch of n samples each of them counts
 * rate / n. Errors: TT_ERROR_ARGUMENT (the former rate stays).
 */
tt_status tt_set_learning_rate(tt_model *model, float rate) TT_MUST_USE;

/* Equal seeds (and inputs, rates, steps) give equal bits on every machine. */
void tt_set_seed(tt_model *model, uint32_t seed);

/*
 * Samples a step, 1 to TT_BATCH_MAX. A batch under way is dropped.
 * Errors: TT_ERROR_ARGUMENT; TT_ERROR_NO_BATCH where the program has no gradient memory.
 */
tt_status tt_set_batch(tt_model *model, uint16_t samples) TT_MUST_USE;

/* Steps taken, those of tt_calibrate_step included: the random numbers depend on it. */
uint32_t tt_step_index(const tt_model *model);
void tt_set_step_index(tt_model *model, uint32_t index);

/* The state: all that training changes and that must be kept (<NAME>_STATE_BYTES bytes). */
const uint8_t *tt_state(const tt_model *model);

/*
 * Replace the state by one of the same program (compare the fingerprints); a batch under way is
 * dropped. Errors: TT_ERROR_ARGUMENT (NULL, or another size).
 */
tt_status tt_set_state(tt_model *model, const void *state, size_t bytes) TT_MUST_USE;

#ifdef __cplusplus
}
#endif

#endif
