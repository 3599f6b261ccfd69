/* The DSP extension of Cortex-M4, M7 and M33: two 16-bit products an instruction.
 *
 * TT_DSP says whether these kernels are built in place of the portable ones, which give the same
 * bits. TT_PORTABLE turns them off. They need an optimizing build: without one the compiler has
 * too few registers for the inner loops.
 */
#ifndef TT_DSP_H
#define TT_DSP_H

#if defined(__ARM_FEATURE_DSP) && defined(__OPTIMIZE__) && !defined(TT_PORTABLE)
#define TT_DSP 1
#else
#define TT_DSP 0
#endif

#if TT_DSP

#include <string.h>

#include "tt_types.h"

/* Bytes 0 and 2 (1 and 3) of x, sign-extended, each plus its half of `offset`. */
static inline uint32_t tt_extend_02(uint32_t offset, uint32_t x)
{
    uint32_t result;
    __asm__("sxtab16 %0, %1, %2" : "=r"(result) : "r"(offset), "r"(x));
    return result;
}

static inline uint32_t tt_extend_13(uint32_t offset, uint32_t x)
{
    uint32_t result;
    __asm__("sxtab16 %0, %1, %2, ror #8" : "=r"(result) : "r"(offset), "r"(x));
    return result;
}

/* The low halves of a and b (the high ones): a below, b above. */
static inline uint32_t tt_pack_low(uint32_t a, uint32_t b)
{
    uint32_t result;
    __asm__("pkhbt %0, %1, %2, lsl #16" : "=r"(result) : "r"(a), "r"(b));
    return result;
}

static inline uint32_t tt_pack_high(uint32_t a, uint32_t b)
{
    uint32_t result;
    __asm__("pkhtb %0, %1, %2, asr #16" : "=r"(result) : "r"(b), "r"(a));
    return result;
}

static inline int32_t tt_smlad(uint32_t a, uint32_t b, int32_t sum)
{
    int32_t result;
    __asm__("smlad %0, %1, %2, %3" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
    return result;
}

/* (a * b + 2^31) >> 32 */
static inline int32_t tt_smmulr(int32_t a, int32_t b)
{
    int32_t result;
    __asm__("smmulr %0, %1, %2" : "=r"(result) : "r"(a), "r"(b));
    return result;
}

/* ((high << 32) - a * b) >> 32 */
static inline int32_t tt_smmls(int32_t high, int32_t a, int32_t b)
{
    int32_t result;
    __asm__("smmls %0, %1, %2, %3" : "=r"(result) : "r"(a), "r"(b), "r"(high));
    return result;
}

/* Sums and differences of halves, saturated. */
static inline uint32_t tt_qadd16(uint32_t a, uint32_t b)
{
    uint32_t result;
    __asm__("qadd16 %0, %1, %2" : "=r"(result) : "r"(a), "r"(b));
    return result;
}

static inline uint32_t tt_qsub16(uint32_t a, uint32_t b)
{
    uint32_t result;
    __asm__("qsub16 %0, %1, %2" : "=r"(result) : "r"(a), "r"(b));
    return result;
}

/* Bits 8 to 23 of a above those of b. */
static inline uint32_t tt_pack_asr8(int32_t a, int32_t b)
{
    uint32_t result;
    __asm__("pkhtb %0, %1, %2, asr #8" : "=r"(result) : "r"(a << 8), "r"(b));
    return result;
}

static inline int32_t tt_saturate8(int32_t value)
{
    int32_t result;
    __asm__("ssat %0, #8, %1" : "=r"(result) : "r"(value));
    return result;
}

static inline int32_t tt_saturate24(int32_t value)
{
    int32_t result;
    __asm__("ssat %0, #24, %1" : "=r"(result) : "r"(value));
    return result;
}

static inline int32_t tt_saturate16(int32_t value)
{
    int32_t result;
    __asm__("ssat %0, #16, %1" : "=r"(result) : "r"(value));
    return result;
}

/* value >> 16, saturated to int8 */
static inline int32_t tt_saturate8_asr16(int32_t value)
{
    int32_t result;
    __asm__("ssat %0, #8, %1, asr #16" : "=r"(result) : "r"(value));
    return result;
}

/* Loads from any address: LDR takes one, and the compiler makes it from this. */
static inline uint32_t tt_load32(const int8_t *x)
{
    uint32_t value;
    memcpy(&value, x, sizeof value);
    return value;
}

/* Four bytes of `word`, each 0 where its bit, the lowest for the lowest byte, is 0. */
static inline uint32_t tt_keep_bytes(uint32_t word, uint32_t bits)
{
    uint32_t result;
    __asm__ volatile("msr apsr_g, %1\n sel %0, %2, %3"
                     : "=r"(result)
                     : "r"(bits << 16), "r"(word), "r"(0)
                     : "cc");
    return result;
}

/* Both halves the same. */
static inline uint32_t tt_both_halves(int32_t value)
{
    const uint32_t half = (uint32_t)value & 0xFFFFu;
    return half | (half << 16);
}

/* ---- requantization ---- */

/* The output stage of one channel. With |accumulator| < 2^30 and 1 <= right <= 22,
 *   high product, to nearest, ties up:      (2 * accumulator * multiplier + 2^31) >> 32
 *   rounding division, ties away from zero: (high + (high >> 31) + half) >> right
 * are those of tt_fixed_point.h, and the zero point goes into `rounding`. Elsewhere `fast` is
 * false, and the general functions take over. */
typedef struct tt_channel {
    int32_t multiplier;
    int32_t rounding; /* half + (zero point << right) */
    int32_t right;
    int32_t bias;
    bool fast;
} tt_channel;

#define TT_FAST_LIMIT (1 << 30)

/* `count` sums of a `fast` channel to bytes `step` apart; the activation's bounds are those of
 * int8. Returns the place after them. */
int8_t *tt_requantize_column(const tt_channel *channel, const int32_t *sums, int32_t count,
                             int8_t *out, int32_t step);

tt_channel tt_channel_of(const tt_output_stage *stage, const int32_t *bias, int32_t channel,
                         int32_t terms);

static inline int32_t tt_fast_requantize(const tt_channel *c, int32_t accumulator)
{
    const int32_t high = tt_smmulr(accumulator * 2, c->multiplier);
    return (high + (high >> 31) + c->rounding) >> c->right;
}

#endif

#endif
