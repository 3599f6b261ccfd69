#include "tt_planes_dsp.h"

#if TT_DSP

#include "tt_matmul_dsp.h"

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
    s.packed = kernel * ((kernel + 1) / 2) * (stride == 1 ? 2 : 1);
    s.planes = (uint32_t *)(void *)scratch;
    s.filters = s.planes + TT_PLANES * s.plane;
    s.sums = (int32_t *)(void *)(s.filters + TT_PLANES * s.packed);
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

/* Where the next word of each of the four planes goes. */
typedef struct tt_plane_cursor {
    uint32_t *a, *b, *c, *d;
} tt_plane_cursor;

/* Two pixels' words to one word in each plane. */
static inline void put(tt_plane_cursor *to, uint32_t offset, uint32_t left, uint32_t right)
{
    const uint32_t low = tt_pack_low(left, right);
    const uint32_t high = tt_pack_high(left, right);
    *to->a++ = tt_extend_02(offset, low);
    *to->b++ = tt_extend_13(offset, low);
    *to->c++ = tt_extend_02(offset, high);
    *to->d++ = tt_extend_13(offset, high);
}

static inline void put_zeros(tt_plane_cursor *to, const uint32_t *end)
{
    while (to->a < end) {
        __asm__ volatile("str %[zero], [%[a]], #4\n"
                         "str %[zero], [%[b]], #4\n"
                         "str %[zero], [%[c]], #4\n"
                         "str %[zero], [%[d]], #4\n"
                         : [a] "+r"(to->a), [b] "+r"(to->b), [c] "+r"(to->c), [d] "+r"(to->d)
                         : [zero] "r"(0)
                         : "memory");
    }
}

/* `pairs` >= 1 pairs of pixels, `step` bytes from pixel to pixel; returns the pixel after them. */
static const int8_t *put_pairs(tt_plane_cursor *cursor, uint32_t offset, const int8_t *row,
                               int32_t step, int32_t pairs)
{
    tt_plane_cursor to = *cursor;
    const uint32_t *const end = to.a + pairs;
    __asm__ volatile(
        "1:\n"
        "ldr r4, [%[row]]\n"
        "ldr r5, [%[row], %[step]]\n"
        "add %[row], %[row], %[step], lsl #1\n"
        "pkhbt r6, r4, r5, lsl #16\n"
        "pkhtb r5, r5, r4, asr #16\n"
        "sxtab16 r4, %[offset], r6\n"
        "str r4, [%[a]], #4\n"
        "sxtab16 r6, %[offset], r6, ror #8\n"
        "str r6, [%[b]], #4\n"
        "sxtab16 r4, %[offset], r5\n"
        "str r4, [%[c]], #4\n"
        "sxtab16 r5, %[offset], r5, ror #8\n"
        "str r5, [%[d]], #4\n"
        "ldr r4, %[end]\n"
        "cmp %[a], r4\n"
        "bne 1b\n"
        : [row] "+r"(row), [a] "+r"(to.a), [b] "+r"(to.b), [c] "+r"(to.c), [d] "+r"(to.d)
        : [step] "r"(step), [offset] "r"(offset), [end] "m"(end)
        : "r4", "r5", "r6", "cc", "memory");
    *cursor = to;
    return row;
}

static inline int32_t smaller(int32_t a, int32_t b) { return a < b ? a : b; }

/* A row of four channels. */
static void stage_words(tt_plane_cursor to, const uint32_t *end, const tt_plane_source *source,
                        const int8_t *row)
{
    const uint32_t offset = tt_both_halves(-source->zero_point);
    const uint32_t zeros = (uint32_t)(uint8_t)source->zero_point * 0x01010101u;
    const int32_t channels = source->channels;
    int32_t left = source->width;
    put_zeros(&to, to.a + source->pad_w / 2);
    if ((source->pad_w & 1) != 0) {
        put(&to, offset, zeros, tt_load32(row));
        row += channels;
        left--;
    }
    const int32_t pairs = smaller(left / 2, (int32_t)(end - to.a));
    if (pairs > 0) {
        row = put_pairs(&to, offset, row, channels, pairs);
    }
    if (to.a < end) {
        if ((left & 1) != 0) {
            put(&to, offset, tt_load32(row), zeros);
        }
        put_zeros(&to, end);
    }
}

