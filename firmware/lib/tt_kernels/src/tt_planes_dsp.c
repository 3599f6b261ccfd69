#include "tt_planes_dsp.h"

#if TT_DSP

tt_plane_shape tt_plane_shape_of(int32_t kernel, int32_t stride, int32_t width, int32_t band,
                                 int32_t *scratch)
{
    tt_plane_shape s;
    s.kernel = kernel;
    s.stride = stride;
    s.up = 1;
    s.group = kernel == 3 || (kernel == 5 && stride == 1) ? 4 : 2;
    s.out_w = (width + s.group - 1) / s.group * s.group;
    s.pitch = ((s.out_w - 1) * stride + kernel + 1) / 2;
    s.band = band;
    s.plane = ((band - 1) * stride + kernel) * s.pitch;
    s.planes = (uint32_t *)(void *)scratch;
    s.filter = s.planes + TT_PLANES * s.plane;
    s.sums = (int32_t *)(void *)(s.filter + TT_PACKED_FILTER_WORDS);
    return s;
}

/* The word of a pixel's channels; where the zeros are, `zeros`. */
static uint32_t pixel(const tt_plane_source *source, int32_t up, const int8_t *row, int32_t column,
                      int32_t count, uint32_t zeros)
{
    if (up == 2) {
        if ((column & 1) != 0) {
            return zeros;
        }
        column >>= 1;
    }
    if (column < 0 || column >= source->width) {
        return zeros;
    }
    const int8_t *at = row + column * source->channels;
    uint32_t word = 0;
    for (int32_t i = 0; i < count; i++) {
        word |= (uint32_t)(uint8_t)at[i] << (8 * i);
    }
    return word;
}

/* Two pixels' words to one word in each of the four planes. */
static inline void put(uint32_t *to, int32_t plane, uint32_t offset, uint32_t left, uint32_t right)
{
    const uint32_t low = tt_pack_low(left, right);
    const uint32_t high = tt_pack_high(left, right);
    to[0] = tt_extend_02(offset, low);
    to[plane] = tt_extend_13(offset, low);
    to[2 * plane] = tt_extend_02(offset, high);
    to[3 * plane] = tt_extend_13(offset, high);
}

static uint32_t *put_zeros(uint32_t *to, const uint32_t *end, int32_t plane)
{
    for (; to < end; to++) {
        to[0] = 0;
        to[plane] = 0;
        to[2 * plane] = 0;
        to[3 * plane] = 0;
    }
    return to;
}

/* A row of four channels. */
static void stage_words(const tt_plane_shape *shape, const tt_plane_source *source, uint32_t *to,
                        const int8_t *row)
{
    const uint32_t offset = tt_both_halves(-source->zero_point);
    const uint32_t zeros = (uint32_t)(uint8_t)source->zero_point * 0x01010101u;
    const int32_t plane = shape->plane;
    const int32_t channels = source->channels;
    const uint32_t *const end = to + shape->pitch;
    int32_t left = source->width;
    to = put_zeros(to, to + source->pad_w / 2, plane);
    if ((source->pad_w & 1) != 0) {
        put(to++, plane, offset, zeros, tt_load32(row));
        row += channels;
        left--;
    }
    for (; to < end && left > 1; left -= 2) {
        put(to++, plane, offset, tt_load32(row), tt_load32(row + channels));
        row += 2 * channels;
    }
    if (to < end && left > 0) {
        put(to++, plane, offset, tt_load32(row), zeros);
    }
    put_zeros(to, end, plane);
}

/* A row of four channels with a zero after each pixel, or before it where the padding is odd. */
static void stage_words_between(const tt_plane_shape *shape, const tt_plane_source *source,
                                uint32_t *to, const int8_t *row)
{
    const int32_t plane = shape->plane;
    const uint32_t *const end = to + shape->pitch;
    const bool odd = (source->pad_w & 1) != 0;
    to = put_zeros(to, to + source->pad_w / 2, plane);
    for (int32_t left = source->width; to < end && left > 0; left--) {
        const uint32_t word = tt_load32(row);
        put(to++, plane, 0, odd ? 0 : word, odd ? word : 0);
        row += source->channels;
    }
    put_zeros(to, end, plane);
}

static void stage_row(const tt_plane_shape *shape, const tt_plane_source *source, uint32_t *to,
                      const int8_t *row, int32_t count)
{
    const uint32_t offset = tt_both_halves(-source->zero_point);
    const uint32_t zeros = (uint32_t)(uint8_t)source->zero_point * 0x01010101u;
    if (count == TT_PLANES && shape->up == 1) {
        stage_words(shape, source, to, row);
    } else if (count == TT_PLANES) {
        stage_words_between(shape, source, to, row);
    } else {
        int32_t column = -source->pad_w;
        for (int32_t i = 0; i < shape->pitch; i++) {
            put(to + i, shape->plane, offset,
                pixel(source, shape->up, row, column, count, zeros),
                pixel(source, shape->up, row, column + 1, count, zeros));
            column += 2;
        }
    }
}

void tt_stage_planes(const tt_plane_shape *shape, const tt_plane_source *source, int32_t first,
                     int32_t end, int32_t count)
{
    uint32_t *to = shape->planes;
    for (int32_t row = first; row < end; row++) {
        if (row >= 0 && row < source->height) {
            stage_row(shape, source, to, source->data + row * source->width * source->channels,
                      count);
        } else {
            put_zeros(to, to + shape->pitch, shape->plane);
        }
        to += shape->pitch;
    }
}

static inline uint32_t two_taps(int32_t left, int32_t right)
{
    return tt_pack_low((uint32_t)left, (uint32_t)right);
}

void tt_pack_filter(const tt_plane_shape *shape, const int8_t *filter, int32_t step, bool flip)
{
    const int32_t kernel = shape->kernel;
    uint32_t *to = shape->filter;
    if (flip) {
        filter += (kernel * kernel - 1) * step;
        step = -step;
    }
    /* every second row, then the others, where only those meet the same rows of the source */
    const int32_t row_step = shape->up;
    int32_t row = 0;
    for (int32_t n = 0; n < kernel; n++) {
        int32_t taps[8];
        const int8_t *tap = filter + row * kernel * step;
        for (int32_t i = 0; i < kernel; i++) {
            taps[i] = *tap;
            tap += step;
        }
        row += row_step;
        if (row >= kernel) {
            row = 1;
        }
        taps[kernel] = 0;
        for (int32_t i = 0; i < kernel; i += 2) {
            *to++ = two_taps(taps[i], taps[i + 1]);
        }
        if (shape->stride == 1) {
            *to++ = two_taps(0, taps[0]);
            for (int32_t i = 1; i < kernel; i += 2) {
                *to++ = two_taps(taps[i], taps[i + 1]);
            }
        }
    }
}

#endif
