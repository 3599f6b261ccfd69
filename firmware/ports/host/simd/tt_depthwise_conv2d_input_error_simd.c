#define tt_depthwise_conv2d_input_error_plain tt_depthwise_conv2d_input_error_portable
#define tt_depthwise_conv2d_input_error tt_depthwise_conv2d_input_error_unused
#include "tt_depthwise_conv2d_input_error.c"
#undef tt_depthwise_conv2d_input_error
#undef tt_depthwise_conv2d_input_error_plain

#include "tt_simd.h"

void tt_depthwise_conv2d_input_error_plain(const tt_depthwise_conv2d_input_error_params *params,
                                           const tt_depthwise_conv2d_input_error_io *io,
                                           const tt_step *step);
void tt_depthwise_conv2d_input_error(const tt_depthwise_conv2d_input_error_params *params,
                                     const tt_depthwise_conv2d_input_error_io *io,
                                     const tt_step *step);

#if TT_SIMD

#define TT_MOST_TAPS 256

/* Output positions and taps that reach input position (y, x); returns how many. */
static int32_t find_taps(const tt_window *w, int32_t y, int32_t x, int32_t *positions,
                         int32_t *taps)
{
    int32_t count = 0;
    for (int32_t ky = 0; ky < w->kernel_h; ky++) {
        for (int32_t kx = 0; kx < w->kernel_w; kx++) {
            const int32_t position = tt_reached_through(w, y, x, ky, kx);
            if (position >= 0) {
                positions[count] = position;
                taps[count++] = ky * w->kernel_w + kx;
            }
        }
    }
    return count;
}

TT_AVX2 static void gather(const tt_depthwise_conv2d_input_error_params *p,
                           const tt_depthwise_conv2d_input_error_io *io,
                           tt_error_requantizer *requantizer)
{
    const tt_window *w = &p->window;
    const int32_t in_c = p->in_c;
    int32_t positions[TT_MOST_TAPS + 1], taps[TT_MOST_TAPS + 1];
    tt_requantizer8 lanes = tt_requantizer8_of(requantizer);
    for (int32_t i = 0; i < w->in_h * w->in_w; i++) {
        const int32_t count = find_taps(w, i / w->in_w, i % w->in_w, positions, taps);
        for (int32_t c = 0; c < in_c; c += TT_LANES) {
            const int32_t left = in_c - c;
            __m256i sum = _mm256_setzero_si256();
            for (int32_t t = 0; t < count; t += 2) {
                const bool both = t + 1 < count;
                const __m128i u0 = tt_load_bytes(io->folded + positions[t] * in_c + c, left);
                const __m128i f0 = tt_load_bytes(io->weights + taps[t] * in_c + c, left);
                const __m128i u1 =
                    both ? tt_load_bytes(io->folded + positions[t + 1] * in_c + c, left)
                         : _mm_setzero_si128();
                const __m128i f1 = both ? tt_load_bytes(io->weights + taps[t + 1] * in_c + c, left)
                                        : _mm_setzero_si128();
                sum = _mm256_add_epi32(sum, _mm256_madd_epi16(tt_pairs(u0, u1), tt_pairs(f0, f1)));
            }
            const int32_t at = i * in_c + c;
            tt_store_bytes(io->error + at, tt_error8(&lanes, sum, (uint32_t)at), left);
        }
    }
    tt_requantizer8_end(&lanes, requantizer);
}

void tt_depthwise_conv2d_input_error_plain(const tt_depthwise_conv2d_input_error_params *params,
                                           const tt_depthwise_conv2d_input_error_io *io,
                                           const tt_step *step)
{
    if (!tt_has_avx2() || params->multiple != 1u ||
        params->window.kernel_h * params->window.kernel_w > TT_MOST_TAPS) {
        tt_depthwise_conv2d_input_error_portable(params, io, step);
        return;
    }
    const float unit = *io->folded_scale * params->gain;
    tt_error_requantizer requantizer =
        tt_error_begin(tt_error_limit(*io->range, unit), tt_stream_key(step, params->stream));
    gather(params, io, &requantizer);
    *io->error_scale = tt_error_scale(&requantizer, unit);
    *io->range = tt_error_next_range(&requantizer, *io->range, unit, step);
}

#else

void tt_depthwise_conv2d_input_error_plain(const tt_depthwise_conv2d_input_error_params *params,
                                           const tt_depthwise_conv2d_input_error_io *io,
                                           const tt_step *step)
{
    tt_depthwise_conv2d_input_error_portable(params, io, step);
}

#endif

void tt_depthwise_conv2d_input_error(const tt_depthwise_conv2d_input_error_params *params,
                                     const tt_depthwise_conv2d_input_error_io *io,
                                     const tt_step *step)
{
    tt_depthwise_conv2d_input_error_plain(params, io, step);
}