/* A row of four channels with a zero after each pixel, or before it where the padding is odd. */
static void stage_words_between(tt_plane_cursor to, const uint32_t *end,
                                const tt_plane_source *source, const int8_t *row)
{
    const bool odd = (source->pad_w & 1) != 0;
    put_zeros(&to, to.a + source->pad_w / 2);
    for (int32_t left = source->width; to.a < end && left > 0; left--) {
        const uint32_t word = tt_load32(row);
        put(&to, 0, odd ? 0 : word, odd ? word : 0);
        row += source->channels;
    }
    put_zeros(&to, end);
}

/* A row of less than four channels. */
static void stage_few(const tt_plane_shape *shape, tt_plane_cursor to,
                      const tt_plane_source *source, const int8_t *row, int32_t count)
{
    const uint32_t offset = tt_both_halves(-source->zero_point);
    const uint32_t zeros = (uint32_t)(uint8_t)source->zero_point * 0x01010101u;
    int32_t column = -source->pad_w;
    for (int32_t i = 0; i < shape->pitch; i++) {
        put(&to, offset, pixel(source, shape->up, row, column, count, zeros),
            pixel(source, shape->up, row, column + 1, count, zeros));
        column += 2;
    }
}

void tt_stage_planes(const tt_plane_shape *shape, const tt_plane_source *source, int32_t first,
                     int32_t end, int32_t count)
{
    uint32_t *at = shape->planes;
    for (int32_t y = first; y < end; y++) {
        tt_plane_cursor to = {at, at + shape->plane, at + 2 * shape->plane, at + 3 * shape->plane};
        const int8_t *row = source->data + y * source->width * source->channels;
        at += shape->pitch;
        if (y < 0 || y >= source->height) {
            put_zeros(&to, at);
        } else if (count < TT_PLANES) {
            stage_few(shape, to, source, row, count);
        } else if (shape->up == 1) {
            stage_words(to, at, source, row);
        } else {
            stage_words_between(to, at, source, row);
        }
    }
}

/* Two taps of four channels to one word in each filter. */
static inline void put_taps(uint32_t *to, int32_t packed, uint32_t left, uint32_t right)
{
    const uint32_t low = tt_pack_low(left, right);
    const uint32_t high = tt_pack_high(left, right);
    to[0] = tt_extend_02(0, low);
    to[packed] = tt_extend_13(0, low);
    to[2 * packed] = tt_extend_02(0, high);
    to[3 * packed] = tt_extend_13(0, high);
}

/* One row of four filters; `stride` 2 needs no pairs from odd taps. */
static void pack_row(uint32_t *to, const tt_plane_shape *shape, const int8_t *tap, int32_t step)
{
    const int32_t pairs = (shape->kernel + 1) / 2;
    const int32_t packed = shape->packed;
    const bool both = shape->stride == 1;
    uint32_t before = 0;
    for (int32_t i = 0; i < pairs; i++) {
        const uint32_t left = tt_load32(tap);
        uint32_t right = 0;
        if (i + 1 < pairs) {
            right = tt_load32(tap + step);
        }
        if (both) {
            put_taps(to + pairs + i, packed, before, left);
        }
        put_taps(to + i, packed, left, right);
        before = right;
        tap += 2 * step;
    }
}

/* One row of less than four filters, by way of a copy. */
static void pack_few(uint32_t *to, const tt_plane_shape *shape, const int8_t *tap, int32_t step,
                     int32_t count)
{
    uint32_t taps[7];
    for (int32_t i = 0; i < shape->kernel; i++) {
        taps[i] = tt_load_part(tap, count);
        tap += step;
    }
    pack_row(to, shape, (const int8_t *)taps, 4);
}

void tt_pack_filters(const tt_plane_shape *shape, const int8_t *filter, int32_t step, int32_t count,
                     bool flip)
{
    const int32_t kernel = shape->kernel;
    if (flip) {
        filter += (kernel * kernel - 1) * step;
        step = -step;
    }
    /* every second row, then the others, where only those meet the same rows of the source */
    uint32_t *to = shape->filters;
    int32_t row = 0;
    for (int32_t n = 0; n < kernel; n++) {
        const int8_t *tap = filter + row * kernel * step;
        if (count == TT_PLANES) {
            pack_row(to, shape, tap, step);
        } else {
            pack_few(to, shape, tap, step, count);
        }
        to += (kernel + 1) / 2 * (shape->stride == 1 ? 2 : 1);
        row += shape->up;
        if (row >= kernel) {
            row = 1;
        }
    }
}

#endif
