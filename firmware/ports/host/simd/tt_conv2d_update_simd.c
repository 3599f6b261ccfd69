#define tt_conv2d_update_plain tt_conv2d_update_portable
#define tt_conv2d_update tt_conv2d_update_unused
#include "tt_conv2d_update.c"
#undef tt_conv2d_update
#undef tt_conv2d_update_plain

#include "tt_simd.h"

void tt_conv2d_update_plain(const tt_conv2d_update_params *params, const tt_conv2d_update_io *io,
                            const tt_step *step);
void tt_conv2d_update(const tt_conv2d_update_params *params, const tt_conv2d_update_io *io,
                      const tt_step *step);

#if TT_SIMD

/* Output channels padded to whole vectors. */
static int32_t padded(int32_t out_c) { return (out_c + TT_LANES - 1) / TT_LANES * TT_LANES; }

/* The folded errors as pairs of positions [pairs][out_c, padded][2]; what is missing is 0. */
TT_AVX2 static void stage_errors(const tt_conv2d_update_params *p, const int8_t *folded,
                                 int32_t pairs)
{
    const int32_t positions = p->window.out_h * p->window.out_w;
    int16_t *to = tt_simd_rows;
    for (int32_t k = 0; k < pairs; k++) {
        const int8_t *const u = folded + 2 * k * p->out_c;
        for (int32_t o = 0; o < p->out_c; o += TT_LANES) {
            const __m128i first = tt_load_bytes(u + o, p->out_c - o);
            const __m128i second = 2 * k + 1 < positions
                                       ? tt_load_bytes(u + p->out_c + o, p->out_c - o)
                                       : _mm_setzero_si128();
            _mm256_storeu_si256((__m256i *)to, tt_pairs(first, second));
            to += 2 * TT_LANES;
        }
    }
}

/* Place in the input of output position `i` through a tap, or -1 outside. */
static int32_t place_of(const tt_window *w, int32_t i, int32_t ky, int32_t kx)
{
    const int32_t y = i / w->out_w * w->stride_h - w->pad_h + ky * w->dilation_h;
    const int32_t x = i % w->out_w * w->stride_w - w->pad_w + kx * w->dilation_w;
    return y < 0 || y >= w->in_h || x < 0 || x >= w->in_w ? -1 : y * w->in_w + x;
}

/* What a tap reads, less the zero point, as panels [in_c / 8][pairs][8][2]. */
TT_AVX2 static void stage_tap(const tt_conv2d_update_params *p, const int8_t *input, int32_t pairs,
                              int32_t ky, int32_t kx)
{
    const int32_t positions = p->window.out_h * p->window.out_w;
    const int32_t in_c = p->trained_channels;
    const __m128i outside = _mm_set1_epi8((int8_t)p->input_zero_point);
    const __m256i zero_point = _mm256_set1_epi16((int16_t)p->input_zero_point);
    int16_t *const panels = tt_simd_panel;
    for (int32_t k = 0; k < pairs; k++) {
        const int32_t a = place_of(&p->window, 2 * k, ky, kx);
        const int32_t b = 2 * k + 1 < positions ? place_of(&p->window, 2 * k + 1, ky, kx) : -1;
        for (int32_t c = 0; c < in_c; c += TT_LANES) {
            const __m128i first = a < 0 ? outside : tt_load_bytes(input + a * in_c + c, in_c - c);
            const __m128i second = b < 0 ? outside : tt_load_bytes(input + b * in_c + c, in_c - c);
            _mm256_storeu_si256(
                (__m256i *)(panels + ((size_t)(c / TT_LANES) * (size_t)pairs + (size_t)k) * 16),
                _mm256_sub_epi16(tt_pairs(first, second), zero_point));
        }
    }
}

/* Eight gradients, or as many as there are. */
TT_AVX2_INLINE void keep(int32_t *to, __m256i sums, int32_t count)
{
    if (count >= TT_LANES) {
        _mm256_storeu_si256((__m256i *)to, sums);
        return;
    }
    int32_t lanes[TT_LANES];
    _mm256_storeu_si256((__m256i *)lanes, sums);
    for (int32_t i = 0; i < count; i++) {
        to[i] = lanes[i];
    }
}

