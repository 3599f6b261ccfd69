/* Types that every kernel shares. */
#ifndef TT_TYPES_H
#define TT_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Version of the kernels' structs; generated code refuses to compile against another one. */
#define TT_KERNELS_ABI 1

/* What became of the error tensors of a step. */
typedef struct tt_error_counts {
    uint16_t tensors;   /* made with a range that was known before */
    uint16_t saturated; /* of these, with errors beyond it, which were cut */
} tt_error_counts;

/* Run-time values of one training step. */
typedef struct tt_step {
    uint32_t key;            /* tt_step_key(seed, index): the random streams of this step */
    float learning_rate;     /* the caller's rate over the samples of a batch, >= 0 */
    bool apply;              /* false: measure ranges and norms, leave the weights */
    tt_error_counts *counts; /* to count in, or NULL */
} tt_step;

/* A two-dimensional sliding window over NHWC with batch 1. */
typedef struct tt_window {
    uint16_t in_h, in_w;
    uint16_t out_h, out_w;
    uint16_t kernel_h, kernel_w;
    uint16_t stride_h, stride_w;
    uint16_t dilation_h, dilation_w;
    uint16_t pad_h, pad_w; /* rows above, columns to the left */
} tt_window;

/* Requantization of int32 accumulators to int8, one multiplier a channel. */
typedef struct tt_output_stage {
    const int32_t *multiplier; /* Q31 */
    const int8_t *shift;       /* positive: to the left */
    int32_t zero_point;
    int32_t act_min, act_max;
} tt_output_stage;

/* First and one past the last tap of an axis that fall inside the input. */
typedef struct tt_taps {
    int32_t first, end;
} tt_taps;

static inline tt_taps tt_valid_taps(int32_t origin, int32_t size, int32_t kernel, int32_t dilation)
{
    tt_taps taps = {0, kernel};
    if (origin < 0) {
        taps.first = (-origin + dilation - 1) / dilation;
    }
    if (origin + (kernel - 1) * dilation >= size) {
        taps.end = size > origin ? (size - origin + dilation - 1) / dilation : 0;
    }
    return taps;
}

static inline int32_t tt_clamp(int32_t value, int32_t low, int32_t high)
{
    value = value < low ? low : value;
    return value > high ? high : value;
}

#endif
