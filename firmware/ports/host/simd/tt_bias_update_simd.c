#define tt_bias_update tt_bias_update_portable
#include "tt_bias_update.c"
#undef tt_bias_update

#include "tt_simd.h"

void tt_bias_update(const tt_bias_update_params *params, const tt_bias_update_io *io,
                    const tt_step *step);

#if TT_SIMD

/* Sums of eight channels over all positions. */
TT_AVX2 static void sum_lanes(const tt_bias_update_params *p, const int8_t *folded, int32_t count,
                              int32_t sums[TT_LANES])
{
    __m256i sum = _mm256_setzero_si256();
    for (uint32_t i = 0; i < p->positions; i++) {
        const __m128i bytes = tt_load_bytes(folded + i * (uint32_t)p->channels, count);
        sum = _mm256_add_epi32(sum, _mm256_cvtepi8_epi32(bytes));
    }
    _mm256_storeu_si256((__m256i *)sums, sum);
}

void tt_bias_update(const tt_bias_update_params *params, const tt_bias_update_io *io,
                    const tt_step *step)
{
    if (!tt_has_avx2() || !step->apply || params->positions == 1u) {
        tt_bias_update_portable(params, io, step);
        return;
    }
    const tt_bias_step common = begin(params, io, step);
    int32_t sums[TT_LANES] = {0};
    for (int32_t c = 0; c < params->channels; c++) {
        if (c % TT_LANES == 0) {
            sum_lanes(params, io->folded + c, params->channels - c, sums);
        }
        move_bias(params, io, c, sums[c % TT_LANES], common);
    }
}

#else

void tt_bias_update(const tt_bias_update_params *params, const tt_bias_update_io *io,
                    const tt_step *step)
{
    tt_bias_update_portable(params, io, step);
}

#endif
