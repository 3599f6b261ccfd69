#include "tt_simd.h"

#if TT_SIMD

_Thread_local __attribute__((aligned(64))) int16_t tt_simd_panel[TT_PANEL_WORDS];
_Thread_local __attribute__((aligned(64))) int16_t tt_simd_rows[TT_ROWS_WORDS];
_Thread_local int32_t tt_simd_sums[TT_ROWS_WORDS];

/* Two int16 in every pair of lanes. */
TT_AVX2_INLINE __m256i pair_of(const int16_t *row)
{
    int32_t pair;
    memcpy(&pair, row, sizeof pair);
    return _mm256_set1_epi32(pair);
}

/* One panel, or two: a constant, so that each of the functions below has its own loop. */
TT_AVX2_INLINE void tile(const tt_tile_rows *rows, const int16_t *panel, int32_t pairs, bool two,
                         __m256i *sums)
{
    const int16_t *row0 = rows->first;
    const int16_t *row1 = row0 + rows->row, *row2 = row1 + rows->row, *row3 = row2 + rows->row;
    const int16_t *const other = panel + (size_t)pairs * 16;
    const __m256i zero = _mm256_setzero_si256();
    __m256i s0 = zero, s1 = zero, s2 = zero, s3 = zero;
    __m256i t0 = zero, t1 = zero, t2 = zero, t3 = zero;
    for (size_t k = 0; k < (size_t)pairs; k++) {
        const __m256i a0 = pair_of(row0), a1 = pair_of(row1);
        const __m256i a2 = pair_of(row2), a3 = pair_of(row3);
        const __m256i b = _mm256_load_si256((const __m256i *)(panel + k * 16));
        s0 = _mm256_add_epi32(s0, _mm256_madd_epi16(b, a0));
        s1 = _mm256_add_epi32(s1, _mm256_madd_epi16(b, a1));
        s2 = _mm256_add_epi32(s2, _mm256_madd_epi16(b, a2));
        s3 = _mm256_add_epi32(s3, _mm256_madd_epi16(b, a3));
        if (two) {
            const __m256i c = _mm256_load_si256((const __m256i *)(other + k * 16));
            t0 = _mm256_add_epi32(t0, _mm256_madd_epi16(c, a0));
            t1 = _mm256_add_epi32(t1, _mm256_madd_epi16(c, a1));
            t2 = _mm256_add_epi32(t2, _mm256_madd_epi16(c, a2));
            t3 = _mm256_add_epi32(t3, _mm256_madd_epi16(c, a3));
        }
        row0 += rows->pair;
        row1 += rows->pair;
        row2 += rows->pair;
        row3 += rows->pair;
    }
    sums[0] = s0;
    sums[1] = s1;
    sums[2] = s2;
    sums[3] = s3;
    if (two) {
        sums[4] = t0;
        sums[5] = t1;
        sums[6] = t2;
        sums[7] = t3;
    }
}

TT_AVX2 void tt_tile4(const tt_tile_rows *rows, const int16_t *panel, int32_t pairs,
                      __m256i sums[TT_TILE_ROWS])
{
    tile(rows, panel, pairs, false, sums);
}

TT_AVX2 void tt_tile8(const tt_tile_rows *rows, const int16_t *panel, int32_t pairs,
                      __m256i sums[2 * TT_TILE_ROWS])
{
    tile(rows, panel, pairs, true, sums);
}

#endif
