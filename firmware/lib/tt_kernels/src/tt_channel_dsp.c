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

#endif
