#define tt_conv2d_input_error tt_conv2d_input_error_portable
#include "tt_conv2d_input_error.c"
#undef tt_conv2d_input_error

#include "tt_simd.h"

void tt_conv2d_input_error(const tt_conv2d_input_error_params *params,
                           const tt_conv2d_input_error_io *io, const tt_step *step);

#if TT_SIMD

#define TT_MOST_TAPS 256

/* Input positions of one phase of the stride: all are reached by the same taps. */
typedef struct tt_phase {
    int32_t y, x; /* of the first position */
    int32_t taps, tap[TT_MOST_TAPS];
    int32_t pairs_each; /* pairs of output channels, the last one padded */
} tt_phase;

static tt_phase phase_of(const tt_conv2d_input_error_params *p, int32_t y, int32_t x)
{
    const tt_window *w = &p->window;
    tt_phase phase = {.y = y, .x = x, .pairs_each = (p->out_c + 1) / 2};
    for (int32_t ky = 0; ky < w->kernel_h; ky++) {
        for (int32_t kx = 0; kx < w->kernel_w; kx++) {
            /* the remainder of a negative number is 0 where it divides */
            if ((y + w->pad_h - ky * w->dilation_h) % w->stride_h == 0 &&
                (x + w->pad_w - kx * w->dilation_w) % w->stride_w == 0) {
                phase.tap[phase.taps++] = ky * w->kernel_w + kx;
            }
        }
    }
    return phase;
}

/* Weights of a phase as panels [in_c / 8][pairs][8][2]. */
TT_AVX2 static void pack_panels(const tt_conv2d_input_error_params *p, const int8_t *weights,
                                const tt_phase *phase)
{
    const int32_t taps = p->window.kernel_h * p->window.kernel_w;
    const size_t step = (size_t)taps * p->in_c; /* from one output channel to the next */
    int16_t *panel = tt_simd_panel;
    for (int32_t c = 0; c < p->in_c; c += TT_LANES) {
        const int32_t count = p->in_c - c;
        for (int32_t t = 0; t < phase->taps; t++) {
            const int8_t *filter = weights + phase->tap[t] * p->in_c + c;
            for (int32_t o = 0; o < p->out_c; o += 2) {
                const __m128i a = tt_load_bytes(filter, count);
                const __m128i b =
                    o + 1 < p->out_c ? tt_load_bytes(filter + step, count) : _mm_setzero_si128();
                _mm256_storeu_si256((__m256i *)panel, tt_pairs(a, b));
                filter += 2 * step;
                panel += 16;
            }
        }
    }
}

/* The folded errors that reach input position (y, x). */
TT_AVX2 static void stage_errors(int16_t *row, const tt_conv2d_input_error_params *p,
                                 const int8_t *folded, const tt_phase *phase, int32_t y, int32_t x)
{
    const tt_window *w = &p->window;
    for (int32_t t = 0; t < phase->taps; t++) {
        const int32_t ky = phase->tap[t] / w->kernel_w;
        const int32_t kx = phase->tap[t] % w->kernel_w;
        const int32_t position = tt_reached_through(w, y, x, ky, kx);
        int16_t *const to = row + t * 2 * phase->pairs_each;
        if (position < 0) {
            memset(to, 0, (size_t)(2 * phase->pairs_each) * sizeof *to);
            continue;
        }
        to[2 * phase->pairs_each - 1] = 0;
        tt_widen(to, folded + position * p->out_c, p->out_c, 0);
    }
}

