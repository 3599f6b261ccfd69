#define tt_conv2d_s8 tt_conv2d_s8_portable
#include "tt_conv2d_s8.c"
#undef tt_conv2d_s8

#include "tt_simd.h"

void tt_conv2d_s8(const tt_conv2d_s8_params *params, const tt_conv2d_s8_io *io);

#if TT_SIMD

/* Eight filters of `size` bytes -> panel [pairs][8][2]; what is missing is 0. */
TT_AVX2 static void pack_filters(int16_t *panel, const int8_t *filters, int32_t size, int32_t count)
{
    int32_t k = 0;
    if (count >= TT_LANES) {
        for (; k + 16 <= size; k += 16) {
            __m128i a[8], b[8];
            for (int32_t i = 0; i < 8; i++) {
                a[i] = _mm_loadu_si128((const __m128i *)(filters + (size_t)i * (size_t)size + k));
            }
            /* transpose eight by eight pairs of bytes */
            for (int32_t i = 0; i < 4; i++) {
                b[2 * i] = _mm_unpacklo_epi16(a[2 * i], a[2 * i + 1]);
                b[2 * i + 1] = _mm_unpackhi_epi16(a[2 * i], a[2 * i + 1]);
            }
            for (int32_t i = 0; i < 2; i++) {
                for (int32_t j = 0; j < 2; j++) {
                    a[4 * i + 2 * j] = _mm_unpacklo_epi32(b[4 * i + j], b[4 * i + 2 + j]);
                    a[4 * i + 2 * j + 1] = _mm_unpackhi_epi32(b[4 * i + j], b[4 * i + 2 + j]);
                }
            }
            for (int32_t j = 0; j < 4; j++) {
                const __m128i low = _mm_unpacklo_epi64(a[j], a[4 + j]);
                const __m128i high = _mm_unpackhi_epi64(a[j], a[4 + j]);
                _mm256_storeu_si256((__m256i *)panel, _mm256_cvtepi8_epi16(low));
                _mm256_storeu_si256((__m256i *)(panel + 16), _mm256_cvtepi8_epi16(high));
                panel += 32;
            }
        }
    }
    for (; k < size; k += 2) {
        for (int32_t i = 0; i < TT_LANES; i++) {
            const int8_t *f = filters + (size_t)i * (size_t)size + k;
            *panel++ = i < count ? f[0] : 0;
            *panel++ = i < count && k + 1 < size ? f[1] : 0;
        }
    }
}

/* The window of output position (oy, ox), less the zero point. */
TT_AVX2 static void stage_window(int16_t *row, const tt_conv2d_s8_params *p, const int8_t *input,
                                 int32_t oy, int32_t ox)
{
    const tt_window *w = &p->window;
    const int32_t in_c = p->in_c;
    const int32_t left = ox * w->stride_w - w->pad_w;
    const tt_taps columns = tt_valid_taps(left, w->in_w, w->kernel_w, w->dilation_w);
    for (int32_t ky = 0; ky < w->kernel_h; ky++) {
        int16_t *const to = row + ky * w->kernel_w * in_c;
        const int32_t y = oy * w->stride_h - w->pad_h + ky * w->dilation_h;
        if (y < 0 || y >= w->in_h || columns.end <= columns.first) {
            memset(to, 0, (size_t)(w->kernel_w * in_c) * sizeof *to);
            continue;
        }
        const int8_t *from = input + (y * w->in_w + left) * in_c;
        memset(to, 0, (size_t)(columns.first * in_c) * sizeof *to);
        memset(to + columns.end * in_c, 0,
               (size_t)((w->kernel_w - columns.end) * in_c) * sizeof *to);
        if (w->dilation_w == 1u) {
            tt_widen(to + columns.first * in_c, from + columns.first * in_c,
                     (columns.end - columns.first) * in_c, p->input_zero_point);
            continue;
        }
        for (int32_t kx = columns.first; kx < columns.end; kx++) {
            tt_widen(to + kx * in_c, from + kx * w->dilation_w * in_c, in_c, p->input_zero_point);
        }
    }
}

/* Output channels from `c` on, of the staged windows, 4 at most. */
TT_AVX2_INLINE void finish(const tt_conv2d_s8_params *p, const tt_conv2d_s8_io *io, int32_t c,
                           const __m256i sums[TT_TILE_ROWS], int8_t *out, int32_t windows)
{
    const int32_t left = p->out_c - c;
    const tt_stage8 stage = tt_stage8_of(&p->output, io->bias, c, left);
    for (int32_t i = 0; i < windows; i++) {
        tt_store_bytes(out + i * p->out_c + c, tt_requantize8(&stage, &p->output, sums[i]), left);
    }
}

TT_AVX2 static void multiply(const tt_conv2d_s8_params *p, const tt_conv2d_s8_io *io, int32_t pairs,
                             int8_t *out, int32_t windows)
{
    const size_t panel_words = (size_t)pairs * 16;
    const int16_t *panel = tt_simd_panel;
    const tt_tile_rows rows = {tt_simd_rows, (size_t)pairs * 2, 2};
    int32_t c = 0;
    for (; c + TT_LANES < p->out_c; c += 2 * TT_LANES) {
        __m256i sums[2 * TT_TILE_ROWS];
        tt_tile8(&rows, panel, pairs, sums);
        finish(p, io, c, sums, out, windows);
        finish(p, io, c + TT_LANES, sums + TT_TILE_ROWS, out, windows);
        panel += 2 * panel_words;
    }
    if (c < p->out_c) {
        __m256i sums[TT_TILE_ROWS];
        tt_tile4(&rows, panel, pairs, sums);
        finish(p, io, c, sums, out, windows);
    }
}

TT_AVX2 static void convolve(const tt_conv2d_s8_params *p, const tt_conv2d_s8_io *io, int32_t size)
{
    const int32_t pairs = (size + 1) / 2;
    int16_t *const panel = tt_simd_panel, *const rows = tt_simd_rows;
    for (int32_t c = 0; c < p->out_c; c += TT_LANES) {
        pack_filters(panel + (size_t)c * (size_t)pairs * 2, io->weights + (size_t)c * (size_t)size,
                     size, p->out_c - c);
    }
    const int32_t positions = p->window.out_h * p->window.out_w;
    for (int32_t first = 0; first < positions; first += TT_TILE_ROWS) {
        const int32_t left = positions - first;
        const int32_t windows = left < TT_TILE_ROWS ? left : TT_TILE_ROWS;
        for (int32_t i = 0; i < windows; i++) {
            int16_t *const row = rows + 2 * pairs * i;
            row[2 * pairs - 1] = 0;
            stage_window(row, p, io->input, (first + i) / p->window.out_w,
                         (first + i) % p->window.out_w);
        }
        multiply(p, io, pairs, io->output + first * p->out_c, windows);
    }
}

void tt_conv2d_s8(const tt_conv2d_s8_params *params, const tt_conv2d_s8_io *io)
{
    const int32_t size = params->window.kernel_h * params->window.kernel_w * params->in_c;
    const int64_t words = ((int64_t)params->out_c + TT_LANES) * (size + 2);
    if (tt_has_avx2() && words <= TT_PANEL_WORDS && size < TT_ROWS_WORDS / 8) {
        convolve(params, io, size);
    } else {
        tt_conv2d_s8_portable(params, io);
    }
}

#else

void tt_conv2d_s8(const tt_conv2d_s8_params *params, const tt_conv2d_s8_io *io)
{
    tt_conv2d_s8_portable(params, io);
}

#endif
