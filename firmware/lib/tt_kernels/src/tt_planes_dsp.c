#include "tt_planes_dsp.h"

#if TT_DSP

tt_plane_shape tt_plane_shape_of(int32_t kernel, int32_t stride, int32_t width, int32_t band,
                                 int32_t *scratch)
{
    tt_plane_shape s;
    s.kernel = kernel;
    s.stride = stride;
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
static uint32_t pixel(const tt_plane_source *source, const int8_t *row, int32_t column,
                      int32_t count, uint32_t zeros)
{
    if (source->up == 2) {
        if ((column & 1) != 0) {
            return zeros;
        }
        column >>= 1;
    }
    if (column < 0 || column >= source->width) {
        return zeros;
    }
    const int8_t *at = row + column * source->channels;
    if (count == TT_PLANES) {
        return tt_load32(at);
    }
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

static void stage_row(const tt_plane_shape *shape, const tt_plane_source *source, uint32_t *to,
                      const int8_t *row, int32_t count)
{
    const uint32_t offset = tt_both_halves(-source->zero_point);
    const uint32_t zeros = (uint32_t)(uint8_t)source->zero_point * 0x01010101u;
    const int32_t plane = shape->plane;
    const int32_t channels = source->channels;
    int32_t column = -source->pad_w;
    uint32_t *const end = to + shape->pitch;
    while (to < end) {
        if (source->up == 1 && count == TT_PLANES && column >= 0) {
            /* the inside, without questions */
            const int8_t *at = row + column * channels;
            for (; to < end && column + 1 < source->width; to++) {
                put(to, plane, offset, tt_load32(at), tt_load32(at + channels));
                at += 2 * channels;
                column += 2;
            }
            if (to == end) {
                return;
            }
        }
        put(to, plane, offset, pixel(source, row, column, count, zeros),
            pixel(source, row, column + 1, count, zeros));
        to++;
        column += 2;
    }
}

void tt_stage_planes(const tt_plane_shape *shape, const tt_plane_source *source, int32_t first,
                     int32_t end, int32_t count)
{
    uint32_t *to = shape->planes;
    for (int32_t row = first; row < end; row++) {
        int32_t y = row - source->pad_h;
        bool inside = y >= 0;
        if (source->up == 2) {
            inside = inside && (y & 1) == 0;
            y >>= 1;
        }
        if (inside && y < source->height) {
            stage_row(shape, source, to, source->data + y * source->width * source->channels,
                      count);
        } else {
            for (int32_t i = 0; i < shape->pitch; i++) {
                to[i] = 0;
                to[i + shape->plane] = 0;
                to[i + 2 * shape->plane] = 0;
                to[i + 3 * shape->plane] = 0;
            }
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
    for (int32_t row = 0; row < kernel; row++) {
        int32_t taps[8];
        for (int32_t i = 0; i < kernel; i++) {
            taps[i] = *filter;
            filter += step;
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