/* Errors of `count` positions that are staged, at `places` in the input. */
TT_AVX2 static void multiply(const tt_conv2d_input_error_params *p, int8_t *error, int32_t pairs,
                             const int32_t places[TT_TILE_ROWS], int32_t count,
                             tt_requantizer8 *requantizer)
{
    const int16_t *panel = tt_simd_panel;
    const tt_tile_rows rows = {tt_simd_rows, (size_t)pairs * 2, 2};
    __m256i sums[2 * TT_TILE_ROWS];
    for (int32_t c = 0; c < p->in_c; c += 2 * TT_LANES) {
        const bool two = c + TT_LANES < p->in_c;
        if (two) {
            tt_tile8(&rows, panel, pairs, sums);
        } else {
            tt_tile4(&rows, panel, pairs, sums);
        }
        for (int32_t i = 0; i < (two ? 2 * TT_TILE_ROWS : TT_TILE_ROWS); i++) {
            const int32_t channel = c + i / TT_TILE_ROWS * TT_LANES;
            const int32_t at = places[i % TT_TILE_ROWS] * p->in_c + channel;
            if (i % TT_TILE_ROWS < count) {
                tt_store_bytes(error + at, tt_error8(requantizer, sums[i], (uint32_t)at),
                               p->in_c - channel);
            }
        }
        panel += (size_t)pairs * 32;
    }
}

TT_AVX2 static void run_phase(const tt_conv2d_input_error_params *p,
                              const tt_conv2d_input_error_io *io, const tt_phase *phase,
                              tt_requantizer8 *requantizer)
{
    const tt_window *w = &p->window;
    const int32_t pairs = phase->taps * phase->pairs_each;
    int32_t places[TT_TILE_ROWS];
    int32_t staged = 0;
    int16_t *const rows = tt_simd_rows;
    pack_panels(p, io->weights, phase);
    for (int32_t y = phase->y; y < w->in_h; y += w->stride_h) {
        for (int32_t x = phase->x; x < w->in_w; x += w->stride_w) {
            stage_errors(rows + 2 * pairs * staged, p, io->folded, phase, y, x);
            places[staged++] = y * w->in_w + x;
            if (staged == TT_TILE_ROWS) {
                multiply(p, io->error, pairs, places, staged, requantizer);
                staged = 0;
            }
        }
    }
    if (staged > 0) {
        multiply(p, io->error, pairs, places, staged, requantizer);
    }
}

TT_AVX2 static void run_phases(const tt_conv2d_input_error_params *p,
                               const tt_conv2d_input_error_io *io,
                               tt_error_requantizer *requantizer)
{
    tt_requantizer8 lanes = tt_requantizer8_of(requantizer);
    for (int32_t y = 0; y < p->window.stride_h && y < p->window.in_h; y++) {
        for (int32_t x = 0; x < p->window.stride_w && x < p->window.in_w; x++) {
            const tt_phase phase = phase_of(p, y, x);
            run_phase(p, io, &phase, &lanes);
        }
    }
    tt_requantizer8_end(&lanes, requantizer);
}

void tt_conv2d_input_error(const tt_conv2d_input_error_params *params,
                           const tt_conv2d_input_error_io *io, const tt_step *step)
{
    const int32_t taps = params->window.kernel_h * params->window.kernel_w;
    const int64_t row = (int64_t)taps * (params->out_c + 1);
    if (!tt_has_avx2() || taps > TT_MOST_TAPS || row > TT_ROWS_WORDS / 8 ||
        row * (params->in_c + TT_LANES) > TT_PANEL_WORDS) {
        tt_conv2d_input_error_portable(params, io, step);
        return;
    }
    const float unit = *io->folded_scale * params->gain;
    tt_error_requantizer requantizer =
        tt_error_begin(tt_error_limit(*io->range, unit), tt_stream_key(step, params->stream));
    run_phases(params, io, &requantizer);
    *io->error_scale = tt_error_scale(&requantizer, unit);
    *io->range = tt_error_next_range(&requantizer, *io->range, unit, step);
}

#else

void tt_conv2d_input_error(const tt_conv2d_input_error_params *params,
                           const tt_conv2d_input_error_io *io, const tt_step *step)
{
    tt_conv2d_input_error_portable(params, io, step);
}

#endif
