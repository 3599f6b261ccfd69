/* Depthwise products on the DSP extension: channels are staged as planes of int16, so that two taps
 * of a row are one word.
 *
 * Outputs of a row at even columns see their taps as the words (0,1), (2,3), ...; where the stride
 * is 1, those at odd columns see the same words with the weights moved by one: (-,0), (1,2), ...
 * Each filter row is therefore packed twice. Kernels are square, of size 3, 5 or 7, with equal
 * strides of 1 or 2; all else is left to the plain kernels.
 */
#ifndef TT_PLANES_DSP_H
#define TT_PLANES_DSP_H

#include "tt_dsp.h"

#if TT_DSP

#define TT_PLANES 4 /* channels staged at a time, and filters packed */

/* What the planes are cut from: an NHWC tensor, seen with borders of zeros. */
typedef struct tt_plane_source {
    const int8_t *data; /* at the first of the channels */
    int32_t channels;   /* of the tensor: bytes from pixel to pixel */
    int32_t height, width;
    int32_t pad_w; /* zeros to the left */
    int32_t zero_point;
} tt_plane_source;

/* Sizes of the planes of one operator. */
typedef struct tt_plane_shape {
    int32_t kernel, stride;
    int32_t up;       /* 2: the source is seen with zeros between its rows and columns */
    int32_t group;    /* outputs of a row made at a time */
    int32_t out_w;    /* a multiple of `group` */
    int32_t pitch;    /* words of a staged row */
    int32_t band;     /* output rows made at a time */
    int32_t plane;    /* words of a plane: rows of a band and its borders */
    int32_t packed;   /* words of a filter */
    uint32_t *planes; /* parts of the scratch */
    uint32_t *filters;
    int32_t *sums; /* [band][out_w] */
} tt_plane_shape;

/* Sizes for `width` outputs a row, and places in the scratch; `up` is 1. */
tt_plane_shape tt_plane_shape_of(int32_t kernel, int32_t stride, int32_t width, int32_t band,
                                 int32_t *scratch);

/* Stages rows first to end of the source (those outside are zeros) of `count` (1 to 4) channels.
 * Rows of zeros between the source's rows are not staged: tt_sum_plane_between skips them. */
void tt_stage_planes(const tt_plane_shape *shape, const tt_plane_source *source, int32_t first,
                     int32_t end, int32_t count);

/* Packs `count` (1 to 4) filters of channels that stand side by side, from tap to tap `step` bytes;
 * `flip` turns them by half a turn. */
void tt_pack_filters(const tt_plane_shape *shape, const int8_t *filter, int32_t step, int32_t count,
                     bool flip);

/* A plane, and a packed filter. */
typedef struct tt_plane_pair {
    const uint32_t *plane;
    const uint32_t *filter;
} tt_plane_pair;

/* sums[rows][out_w] = initial + the products of one plane with a packed filter. */
void tt_sum_plane(const tt_plane_shape *shape, tt_plane_pair pair, int32_t rows, int32_t initial);

/* The same with `up` of 2, from 0: output rows see every second row of the filter, those at even
 * places (at odd ones, if the first row of outputs is `odd`), then the others, in turn. */
void tt_sum_plane_between(const tt_plane_shape *shape, tt_plane_pair pair, int32_t rows, bool odd);

#endif

#endif
