#include "tt_sum_positions_dsp.h"

#if TT_DSP

#define TT_LANES 128 /* positions whose sums of int8 fit a half of a word */

/* 128 positions of four channels, two sums a word. */
static void sum_lanes(const int8_t *x, int32_t step, uint32_t positions, int32_t sums[4])
{
    uint32_t even = 0;
    uint32_t odd = 0;
    for (uint32_t p = 0; p < positions; p++) {
        const uint32_t word = tt_load32(x);
        even = tt_extend_02(even, word);
        odd = tt_extend_13(odd, word);
        x += step;
    }
    sums[0] += (int16_t)even;
    sums[1] += (int16_t)odd;
    sums[2] += (int32_t)even >> 16;
    sums[3] += (int32_t)odd >> 16;
}

void tt_sum_positions(const int8_t *x, int32_t step, uint32_t positions, int32_t channels,
                      int32_t sums[4])
{
    for (int32_t c = 0; c < 4; c++) {
        sums[c] = 0;
    }
    if (channels < 4) {
        for (int32_t c = 0; c < channels; c++) {
            for (uint32_t p = 0; p < positions; p++) {
                sums[c] += x[(int32_t)p * step + c];
            }
        }
        return;
    }
    while (positions > 0u) {
        const uint32_t now = positions < TT_LANES ? positions : TT_LANES;
        sum_lanes(x, step, now, sums);
        x += (int32_t)now * step;
        positions -= now;
    }
}

#endif
