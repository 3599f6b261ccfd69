#define tt_fold_error tt_fold_error_portable
#include "tt_fold_error.c"
#undef tt_fold_error

#include "tt_simd.h"

void tt_fold_error(const tt_fold_error_params *params, const tt_fold_error_io *io,
                   const tt_step *step);

#if TT_SIMD

/* All bits of the lanes whose element, from `i` on, was inside its clamp bounds. */
TT_AVX2_INLINE __m256i open_lanes(const tt_fold_error_params *p, const tt_fold_error_io *io,
                                  uint32_t i, int32_t count)
{
    if (io->mask != NULL) {
        const uint32_t last = (i + (uint32_t)count - 1u) >> 3;
        uint32_t bits = io->mask[i >> 3];
        bits |= last > (i >> 3) ? (uint32_t)io->mask[last] << 8 : 0u;
        bits >>= i & 7u;
        const __m256i lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
        return _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32((int32_t)bits), lane), lane);
    }
    if (io->forward_output == NULL) {
        return _mm256_set1_epi32(-1);
    }
    const __m256i value = _mm256_cvtepi8_epi32(tt_load_bytes(io->forward_output + i, count));
    return _mm256_and_si256(_mm256_cmpgt_epi32(value, _mm256_set1_epi32(p->act_min)),
                            _mm256_cmpgt_epi32(_mm256_set1_epi32(p->act_max), value));
}

TT_AVX2 static void fold(const tt_fold_error_params *p, const tt_fold_error_io *io,
                         tt_error_requantizer *requantizer)
{
    tt_requantizer8 lanes = tt_requantizer8_of(requantizer);
    for (int32_t c = 0; c < p->channels; c += TT_LANES) {
        const int32_t left = p->channels - c;
        const int32_t count = left < TT_LANES ? left : TT_LANES;
        int32_t factors[TT_LANES] = {0};
        for (int32_t i = 0; i < count; i++) {
            factors[i] = p->factors[c + i];
        }
        const __m256i factor = _mm256_loadu_si256((const __m256i *)factors);
        for (uint32_t position = 0; position < p->positions; position++) {
            const uint32_t at = position * (uint32_t)p->channels + (uint32_t)c;
            const __m256i error = _mm256_cvtepi8_epi32(tt_load_bytes(io->error + at, count));
            const __m256i product =
                _mm256_and_si256(_mm256_mullo_epi32(error, factor), open_lanes(p, io, at, count));
            tt_store_bytes(io->result + at, tt_error8(&lanes, product, at), count);
        }
    }
    tt_requantizer8_end(&lanes, requantizer);
}

void tt_fold_error(const tt_fold_error_params *params, const tt_fold_error_io *io,
                   const tt_step *step)
{
    if (!tt_has_avx2()) {
        tt_fold_error_portable(params, io, step);
        return;
    }
    const float unit = (*io->error_scale * params->gain) * 0x1p-14f;
    tt_error_requantizer requantizer =
        tt_error_begin(tt_error_limit(*io->range, unit), tt_stream_key(step, params->stream));
    fold(params, io, &requantizer);
    *io->result_scale = tt_error_scale(&requantizer, unit);
    *io->range = tt_error_next_range(&requantizer, *io->range, unit, step);
}

#else

void tt_fold_error(const tt_fold_error_params *params, const tt_fold_error_io *io,
                   const tt_step *step)
{
    tt_fold_error_portable(params, io, step);
}

#endif
