/* Structs and prototypes of the kernels: convolutions, errors, updates, losses.
 *
 * Every kernel is `void k(const k_params *, const k_io *[, const tt_step *])`: constants of the
 * operator, tensors, and the running training step. Activations and errors are int8 NHWC with
 * batch 1, weights as in tflite. tinytrain/ops/ has the NumPy definition of each.
 */
#ifndef TT_KERNELS_H
#define TT_KERNELS_H

#include "tt_kernels_elementwise.h"
#include "tt_kernels_shape.h"
#include "tt_types.h"
#include "tt_update.h"

/* ---- forward ---- */

typedef struct tt_layer_io {
    const int8_t *input;
    const int8_t *weights;
    const int32_t *bias; /* NULL: none */
    int8_t *output;
    int32_t *scratch;
} tt_layer_io;

/* scratch: see tinytrain/ops/scratch.py; the portable kernel needs none */
typedef struct tt_conv2d_s8_params {
    tt_window window;
    uint16_t in_c, out_c;
    uint16_t block; /* windows staged at a time, even */
    int32_t input_zero_point;
    tt_output_stage output;
} tt_conv2d_s8_params;
typedef tt_layer_io tt_conv2d_s8_io;
void tt_conv2d_s8(const tt_conv2d_s8_params *params, const tt_conv2d_s8_io *io);

/* scratch: see tinytrain/ops/scratch.py; the plain kernel takes one accumulator an output channel
 */
typedef struct tt_depthwise_conv2d_s8_params {
    tt_window window;
    uint16_t in_c, multiple; /* output channel c reads input channel c / multiple */
    uint16_t band;           /* output rows made at a time from planes; 0: the plain kernel's */
    uint16_t scratch_bytes;
    int32_t input_zero_point;
    tt_output_stage output;
} tt_depthwise_conv2d_s8_params;
typedef tt_layer_io tt_depthwise_conv2d_s8_io;
void tt_depthwise_conv2d_s8(const tt_depthwise_conv2d_s8_params *params,
                            const tt_depthwise_conv2d_s8_io *io);
/* the same in portable C, for any window */
void tt_depthwise_conv2d_s8_plain(const tt_depthwise_conv2d_s8_params *params,
                                  const tt_depthwise_conv2d_s8_io *io);

typedef struct tt_fully_connected_s8_params {
    uint16_t rows, in_c, out_c;
    int32_t input_zero_point;
    const int32_t *pair_sums; /* see tt_dot_dsp.h; NULL where weights change */
    tt_output_stage output;
} tt_fully_connected_s8_params;
typedef tt_layer_io tt_fully_connected_s8_io;
void tt_fully_connected_s8(const tt_fully_connected_s8_params *params,
                           const tt_fully_connected_s8_io *io);

/* int32 accumulators as output */
typedef struct tt_fully_connected_s32_params {
    uint16_t rows, in_c, out_c;
    int32_t input_zero_point;
    const int32_t *pair_sums; /* see tt_dot_dsp.h; NULL where weights change */
} tt_fully_connected_s32_params;
typedef struct tt_fully_connected_s32_io {
    const int8_t *input;
    const int8_t *weights;
    const int32_t *bias;
    int32_t *output;
} tt_fully_connected_s32_io;
void tt_fully_connected_s32(const tt_fully_connected_s32_params *params,
                            const tt_fully_connected_s32_io *io);

typedef struct tt_gather_channels_params {
    uint32_t positions;
    uint16_t in_c, out_c;
    const uint16_t *channels;
} tt_gather_channels_params;
typedef struct tt_gather_channels_io {
    const int8_t *input;
    int8_t *output;
} tt_gather_channels_io;
void tt_gather_channels(const tt_gather_channels_params *params, const tt_gather_channels_io *io);

/* frozen weights with the trained input channels laid over them; channels come in runs */
typedef struct tt_merge_weights_params {
    uint32_t rows; /* weights of one input channel */
    uint16_t in_c, trained_channels;
    const uint16_t *channels;
} tt_merge_weights_params;
typedef struct tt_merge_weights_io {
    const int8_t *frozen;
    const int8_t *trained;
    int8_t *output;
} tt_merge_weights_io;
void tt_merge_weights(const tt_merge_weights_params *params, const tt_merge_weights_io *io);

/* a 1x1 convolution of which some input channels' weights lie apart; `weights` is 0 there;
 * scratch: the chosen channels of one position */
typedef struct tt_pointwise_split_s8_params {
    uint32_t positions;
    uint16_t in_c, out_c;
    uint16_t trained_channels;
    const uint16_t *channels;
    int32_t input_zero_point;
    tt_output_stage output;
} tt_pointwise_split_s8_params;
typedef struct tt_pointwise_split_s8_io {
    const int8_t *input;
    const int8_t *weights;
    const int8_t *trained;
    const int32_t *bias; /* NULL: none */
    int8_t *output;
    int8_t *scratch;
} tt_pointwise_split_s8_io;
void tt_pointwise_split_s8(const tt_pointwise_split_s8_params *params,
                           const tt_pointwise_split_s8_io *io);

