/* Structs and prototypes of elementwise kernels: sums, products, rescales, softmax. */
#ifndef TT_KERNELS_ELEMENTWISE_H
#define TT_KERNELS_ELEMENTWISE_H

#include "tt_types.h"

/* How two operands run along an output: four loops, outermost first; stride 0 repeats. */
typedef struct tt_pair_loops {
    const int32_t *extents;
    const int32_t *strides_a;
    const int32_t *strides_b;
} tt_pair_loops;

/* A full tensor reduced to a smaller one, or the other way round: two kept loops outside of two
 * reduced ones, with strides of the full tensor. The smaller one is contiguous. */
typedef struct tt_reduction {
    int32_t kept_outer, kept_inner;
    int32_t kept_outer_stride, kept_inner_stride;
    int32_t reduced_outer, reduced_inner;
    int32_t reduced_outer_stride, reduced_inner_stride;
} tt_reduction;

/* ---- forward ---- */

/* may run in place over an operand of the output's size */
typedef struct tt_pair_io {
    const int8_t *a;
    const int8_t *b;
    int8_t *output;
} tt_pair_io;

typedef struct tt_add_s8_params {
    tt_pair_loops loops;
    int32_t multiplier_a, shift_a;
    int32_t multiplier_b, shift_b;
    int32_t multiplier, shift;
    int32_t zero_point_a, zero_point_b, zero_point;
    int32_t act_min, act_max;
} tt_add_s8_params;
typedef tt_pair_io tt_add_s8_io;
void tt_add_s8(const tt_add_s8_params *params, const tt_add_s8_io *io);

typedef struct tt_mul_s8_params {
    tt_pair_loops loops;
    int32_t multiplier, shift;
    int32_t zero_point_a, zero_point_b, zero_point;
    int32_t act_min, act_max;
} tt_mul_s8_params;
typedef tt_pair_io tt_mul_s8_io;
void tt_mul_s8(const tt_mul_s8_params *params, const tt_mul_s8_io *io);

/* int8 in, int8 out; input and output may be the same memory */
typedef struct tt_unary_io {
    const int8_t *input;
    int8_t *output;
} tt_unary_io;

/* another scale and zero point, and a clamp */
typedef struct tt_rescale_s8_params {
    uint32_t count;
    int32_t input_zero_point;
    int32_t multiplier, shift;
    int32_t zero_point;
    int32_t act_min, act_max;
} tt_rescale_s8_params;
typedef tt_unary_io tt_rescale_s8_io;
void tt_rescale_s8(const tt_rescale_s8_params *params, const tt_rescale_s8_io *io);

/* output at scale 1/256, zero point -128 */
typedef struct tt_softmax_s8_params {
    int32_t rows, depth;
    int32_t multiplier, left_shift; /* difference of the inputs -> Q5 */
    int32_t smallest_difference;    /* below it a value counts as 0 */
} tt_softmax_s8_params;
typedef tt_unary_io tt_softmax_s8_io;
void tt_softmax_s8(const tt_softmax_s8_params *params, const tt_softmax_s8_io *io);

/* output = table[input + 128] */
typedef struct tt_lookup_s8_params {
    uint32_t count;
    const int8_t *table;
} tt_lookup_s8_params;
typedef tt_unary_io tt_lookup_s8_io;
void tt_lookup_s8(const tt_lookup_s8_params *params, const tt_lookup_s8_io *io);

typedef struct tt_copy_s8_params {
    uint32_t count;
} tt_copy_s8_params;
typedef tt_unary_io tt_copy_s8_io;
void tt_copy_s8(const tt_copy_s8_params *params, const tt_copy_s8_io *io);

/* ---- backward ---- */

/* result[k] = sum of the errors over the reduced loops; in place over `error` is allowed */
typedef struct tt_reduce_error_params {
    tt_reduction reduction;
    float gain;
    uint32_t stream;
} tt_reduce_error_params;
typedef struct tt_reduce_error_io {
    const int8_t *error;
    const float *error_scale;
    float *range;
    int8_t *result;
    float *result_scale;
} tt_reduce_error_io;
void tt_reduce_error(const tt_reduce_error_params *params, const tt_reduce_error_io *io,
                     const tt_step *step);

/* sum of error * (other - zero point) over the reduced loops; tables of four and of two loops */
typedef struct tt_mul_input_error_params {
    const int32_t *kept, *kept_strides, *kept_strides_other;
    const int32_t *reduced, *reduced_strides, *reduced_strides_other;
    int32_t other_zero_point;
    float gain; /* holds the other operand's scale */
    uint32_t stream;
} tt_mul_input_error_params;
typedef struct tt_mul_input_error_io {
    const int8_t *error;
    const float *error_scale;
    const int8_t *other;
    float *range;
    int8_t *result;
    float *result_scale;
} tt_mul_input_error_io;
void tt_mul_input_error(const tt_mul_input_error_params *params, const tt_mul_input_error_io *io,
                        const tt_step *step);

/* p * (256 e - sum(e p)) with p in 256ths; in place over error or output is allowed */
typedef struct tt_softmax_input_error_params {
    int32_t rows, depth;
    float gain;
    uint32_t stream;
} tt_softmax_input_error_params;
typedef struct tt_softmax_input_error_io {
    const int8_t *error;
    const float *error_scale;
    const int8_t *forward_output;
    int8_t *result;
    float *result_scale;
} tt_softmax_input_error_io;
void tt_softmax_input_error(const tt_softmax_input_error_params *params,
                            const tt_softmax_input_error_io *io, const tt_step *step);

/* result = error * slopes[forward output + 128]; in place over error or output is allowed */
typedef struct tt_lookup_input_error_params {
    uint32_t count;
    const int8_t *slopes;
    float gain;
    uint32_t stream;
} tt_lookup_input_error_params;
typedef struct tt_lookup_input_error_io {
    const int8_t *error;
    const float *error_scale;
    const int8_t *forward_output;
    float *range;
    int8_t *result;
    float *result_scale;
} tt_lookup_input_error_io;
void tt_lookup_input_error(const tt_lookup_input_error_params *params,
                           const tt_lookup_input_error_io *io, const tt_step *step);

#endif
