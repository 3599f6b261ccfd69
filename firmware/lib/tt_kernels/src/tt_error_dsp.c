#include "tt_error_dsp.h"

#if TT_DSP

void tt_requantize_errors(tt_error_requantizer *requantizer, uint32_t key,
                          const tt_error_column *column)
{
    const tt_error_requantizer r = *requantizer;
    const int32_t *sums = column->sums;
    const int32_t sum_step = column->sum_step;
    int8_t *out = column->out;
    const int32_t out_step = column->out_step;
    const uint32_t counter_step = (uint32_t)out_step * TT_GOLDEN;
    const uint32_t first = key + column->index * TT_GOLDEN;
    const uint32_t end = first + (uint32_t)column->count * counter_step;
    uint32_t seen = (uint32_t)r.seen;
    for (uint32_t counter = first; counter != end; counter += counter_step) {
        const int32_t sum = *sums;
        sums += sum_step;
        /* |sum| > seen, in one comparison */
        if (__builtin_expect((uint32_t)sum + seen > 2u * seen, 0)) {
            seen = (uint32_t)(sum < 0 ? -sum : sum);
        }
        const uint32_t noise = tt_random_at(counter) >> 16;
        const int32_t a = tt_saturate16((sum + r.half) >> r.shift);
        *out = (int8_t)tt_saturate8_asr16((int32_t)((uint32_t)(a * r.multiplier) + noise));
        out += out_step;
    }
    requantizer->seen = (int32_t)seen;
}

#endif