/* ---- losses ---- */

typedef struct tt_class_scores_params {
    uint16_t logits; /* as many classes; 1: two classes */
    int32_t zero_point;
    const float *scales;
} tt_class_scores_params;
typedef tt_class_scores_params tt_class_scores_s32_params;
typedef struct tt_class_scores_s32_io {
    const int32_t *logits;
    float *scores;
} tt_class_scores_s32_io;
void tt_class_scores_s32(const tt_class_scores_s32_params *params,
                         const tt_class_scores_s32_io *io);
typedef tt_class_scores_params tt_class_scores_s8_params;
typedef struct tt_class_scores_s8_io {
    const int8_t *logits;
    float *scores;
} tt_class_scores_s8_io;
void tt_class_scores_s8(const tt_class_scores_s8_params *params, const tt_class_scores_s8_io *io);

typedef struct tt_cross_entropy_error_params {
    uint16_t classes;
    uint16_t logits; /* of the last classes */
    float smoothing;
    uint32_t stream;
} tt_cross_entropy_error_params;
typedef struct tt_cross_entropy_error_io {
    const float *scores;
    const int32_t *target;
    int8_t *error;
    float *error_scale; /* 1: errors are relative to the first one */
    float *loss;
    float *first_scale; /* real size of a unit of the first error */
} tt_cross_entropy_error_io;
void tt_cross_entropy_error(const tt_cross_entropy_error_params *params,
                            const tt_cross_entropy_error_io *io, const tt_step *step);

typedef struct tt_mean_squared_error_params {
    uint32_t count;
    float unit, loss_unit; /* real size of an error unit and of a squared one */
    uint32_t stream;
} tt_mean_squared_error_params;
typedef struct tt_mean_squared_error_io {
    const int8_t *output;
    const int8_t *target;
    int8_t *error;
    float *error_scale; /* 1: errors are relative to the first one */
    float *loss;
    float *first_scale; /* real size of a unit of the first error */
} tt_mean_squared_error_io;
void tt_mean_squared_error(const tt_mean_squared_error_params *params,
                           const tt_mean_squared_error_io *io, const tt_step *step);

/* ---- errors ---- */

/* one bit an element, least significant first: strictly between the clamp bounds */
typedef struct tt_clamp_mask_params {
    uint32_t count;
    int32_t act_min, act_max;
} tt_clamp_mask_params;
typedef struct tt_clamp_mask_io {
    const int8_t *input;
    uint8_t *mask;
} tt_clamp_mask_io;
void tt_clamp_mask(const tt_clamp_mask_params *params, const tt_clamp_mask_io *io);

typedef struct tt_mask_error_params {
    uint32_t count;
    int32_t act_min, act_max;
} tt_mask_error_params;
typedef struct tt_mask_error_io {
    const int8_t *error;
    const int8_t *forward_output; /* either this */
    const uint8_t *mask;          /* or these bits */
    int8_t *result;               /* may be `error` */
} tt_mask_error_io;
void tt_mask_error(const tt_mask_error_params *params, const tt_mask_error_io *io);

typedef struct tt_fold_error_params {
    uint32_t positions;
    uint16_t channels;
    int32_t act_min, act_max;
    const int16_t *factors; /* Q14, one a channel */
    float gain;
    uint32_t stream;
} tt_fold_error_params;
typedef struct tt_fold_error_io {
    const int8_t *error;
    const float *error_scale;
    const int8_t *forward_output; /* either this */
    const uint8_t *mask;          /* or these bits, or neither */
    float *range;
    int8_t *result; /* may be `error` */
    float *result_scale;
} tt_fold_error_io;
void tt_fold_error(const tt_fold_error_params *params, const tt_fold_error_io *io,
                   const tt_step *step);

typedef struct tt_add_errors_params {
    uint32_t count;
    float gain_a, gain_b;
    uint32_t stream;
} tt_add_errors_params;
typedef struct tt_add_errors_io {
    const int8_t *a;
    const float *scale_a;
    const int8_t *b;
    const float *scale_b;
    float *range;
    int8_t *sum; /* may be `a` or `b` */
    float *sum_scale;
} tt_add_errors_io;
void tt_add_errors(const tt_add_errors_params *params, const tt_add_errors_io *io,
                   const tt_step *step);

typedef struct tt_input_error_io {
    const int8_t *folded;
    const float *folded_scale;
    const int8_t *weights;
    float *range;
    int8_t *error;
    float *error_scale;
    int32_t *scratch; /* see tinytrain/ops/scratch.py; plain: one accumulator an input channel */
} tt_input_error_io;

typedef struct tt_conv2d_input_error_params {
    tt_window window; /* of the forward convolution */
    uint16_t in_c, out_c;
    uint16_t block; /* input positions staged at a time, even */
    float gain;
    uint32_t stream;
} tt_conv2d_input_error_params;
typedef tt_input_error_io tt_conv2d_input_error_io;
void tt_conv2d_input_error(const tt_conv2d_input_error_params *params,
                           const tt_conv2d_input_error_io *io, const tt_step *step);

