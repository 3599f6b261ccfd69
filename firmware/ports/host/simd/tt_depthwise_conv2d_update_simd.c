#define tt_depthwise_conv2d_update tt_depthwise_conv2d_update_portable
#include "tt_depthwise_conv2d_update.c"
#undef tt_depthwise_conv2d_update

#include "tt_simd.h"

void tt_depthwise_conv2d_update(const tt_depthwise_conv2d_update_params *params,
                                const tt_depthwise_conv2d_update_io *io, const tt_step *step);

#if TT_SIMD

/* Gradients of `left` channels from `c` on, of one tap, over all output rows. */
TT_AVX2 static __m256i sum_tap(const tt_depthwise_conv2d_update_params *p, const tt_update_io *io,
                               int32_t tap, int32_t c)
{
    const tt_window *w = &p->window;
    const int32_t ky = tap / w->kernel_w * w->dilation_h - w->pad_h;
    const int32_t kx = tap % w->kernel_w * w->dilation_w - w->pad_w;
    const int32_t in_c = p->in_c, left = in_c - c, across = w->stride_w * in_c;
    const __m256i zero_point = _mm256_set1_epi16((int16_t)p->input_zero_point);
    /* columns whose input is inside */
    const int32_t first = kx < 0 ? (-kx + w->stride_w - 1) / w->stride_w : 0;
    const int32_t past = w->in_w > kx ? (w->in_w - kx + w->stride_w - 1) / w->stride_w : 0;
    const int32_t end = past < w->out_w ? past : w->out_w;
    __m256i sum = _mm256_setzero_si256();
    for (int32_t oy = 0; oy < w->out_h; oy++) {
        const int32_t y = oy * w->stride_h + ky;
        if (y < 0 || y >= w->in_h || first >= end) {
            continue;
        }
        const int8_t *u = io->folded + (oy * w->out_w + first) * in_c + c;
        const int8_t *x = io->input + (y * w->in_w + first * w->stride_w + kx) * in_c + c;
        int32_t ox = first;
        for (; ox + 1 < end; ox += 2) {
            const __m256i value = _mm256_sub_epi16(
                tt_pairs(tt_load_bytes(x, left), tt_load_bytes(x + across, left)), zero_point);
            const __m256i error = tt_pairs(tt_load_bytes(u, left), tt_load_bytes(u + in_c, left));
            sum = _mm256_add_epi32(sum, _mm256_madd_epi16(value, error));
            u += 2 * in_c;
            x += 2 * across;
        }
        if (ox < end) {
            const __m128i nothing = _mm_setzero_si128();
            const __m256i value =
                _mm256_sub_epi16(tt_pairs(tt_load_bytes(x, left), nothing), zero_point);
            const __m256i error = tt_pairs(tt_load_bytes(u, left), nothing);
            sum = _mm256_add_epi32(sum, _mm256_madd_epi16(value, error));
        }
    }
    return sum;
}

TT_AVX2 static void update(const tt_depthwise_conv2d_update_params *p, const tt_update_io *io,
                           const tt_step *step)
{
    tt_updater updater = tt_update_begin(&p->rule, io, step);
    const int32_t taps = p->window.kernel_h * p->window.kernel_w;
    for (int32_t c = 0; c < p->in_c; c += TT_LANES) {
        const int32_t count = p->in_c - c < TT_LANES ? p->in_c - c : TT_LANES;
        tt_step_multiplier multiplier[TT_LANES];
        for (int32_t i = 0; i < count; i++) {
            multiplier[i] = tt_step_multiplier_of(updater.base * p->rule.factors[c + i]);
        }
        for (int32_t tap = 0; tap < taps; tap++) {
            int32_t gradient[TT_LANES];
            _mm256_storeu_si256((__m256i *)gradient, sum_tap(p, io, tap, c));
            for (int32_t i = 0; i < count; i++) {
                const uint32_t index = (uint32_t)(tap * p->in_c + c + i);
                tt_update_weight(&updater, io, tt_weight_delta(gradient[i], multiplier[i]), index,
                                 index);
            }
        }
    }
    tt_update_end(&updater, io);
}

void tt_depthwise_conv2d_update(const tt_depthwise_conv2d_update_params *params,
                                const tt_depthwise_conv2d_update_io *io, const tt_step *step)
{
    if (tt_has_avx2() && params->multiple == 1u) {
        update(params, io, step);
    } else {
        tt_depthwise_conv2d_update_portable(params, io, step);
    }
}

#else

void tt_depthwise_conv2d_update(const tt_depthwise_conv2d_update_params *params,
                                const tt_depthwise_conv2d_update_io *io, const tt_step *step)
{
    tt_depthwise_conv2d_update_portable(params, io, step);
}

#endif
