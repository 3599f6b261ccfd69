#include "tt_dsp.h"

#if TT_DSP

tt_channel tt_channel_of(const tt_output_stage *stage, const int32_t *bias, int32_t channel,
                         int32_t terms)
{
    const int32_t right = -stage->shift[channel];
    const int32_t sum_max = terms * (128 * 255);
    tt_channel c;
    c.multiplier = stage->multiplier[channel];
    c.bias = bias != NULL ? bias[channel] : 0;
    c.right = right;
    c.rounding = 0;
    c.fast = right >= 1 && right <= 22 && terms < TT_FAST_LIMIT / (128 * 255) &&
             c.bias > sum_max - TT_FAST_LIMIT && c.bias < TT_FAST_LIMIT - sum_max;
    if (c.fast) {
        c.rounding = (2 * stage->zero_point + 1) * (1 << (right - 1));
    }
    return c;
}

#define TT_REQUANTIZE(sum)                                                                         \
    "lsl " sum ", " sum ", #1\n"                                                                   \
    "smmulr " sum ", " sum ", %[multiplier]\n"                                                     \
    "add " sum ", " sum ", " sum ", asr #31\n"                                                     \
    "add " sum ", " sum ", %[rounding]\n"                                                          \
    "asr " sum ", " sum ", %[right]\n"                                                             \
    "ssat " sum ", #8, " sum "\n"                                                                  \
    "strb " sum ", [%[out]]\n"                                                                     \
    "add %[out], %[out], %[step]\n"

int8_t *tt_requantize_column(const tt_channel *channel, const int32_t *sums, int32_t count,
                             int8_t *out, int32_t step)
{
    const int32_t multiplier = channel->multiplier;
    const int32_t rounding = channel->rounding;
    const int32_t right = channel->right;
    const int32_t *const end = sums + count;
    const int32_t *const end4 = sums + (count & ~3);
    if (sums != end4) {
        __asm__ volatile("1:\n"
                         "ldmia %[sums]!, {r3, r4, r5, r6}\n"
                         TT_REQUANTIZE("r3") TT_REQUANTIZE("r4") TT_REQUANTIZE("r5")
                         TT_REQUANTIZE("r6")
                         "cmp %[sums], %[end]\n"
                         "bne 1b\n"
                         : [sums] "+r"(sums), [out] "+r"(out)
                         : [multiplier] "r"(multiplier), [rounding] "r"(rounding),
                           [right] "r"(right), [step] "r"(step), [end] "r"(end4)
                         : "r3", "r4", "r5", "r6", "cc", "memory");
    }
    for (; sums != end; sums++) {
        *out = (int8_t)tt_saturate8(tt_fast_requantize(channel, *sums));
        out += step;
    }
    return out;
}

#endif