/* of a 1x1 convolution with weights in two parts; scratch: one accumulator an input channel, then
 * one a trained channel */
typedef struct tt_pointwise_split_input_error_params {
    uint32_t positions;
    uint16_t in_c, out_c;
    uint16_t trained_channels;
    const uint16_t *channels;
    float gain;
    uint32_t stream;
} tt_pointwise_split_input_error_params;
typedef struct tt_pointwise_split_input_error_io {
    const int8_t *folded;
    const float *folded_scale;
    const int8_t *weights;
    const int8_t *trained;
    float *range;
    int8_t *error;
    float *error_scale;
    int32_t *scratch;
} tt_pointwise_split_input_error_io;
void tt_pointwise_split_input_error(const tt_pointwise_split_input_error_params *params,
                                    const tt_pointwise_split_input_error_io *io,
                                    const tt_step *step);

typedef struct tt_depthwise_conv2d_input_error_params {
    tt_window window;
    uint16_t in_c, multiple;
    uint16_t band; /* input rows made at a time from planes; 0: the plain kernel's */
    float gain;
    uint32_t stream;
} tt_depthwise_conv2d_input_error_params;
typedef tt_input_error_io tt_depthwise_conv2d_input_error_io;
void tt_depthwise_conv2d_input_error(const tt_depthwise_conv2d_input_error_params *params,
                                     const tt_depthwise_conv2d_input_error_io *io,
                                     const tt_step *step);
/* the same in portable C, for any window */
void tt_depthwise_conv2d_input_error_plain(const tt_depthwise_conv2d_input_error_params *params,
                                           const tt_depthwise_conv2d_input_error_io *io,
                                           const tt_step *step);

/* ---- updates ---- */

typedef struct tt_conv2d_update_params {
    tt_window window;
    uint16_t trained_channels; /* channels of `input` */
    uint16_t block;            /* of them staged at a time, a multiple of 4; 0: the plain kernel */
    uint16_t in_c, out_c;      /* of the weights */
    int32_t input_zero_point;
    const uint16_t *channels; /* of the trained ones in the weights; NULL: all */
    tt_update_rule rule;
} tt_conv2d_update_params;
typedef tt_update_io tt_conv2d_update_io;
void tt_conv2d_update(const tt_conv2d_update_params *params, const tt_conv2d_update_io *io,
                      const tt_step *step);
/* the same in portable C, of any size */
void tt_conv2d_update_plain(const tt_conv2d_update_params *params, const tt_conv2d_update_io *io,
                            const tt_step *step);

typedef struct tt_depthwise_conv2d_update_params {
    tt_window window;
    uint16_t in_c, multiple;
    int32_t input_zero_point;
    tt_update_rule rule;
} tt_depthwise_conv2d_update_params;
typedef tt_update_io tt_depthwise_conv2d_update_io;
void tt_depthwise_conv2d_update(const tt_depthwise_conv2d_update_params *params,
                                const tt_depthwise_conv2d_update_io *io, const tt_step *step);

typedef struct tt_bias_update_params {
    uint32_t positions;
    uint16_t channels;
    const float *factors;
    const int32_t *limits; /* largest step of each channel; NULL: none */
    float gain;
    uint32_t stream;
    int32_t momentum; /* Q16 */
    uint32_t velocity_stream;
} tt_bias_update_params;
typedef struct tt_bias_update_io {
    const int8_t *folded;
    const float *folded_scale;
    const float *first_scale;
    int32_t *bias;     /* or the batch's accumulator */
    int32_t *velocity; /* NULL: no momentum */
} tt_bias_update_io;
void tt_bias_update(const tt_bias_update_params *params, const tt_bias_update_io *io,
                    const tt_step *step);

typedef struct tt_apply_weights_params {
    uint32_t count;
    uint16_t in_channels, trained_channels;
    const uint16_t *channels;
    float tau;
    uint16_t batch; /* samples whose rates make up that of the step */
    uint8_t state;
    uint32_t stream;
    tt_optimizer optimizer;
} tt_apply_weights_params;
typedef struct tt_apply_weights_io {
    int32_t *accumulator;
    int8_t *weights;
    void *fraction;
    float *bound;
    void *velocity;
    int32_t *velocity_bits;
} tt_apply_weights_io;
void tt_apply_weights(const tt_apply_weights_params *params, const tt_apply_weights_io *io,
                      const tt_step *step);

typedef struct tt_apply_bias_params {
    uint32_t count;
    int32_t momentum; /* Q16 */
    uint32_t velocity_stream;
} tt_apply_bias_params;
typedef struct tt_apply_bias_io {
    int32_t *accumulator;
    int32_t *bias;
    int32_t *velocity; /* NULL: no momentum */
} tt_apply_bias_io;
void tt_apply_bias(const tt_apply_bias_params *params, const tt_apply_bias_io *io,
                   const tt_step *step);

/* after the layers it is made of */
#include "tt_kernels_row.h"

#endif
