/* Structs and prototypes of kernels that change the shape: pools, means, padding, slices. */
#ifndef TT_KERNELS_SHAPE_H
#define TT_KERNELS_SHAPE_H

#include "tt_kernels_elementwise.h"

/* ---- forward ---- */

typedef struct tt_pool_params {
    tt_window window;
    int32_t channels;
    int32_t act_min, act_max;
} tt_pool_params;
typedef struct tt_shape_io {
    const int8_t *input;
    int8_t *output;
} tt_shape_io;

typedef tt_pool_params tt_average_pool2d_s8_params;
typedef tt_shape_io tt_average_pool2d_s8_io;
void tt_average_pool2d_s8(const tt_average_pool2d_s8_params *params,
                          const tt_average_pool2d_s8_io *io);

typedef tt_pool_params tt_max_pool2d_s8_params;
typedef tt_shape_io tt_max_pool2d_s8_io;
void tt_max_pool2d_s8(const tt_max_pool2d_s8_params *params, const tt_max_pool2d_s8_io *io);

/* multiplier and shift hold 1/count; in place is allowed */
typedef struct tt_mean_s8_params {
    tt_reduction reduction;
    int32_t input_zero_point;
    int32_t multiplier, shift;
    int32_t zero_point;
} tt_mean_s8_params;
typedef tt_shape_io tt_mean_s8_io;
void tt_mean_s8(const tt_mean_s8_params *params, const tt_mean_s8_io *io);

/* tables of four dimensions */
typedef struct tt_pad_s8_params {
    const int32_t *size;
    const int32_t *before;
    const int32_t *padded_size;
    int32_t value;
} tt_pad_s8_params;
typedef tt_shape_io tt_pad_s8_io;
void tt_pad_s8(const tt_pad_s8_params *params, const tt_pad_s8_io *io);

#define TT_MAX_PARTS 16

typedef struct tt_concatenation_s8_params {
    int32_t parts;
    int32_t outer;         /* rows of the output */
    const int32_t *widths; /* bytes of each part in a row */
} tt_concatenation_s8_params;
typedef struct tt_concatenation_s8_io {
    const int8_t *input_0, *input_1, *input_2, *input_3;
    const int8_t *input_4, *input_5, *input_6, *input_7;
    const int8_t *input_8, *input_9, *input_10, *input_11;
    const int8_t *input_12, *input_13, *input_14, *input_15;
    int8_t *output;
} tt_concatenation_s8_io;
void tt_concatenation_s8(const tt_concatenation_s8_params *params,
                         const tt_concatenation_s8_io *io);

/* ---- backward ---- */

/* a box out of a tensor; tables of four dimensions; in place is allowed */
typedef struct tt_crop_s8_params {
    const int32_t *size;
    const int32_t *begin;
    const int32_t *cropped_size;
} tt_crop_s8_params;
typedef tt_shape_io tt_crop_s8_io;
void tt_crop_s8(const tt_crop_s8_params *params, const tt_crop_s8_io *io);

/* errors repeated along the reduced loops */
typedef struct tt_spread_error_params {
    tt_reduction reduction;
} tt_spread_error_params;
typedef struct tt_spread_error_io {
    const int8_t *error;
    int8_t *result;
} tt_spread_error_io;
void tt_spread_error(const tt_spread_error_params *params, const tt_spread_error_io *io);

/* windows that do not overlap: each error to all of its window */
typedef struct tt_average_pool2d_spread_params {
    tt_window window;
    int32_t channels;
} tt_average_pool2d_spread_params;
typedef tt_spread_error_io tt_average_pool2d_spread_io;
void tt_average_pool2d_spread(const tt_average_pool2d_spread_params *params,
                              const tt_average_pool2d_spread_io *io);

/* scratch: one accumulator a channel */
typedef struct tt_average_pool2d_input_error_params {
    tt_window window;
    int32_t channels;
    int32_t numerator; /* weight of a window: numerator / count, to nearest */
    float gain;
    uint32_t stream;
} tt_average_pool2d_input_error_params;
typedef struct tt_average_pool2d_input_error_io {
    const int8_t *error;
    const float *error_scale;
    float *range;
    int8_t *result;
    float *result_scale;
    int32_t *scratch;
} tt_average_pool2d_input_error_io;
void tt_average_pool2d_input_error(const tt_average_pool2d_input_error_params *params,
                                   const tt_average_pool2d_input_error_io *io, const tt_step *step);

/* windows that do not overlap: each error to the first largest element of its window */
typedef struct tt_max_pool2d_route_params {
    tt_window window;
    int32_t channels;
} tt_max_pool2d_route_params;
typedef struct tt_max_pool2d_route_io {
    const int8_t *error;
    const int8_t *input;
    const int8_t *forward_output;
    int8_t *result;
} tt_max_pool2d_route_io;
void tt_max_pool2d_route(const tt_max_pool2d_route_params *params,
                         const tt_max_pool2d_route_io *io);

/* the same with overlapping windows: sums, requantized */
typedef struct tt_max_pool2d_input_error_params {
    tt_window window;
    int32_t channels;
    float gain;
    uint32_t stream;
} tt_max_pool2d_input_error_params;
typedef struct tt_max_pool2d_input_error_io {
    const int8_t *error;
    const float *error_scale;
    const int8_t *input;
    const int8_t *forward_output;
    float *range;
    int8_t *result;
    float *result_scale;
} tt_max_pool2d_input_error_io;
void tt_max_pool2d_input_error(const tt_max_pool2d_input_error_params *params,
                               const tt_max_pool2d_input_error_io *io, const tt_step *step);

#endif
