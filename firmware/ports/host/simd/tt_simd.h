/* AVX2 for the simulator's kernels: the bits of the portable ones, eight lanes at a time.
 *
 * A file tt_X_simd.c stands in for tt_X.c: it includes that file under another name, and falls
 * back on it where the machine or the operator is not of the kind it is written for.
 */
#ifndef TT_SIMD_H
#define TT_SIMD_H

#include "tt_error.h"
#include "tt_fixed_point.h"
#include "tt_kernels.h"

#if defined(__x86_64__) && !defined(TT_PORTABLE)
#define TT_SIMD 1
#else
#define TT_SIMD 0
#endif

#if TT_SIMD

#include <immintrin.h>
#include <string.h>

#define TT_AVX2 __attribute__((target("avx2")))
#define TT_AVX2_INLINE __attribute__((target("avx2"), always_inline)) static inline
#define TT_LANES 8

static inline bool tt_has_avx2(void) { return __builtin_cpu_supports("avx2") != 0; }

/* The output position that reads input position (y, x) through a tap, or -1. */
static inline int32_t tt_reached_through(const tt_window *w, int32_t y, int32_t x, int32_t ky,
                                         int32_t kx)
{
    const int32_t down = y + w->pad_h - ky * w->dilation_h;
    const int32_t across = x + w->pad_w - kx * w->dilation_w;
    if (down < 0 || down % w->stride_h != 0 || down / w->stride_h >= w->out_h || across < 0 ||
        across % w->stride_w != 0 || across / w->stride_w >= w->out_w) {
        return -1;
    }
    return down / w->stride_h * w->out_w + across / w->stride_w;
}

/* ---- bytes ---- */

/* Up to eight bytes; the rest is 0. */
TT_AVX2_INLINE __m128i tt_load_bytes(const void *bytes, int32_t count)
{
    if (count >= TT_LANES) {
        return _mm_loadl_epi64(bytes);
    }
    int64_t value = 0;
    memcpy(&value, bytes, (size_t)count);
    return _mm_cvtsi64_si128(value);
}

TT_AVX2_INLINE void tt_store_bytes(int8_t *bytes, __m128i value, int32_t count)
{
    const int64_t low = _mm_cvtsi128_si64(value);
    if (count >= TT_LANES) {
        memcpy(bytes, &low, TT_LANES);
    } else {
        memcpy(bytes, &low, (size_t)count);
    }
}

/* Eight int32 to int8, saturated, in order. */
TT_AVX2_INLINE __m128i tt_pack8(__m256i value)
{
    const __m128i words =
        _mm_packs_epi32(_mm256_castsi256_si128(value), _mm256_extracti128_si256(value, 1));
    return _mm_packs_epi16(words, words);
}

/* Eight pairs: a[0] b[0] a[1] b[1] ... as int16. */
TT_AVX2_INLINE __m256i tt_pairs(__m128i a, __m128i b)
{
    return _mm256_cvtepi8_epi16(_mm_unpacklo_epi8(a, b));
}

TT_AVX2_INLINE __m256i tt_clamp8(__m256i value, int32_t low, int32_t high)
{
    return _mm256_min_epi32(_mm256_max_epi32(value, _mm256_set1_epi32(low)),
                            _mm256_set1_epi32(high));
}

/* ---- fixed point; tt_fixed_point.h has the definitions ---- */

/* (2 * a * b + 2^31) >> 32: ties up, as the portable function has it. b is not negative. */
TT_AVX2_INLINE __m256i tt_high_mul8(__m256i a, __m256i b)
{
    const __m256i nudge = _mm256_set1_epi64x(INT64_C(1) << 30);
    const __m256i even = _mm256_add_epi64(_mm256_mul_epi32(a, b), nudge);
    const __m256i odd = _mm256_add_epi64(
        _mm256_mul_epi32(_mm256_srli_epi64(a, 32), _mm256_srli_epi64(b, 32)), nudge);
    return _mm256_blend_epi32(_mm256_srli_epi64(even, 31), _mm256_slli_epi64(odd, 1), 0xAA);
}

TT_AVX2_INLINE __m256i tt_rounding_divide8(__m256i value, __m256i exponent)
{
    const __m256i one = _mm256_set1_epi32(1);
    const __m256i mask = _mm256_sub_epi32(_mm256_sllv_epi32(one, exponent), one);
    const __m256i threshold =
        _mm256_add_epi32(_mm256_srli_epi32(mask, 1), _mm256_srli_epi32(value, 31));
    const __m256i up = _mm256_cmpgt_epi32(_mm256_and_si256(value, mask), threshold);
    return _mm256_sub_epi32(_mm256_srav_epi32(value, exponent), up);
}

/* The output stage of eight channels. */
typedef struct tt_stage8 {
    __m256i multiplier, left, right, bias;
} tt_stage8;

TT_AVX2_INLINE tt_stage8 tt_stage8_of(const tt_output_stage *stage, const int32_t *bias, int32_t c,
                                      int32_t count)
{
    int32_t multiplier[TT_LANES] = {0}, left[TT_LANES] = {0}, right[TT_LANES] = {0};
    int32_t start[TT_LANES] = {0};
    for (int32_t i = 0; i < count && i < TT_LANES; i++) {
        const int32_t shift = stage->shift[c + i];
        multiplier[i] = stage->multiplier[c + i];
        left[i] = shift > 0 ? shift : 0;
        right[i] = shift > 0 ? 0 : -shift;
        start[i] = bias != NULL ? bias[c + i] : 0;
    }
    const tt_stage8 result = {
        _mm256_loadu_si256((const __m256i *)multiplier), _mm256_loadu_si256((const __m256i *)left),
        _mm256_loadu_si256((const __m256i *)right), _mm256_loadu_si256((const __m256i *)start)};
    return result;
}