/* Gradients of one tap into sums [out_c][taps][in_c]. */
TT_AVX2 static void multiply(const tt_conv2d_update_params *p, int32_t pairs, int32_t tap,
                             int32_t taps)
{
    const int32_t in_c = p->trained_channels;
    const int16_t *const panels = tt_simd_panel, *const errors = tt_simd_rows;
    int32_t *const to = tt_simd_sums + tap * in_c;
    for (int32_t o = 0; o < p->out_c; o += TT_TILE_ROWS) {
        const tt_tile_rows rows = {errors + 2 * o, 2, 2 * (size_t)padded(p->out_c)};
        for (int32_t c = 0; c < in_c; c += 2 * TT_LANES) {
            const int16_t *const panel = panels + (size_t)c * (size_t)pairs * 2;
            const bool two = c + TT_LANES < in_c;
            __m256i sums[2 * TT_TILE_ROWS];
            if (two) {
                tt_tile8(&rows, panel, pairs, sums);
            } else {
                tt_tile4(&rows, panel, pairs, sums);
            }
            for (int32_t i = 0; i < TT_TILE_ROWS && o + i < p->out_c; i++) {
                int32_t *const row = to + (o + i) * taps * in_c + c;
                keep(row, sums[i], in_c - c);
                if (two) {
                    keep(row + TT_LANES, sums[TT_TILE_ROWS + i], in_c - c - TT_LANES);
                }
            }
        }
    }
}

static void apply(const tt_conv2d_update_params *params, const tt_conv2d_update_io *io,
                  const tt_step *step)
{
    tt_updater updater = tt_update_begin(&params->rule, io, step);
    const int32_t taps = params->window.kernel_h * params->window.kernel_w;
    const int32_t *const gradients = tt_simd_sums;
    uint32_t index = 0;
    for (int32_t o = 0; o < params->out_c; o++) {
        const tt_step_multiplier multiplier =
            tt_step_multiplier_of(updater.base * params->rule.factors[o]);
        /* without chosen channels all taps of a filter are one row */
        const bool whole = params->channels == NULL && params->trained_channels == params->in_c;
        const int32_t rows = whole ? 1 : taps;
        const int32_t count = whole ? taps * params->in_c : params->trained_channels;
        for (int32_t i = 0; i < rows; i++) {
            const tt_weight_row row = {.gradient = gradients + index,
                                       .step = 1,
                                       .count = count,
                                       .gradient_max = params->window.out_h * params->window.out_w *
                                                       (128 * 255),
                                       .multiplier = multiplier,
                                       .at = (uint32_t)((o * taps + i) * params->in_c),
                                       .channels = params->channels,
                                       .index = index};
            tt_update_row(&updater, io, &row);
            index += (uint32_t)count;
        }
    }
    tt_update_end(&updater, io);
}

void tt_conv2d_update_plain(const tt_conv2d_update_params *params, const tt_conv2d_update_io *io,
                            const tt_step *step)
{
    const tt_window *w = &params->window;
    const int32_t taps = w->kernel_h * w->kernel_w;
    const int32_t pairs = (w->out_h * w->out_w + 1) / 2;
    const int64_t sums = (int64_t)params->out_c * taps * params->trained_channels;
    if (!tt_has_avx2() || sums > TT_ROWS_WORDS ||
        (int64_t)pairs * 2 * padded(params->out_c) > TT_ROWS_WORDS ||
        (int64_t)pairs * 2 * (params->trained_channels + TT_LANES) > TT_PANEL_WORDS) {
        tt_conv2d_update_portable(params, io, step);
        return;
    }
    stage_errors(params, io->folded, pairs);
    for (int32_t tap = 0; tap < taps; tap++) {
        stage_tap(params, io->input, pairs, tap / w->kernel_w, tap % w->kernel_w);
        multiply(params, pairs, tap, taps);
    }
    apply(params, io, step);
}

#else

void tt_conv2d_update_plain(const tt_conv2d_update_params *params, const tt_conv2d_update_io *io,
                            const tt_step *step)
{
    tt_conv2d_update_portable(params, io, step);
}

#endif

void tt_conv2d_update(const tt_conv2d_update_params *params, const tt_conv2d_update_io *io,
                      const tt_step *step)
{
    tt_conv2d_update_plain(params, io, step);
}
