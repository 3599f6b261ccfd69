#define tt_update_row tt_update_row_portable
#include "tt_update_row.c"
#undef tt_update_row

#include "tt_simd.h"

void tt_update_row(tt_updater *updater, const tt_update_io *io, const tt_weight_row *row);

#if TT_SIMD

/* high_delta of eight gradients, and the sum of the squares onto `squares`. */
TT_AVX2_INLINE __m256i deltas8(__m256i gradient, const tt_delta_rule *rule, __m256i *squares)
{
    const __m256i multiplier = _mm256_set1_epi64x(rule->multiplier);
    const __m256i rounding = _mm256_set1_epi64x(rule->rounding);
    const __m256i moved = _mm256_sll_epi32(gradient, _mm_cvtsi32_si128(rule->left));
    const __m256i even = _mm256_sub_epi64(rounding, _mm256_mul_epi32(moved, multiplier));
    const __m256i odd =
        _mm256_sub_epi64(rounding, _mm256_mul_epi32(_mm256_srli_epi64(moved, 32), multiplier));
    const __m256i high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
    const __m256i delta = tt_clamp8(_mm256_sra_epi32(high, _mm_cvtsi32_si128(rule->right)),
                                    TT_DELTA_MIN, TT_DELTA_MAX);
    const __m256i upper = _mm256_srli_epi64(delta, 32);
    *squares = _mm256_add_epi64(*squares, _mm256_mul_epi32(delta, delta));
    *squares = _mm256_add_epi64(*squares, _mm256_mul_epi32(upper, upper));
    return delta;
}

/* As move_row, for weights and gradients side by side; returns how many were moved. */
TT_AVX2 static int32_t move_lanes(tt_updater *updater, const tt_update_io *io,
                                  const tt_weight_row *row, const tt_delta_rule *rule)
{
    int8_t *const weights = io->weights + row->at;
    int8_t *const fractions = (int8_t *)io->fraction + row->index;
    __m256i squares = _mm256_setzero_si256(), weights2 = squares;
    int32_t i = 0;
    for (; i + TT_LANES <= row->count; i += TT_LANES) {
        const __m256i delta =
            deltas8(_mm256_loadu_si256((const __m256i *)(row->gradient + i)), rule, &squares);
        const __m256i draw = tt_random8(updater->key, row->index + (uint32_t)i);
        const __m256i drawn = tt_clamp8(_mm256_add_epi32(delta, _mm256_srli_epi32(draw, 24)),
                                        TT_DELTA_MIN, TT_DELTA_MAX);
        const __m256i step = _mm256_srai_epi32(drawn, 8);
        const __m256i weight = _mm256_cvtepi8_epi32(_mm_loadl_epi64((__m128i *)(weights + i)));
        const __m256i fraction = _mm256_cvtepi8_epi32(_mm_loadl_epi64((__m128i *)(fractions + i)));
        const __m256i total = tt_clamp8(
            _mm256_add_epi32(_mm256_add_epi32(_mm256_slli_epi32(weight, 8), fraction), step),
            -TT_WEIGHT_MAX * 256, TT_WEIGHT_MAX * 256);
        const __m256i high = _mm256_srai_epi32(_mm256_add_epi32(total, _mm256_set1_epi32(128)), 8);
        tt_store_bytes(weights + i, tt_pack8(high), TT_LANES);
        tt_store_bytes(fractions + i, tt_pack8(_mm256_sub_epi32(total, _mm256_slli_epi32(high, 8))),
                       TT_LANES);
        weights2 = _mm256_add_epi32(weights2, _mm256_mullo_epi32(high, high));
    }
    int64_t squares_of[4];
    uint32_t weights2_of[TT_LANES];
    _mm256_storeu_si256((__m256i *)squares_of, squares);
    _mm256_storeu_si256((__m256i *)weights2_of, weights2);
    for (int32_t lane = 0; lane < TT_LANES; lane++) {
        updater->weights2 += weights2_of[lane];
        updater->squares += lane < 4 ? (uint64_t)squares_of[lane] : 0u;
    }
    return i;
}

void tt_update_row(tt_updater *updater, const tt_update_io *io, const tt_weight_row *row)
{
    tt_delta_rule rule;
    /* a lane's sum of squared weights has room for so many */
    const int32_t most = INT32_MAX / (TT_WEIGHT_MAX * TT_WEIGHT_MAX) * TT_LANES;
    tt_weight_row rest = *row;
    if (tt_has_avx2() && io->accumulator == NULL && updater->move &&
        updater->state == TT_STATE_INT16 && updater->optimizer == NULL && row->channels == NULL &&
        row->step == 1 && row->count < most && delta_rule(row, &rule)) {
        const int32_t moved = move_lanes(updater, io, row, &rule);
        rest.gradient += moved;
        rest.count -= moved;
        rest.at += (uint32_t)moved;
        rest.index += (uint32_t)moved;
    }
    tt_update_row_portable(updater, io, &rest);
}

#else

void tt_update_row(tt_updater *updater, const tt_update_io *io, const tt_weight_row *row)
{
    tt_update_row_portable(updater, io, row);
}

#endif