/* Accumulators of eight channels to int8. */
TT_AVX2_INLINE __m128i tt_requantize8(const tt_stage8 *s, const tt_output_stage *stage,
                                      __m256i accumulator)
{
    const __m256i value = _mm256_sllv_epi32(_mm256_add_epi32(accumulator, s->bias), s->left);
    const __m256i scaled = tt_rounding_divide8(tt_high_mul8(value, s->multiplier), s->right);
    const __m256i moved = _mm256_add_epi32(scaled, _mm256_set1_epi32(stage->zero_point));
    return tt_pack8(tt_clamp8(moved, stage->act_min, stage->act_max));
}

/* ---- random numbers and errors; tt_random.h, tt_error.h ---- */

/* Draws of the elements from `index` on. */
TT_AVX2_INLINE __m256i tt_random8(tt_key key, uint32_t index)
{
    const __m256i turns = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256i x = _mm256_add_epi32(_mm256_set1_epi32((int32_t)(key.first + index * key.stride)),
                                 _mm256_mullo_epi32(turns, _mm256_set1_epi32((int32_t)key.stride)));
    x = _mm256_xor_si256(x, _mm256_srli_epi32(x, 15));
    x = _mm256_mullo_epi32(x, _mm256_set1_epi32((int32_t)TT_RANDOM_FIRST));
    x = _mm256_xor_si256(x, _mm256_srli_epi32(x, 12));
    return _mm256_mullo_epi32(x, _mm256_set1_epi32((int32_t)TT_RANDOM_SECOND));
}

/* An error requantizer whose elements may come in any order. */
typedef struct tt_requantizer8 {
    __m256i half, multiplier, seen;
    __m128i shift;
    tt_key key;
} tt_requantizer8;

TT_AVX2_INLINE tt_requantizer8 tt_requantizer8_of(const tt_error_requantizer *r)
{
    const tt_requantizer8 result = {_mm256_set1_epi32(r->half),
                                    _mm256_set1_epi32(r->multiplier),
                                    _mm256_setzero_si256(),
                                    _mm_cvtsi32_si128(r->shift),
                                    {r->counter, r->stride}};
    return result;
}

/* Elements from `index` on. Lanes that are not stored must hold 0. */
TT_AVX2_INLINE __m128i tt_error8(tt_requantizer8 *r, __m256i accumulator, uint32_t index)
{
    r->seen = _mm256_max_epi32(r->seen, _mm256_abs_epi32(accumulator));
    const __m256i noise = _mm256_srli_epi32(tt_random8(r->key, index), 16);
    const __m256i moved = _mm256_sra_epi32(_mm256_add_epi32(accumulator, r->half), r->shift);
    const __m256i product = _mm256_mullo_epi32(tt_clamp8(moved, -32768, 32767), r->multiplier);
    return tt_pack8(_mm256_srai_epi32(_mm256_add_epi32(product, noise), 16));
}

/* Gives what was seen back to `r`. */
TT_AVX2_INLINE void tt_requantizer8_end(const tt_requantizer8 *lanes, tt_error_requantizer *r)
{
    int32_t seen[TT_LANES];
    _mm256_storeu_si256((__m256i *)seen, lanes->seen);
    for (int32_t i = 0; i < TT_LANES; i++) {
        r->seen = seen[i] > r->seen ? seen[i] : r->seen;
    }
}

/* ---- matrix products ---- */

/* Working memory of one thread. Larger operators go to the portable kernels. */
#define TT_PANEL_WORDS (INT32_C(1) << 19)
#define TT_ROWS_WORDS (INT32_C(1) << 19)
extern _Thread_local int16_t tt_simd_panel[TT_PANEL_WORDS]; /* [columns / 8][pairs][8][2] */
extern _Thread_local int16_t tt_simd_rows[TT_ROWS_WORDS];   /* pairs of rows */
extern _Thread_local int32_t tt_simd_sums[TT_ROWS_WORDS];

#define TT_TILE_ROWS 4

/* Four rows of pairs: pair k of row r stands at first + r * row + k * pair. */
typedef struct tt_tile_rows {
    const int16_t *first;
    size_t row, pair;
} tt_tile_rows;

/* sums[r] = row r times a panel of eight columns. Functions of their own: inlined, the sums do not
 * stay in registers. */
void tt_tile4(const tt_tile_rows *rows, const int16_t *panel, int32_t pairs,
              __m256i sums[TT_TILE_ROWS]);

/* The same with two panels side by side: sums[0..3] of the first, sums[4..7] of the second. */
void tt_tile8(const tt_tile_rows *rows, const int16_t *panel, int32_t pairs,
              __m256i sums[2 * TT_TILE_ROWS]);

/* Bytes to int16, each less `offset`. */
TT_AVX2_INLINE void tt_widen(int16_t *to, const int8_t *from, int32_t count, int32_t offset)
{
    const __m256i less = _mm256_set1_epi16((int16_t)offset);
    int32_t i = 0;
    for (; i + 16 <= count; i += 16) {
        const __m128i bytes = _mm_loadu_si128((const __m128i *)(from + i));
        _mm256_storeu_si256((__m256i *)(to + i),
                            _mm256_sub_epi16(_mm256_cvtepi8_epi16(bytes), less));
    }
    for (; i < count; i++) {
        to[i] = (int16_t)(from[i] - offset);
    }
}

#endif

#endif
