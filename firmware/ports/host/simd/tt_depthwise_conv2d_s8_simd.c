#define tt_depthwise_conv2d_s8_plain tt_depthwise_conv2d_s8_portable
#define tt_depthwise_conv2d_s8 tt_depthwise_conv2d_s8_unused
#include "tt_depthwise_conv2d_s8.c"
#undef tt_depthwise_conv2d_s8
#undef tt_depthwise_conv2d_s8_plain

#include "tt_simd.h"

void tt_depthwise_conv2d_s8_plain(const tt_depthwise_conv2d_s8_params *params,
                                  const tt_depthwise_conv2d_s8_io *io);
void tt_depthwise_conv2d_s8(const tt_depthwise_conv2d_s8_params *params,
                            const tt_depthwise_conv2d_s8_io *io);

#if TT_SIMD

#define TT_MOST_TAPS 256

/* Eight channels of the taps of a window, two taps at a time. */
typedef struct tt_tap_lanes {
    const int8_t *input, *weights; /* of the first of the channels */
    int32_t count;                 /* channels, 8 at most */
    int32_t in_c, zero_point;
    const int32_t *pixels, *taps; /* places of input and filter */
} tt_tap_lanes;

TT_AVX2_INLINE __m256i sum_taps(const tt_tap_lanes *l, int32_t taps)
{
    const __m256i zero_point = _mm256_set1_epi16((int16_t)l->zero_point);
    const __m128i outside = _mm_set1_epi8((int8_t)l->zero_point);
    __m256i sum = _mm256_setzero_si256();
    for (int32_t t = 0; t < taps; t += 2) {
        const bool both = t + 1 < taps;
        const __m128i x0 = tt_load_bytes(l->input + l->pixels[t] * l->in_c, l->count);
        const __m128i w0 = tt_load_bytes(l->weights + l->taps[t] * l->in_c, l->count);
        const __m128i x1 =
            both ? tt_load_bytes(l->input + l->pixels[t + 1] * l->in_c, l->count) : outside;
        const __m128i w1 = both ? tt_load_bytes(l->weights + l->taps[t + 1] * l->in_c, l->count)
                                : _mm_setzero_si128();
        sum =
            _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_sub_epi16(tt_pairs(x0, x1), zero_point),
                                                    tt_pairs(w0, w1)));
    }
    return sum;
}

/* Places of input and filter of the taps inside the input; returns how many. */
static int32_t find_taps(const tt_window *w, int32_t top, int32_t left, int32_t *pixels,
                         int32_t *taps)
{
    const tt_taps rows = tt_valid_taps(top, w->in_h, w->kernel_h, w->dilation_h);
    const tt_taps columns = tt_valid_taps(left, w->in_w, w->kernel_w, w->dilation_w);
    int32_t count = 0;
    for (int32_t ky = rows.first; ky < rows.end; ky++) {
        for (int32_t kx = columns.first; kx < columns.end; kx++) {
            pixels[count] = (top + ky * w->dilation_h) * w->in_w + left + kx * w->dilation_w;
            taps[count++] = ky * w->kernel_w + kx;
        }
    }
    return count;
}

TT_AVX2 static void convolve(const tt_depthwise_conv2d_s8_params *p,
                             const tt_depthwise_conv2d_s8_io *io)
{
    const tt_window *w = &p->window;
    int32_t pixels[TT_MOST_TAPS], taps[TT_MOST_TAPS];
    for (int32_t c = 0; c < p->in_c; c += TT_LANES) {
        const int32_t left = p->in_c - c;
        const tt_stage8 stage = tt_stage8_of(&p->output, io->bias, c, left);
        const tt_tap_lanes lanes = {
            io->input + c, io->weights + c,     left < TT_LANES ? left : TT_LANES,
            p->in_c,       p->input_zero_point, pixels,
            taps};
        for (int32_t i = 0; i < w->out_h * w->out_w; i++) {
            const int32_t count = find_taps(w, i / w->out_w * w->stride_h - w->pad_h,
                                            i % w->out_w * w->stride_w - w->pad_w, pixels, taps);
            tt_store_bytes(io->output + i * p->in_c + c,
                           tt_requantize8(&stage, &p->output, sum_taps(&lanes, count)), left);
        }
    }
}

void tt_depthwise_conv2d_s8_plain(const tt_depthwise_conv2d_s8_params *params,
                                  const tt_depthwise_conv2d_s8_io *io)
{
    if (tt_has_avx2() && params->multiple == 1u &&
        params->window.kernel_h * params->window.kernel_w <= TT_MOST_TAPS) {
        convolve(params, io);
    } else {
        tt_depthwise_conv2d_s8_portable(params, io);
    }
}

#else

void tt_depthwise_conv2d_s8_plain(const tt_depthwise_conv2d_s8_params *params,
                                  const tt_depthwise_conv2d_s8_io *io)
{
    tt_depthwise_conv2d_s8_portable(params, io);
}

#endif

void tt_depthwise_conv2d_s8(const tt_depthwise_conv2d_s8_params *params,
                            const tt_depthwise_conv2d_s8_io *io)
{
    tt_depthwise_conv2d_s8_plain(params, io);
}
