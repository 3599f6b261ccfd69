#define tt_add_s8 tt_add_s8_portable
#include "tt_add_s8.c"
#undef tt_add_s8

#include "tt_simd.h"

void tt_add_s8(const tt_add_s8_params *params, const tt_add_s8_io *io);

#if TT_SIMD

/* A constant multiplier and shift, for eight lanes. */
typedef struct tt_scale8 {
    __m256i multiplier, left, right;
} tt_scale8;

TT_AVX2_INLINE tt_scale8 scale8(int32_t multiplier, int32_t shift)
{
    const tt_scale8 result = {_mm256_set1_epi32(multiplier),
                              _mm256_set1_epi32(shift > 0 ? shift : 0),
                              _mm256_set1_epi32(shift > 0 ? 0 : -shift)};
    return result;
}

TT_AVX2_INLINE __m256i multiply8(__m256i value, const tt_scale8 *scale)
{
    return tt_rounding_divide8(
        tt_high_mul8(_mm256_sllv_epi32(value, scale->left), scale->multiplier), scale->right);
}

TT_AVX2_INLINE __m256i operand8(const int8_t *bytes, int32_t count, int32_t zero_point,
                                const tt_scale8 *scale)
{
    const __m256i value = _mm256_sub_epi32(_mm256_cvtepi8_epi32(tt_load_bytes(bytes, count)),
                                           _mm256_set1_epi32(zero_point));
    return multiply8(_mm256_slli_epi32(value, TT_ADD_LEFT_SHIFT), scale);
}

TT_AVX2 static void add_run(const tt_add_s8_params *p, const tt_add_s8_io *io, int32_t count)
{
    const tt_scale8 scale_a = scale8(p->multiplier_a, p->shift_a);
    const tt_scale8 scale_b = scale8(p->multiplier_b, p->shift_b);
    const tt_scale8 scale = scale8(p->multiplier, p->shift);
    for (int32_t i = 0; i < count; i += TT_LANES) {
        const int32_t left = count - i;
        const __m256i sum = _mm256_add_epi32(operand8(io->a + i, left, p->zero_point_a, &scale_a),
                                             operand8(io->b + i, left, p->zero_point_b, &scale_b));
        const __m256i moved =
            _mm256_add_epi32(multiply8(sum, &scale), _mm256_set1_epi32(p->zero_point));
        tt_store_bytes(io->output + i, tt_pack8(tt_clamp8(moved, p->act_min, p->act_max)), left);
    }
}

/* Elements of one run where neither operand repeats; 0 otherwise. */
static int32_t run_of(const tt_add_s8_params *p)
{
    int32_t count = 1;
    for (int32_t i = 3; i >= 0; i--) {
        const int32_t n = p->loops.extents[i];
        if (n != 1 && (p->loops.strides_a[i] != count || p->loops.strides_b[i] != count)) {
            return 0;
        }
        count *= n;
    }
    return count;
}

void tt_add_s8(const tt_add_s8_params *params, const tt_add_s8_io *io)
{
    const int32_t count = tt_has_avx2() ? run_of(params) : 0;
    if (count > 0) {
        add_run(params, io, count);
    } else {
        tt_add_s8_portable(params, io);
    }
}

#else

void tt_add_s8(const tt_add_s8_params *params, const tt_add_s8_io *io)
{
    tt_add_s8_portable(params, io);
}

#endif
