#include "tt_kernels.h"
#include "tt_sum_positions_dsp.h"

#define TT_BIAS_MAX ((1 << 30) - 1)

/* -sum * step in whole units, rounded stochastically, saturated. */
static int32_t bias_delta(int32_t sum, tt_step_multiplier step, uint32_t draw)
{
    const int32_t shift = step.shift + TT_DELTA_FRACTION_BITS;
    if (shift > 62) {
        return 0;
    }
    int64_t product = -((int64_t)sum * step.multiplier);
    if (shift <= 0) {
        product *= INT64_C(1) << (shift < -8 ? 8 : -shift);
    } else {
        const int64_t noise = shift >= 32 ? (int64_t)((uint64_t)draw << (shift - 32))
                                          : (int64_t)(draw >> (32 - shift));
        product = (product + noise) >> shift;
    }
    if (product > TT_BIAS_MAX) {
        return TT_BIAS_MAX;
    }
    return product < -TT_BIAS_MAX ? -TT_BIAS_MAX : (int32_t)product;
}

static int32_t bounded(const tt_bias_update_params *params, int32_t c, int32_t delta)
{
    if (params->limits == NULL) {
        return delta;
    }
    return tt_clamp(delta, -params->limits[c], params->limits[c]);
}

/* Of channel c over all positions; channels come in turn, `sums` keeps those of four. */
static int32_t sum_of(const tt_bias_update_params *params, const tt_bias_update_io *io, int32_t c,
                      int32_t sums[4])
{
#if TT_DSP
    if ((c & 3) == 0) {
        const int32_t left = params->channels - c;
        tt_sum_positions(io->folded + c, params->channels, params->positions, left < 4 ? left : 4,
                         sums);
    }
    return sums[c & 3];
#else
    (void)sums;
    int32_t sum = 0;
    for (uint32_t p = 0; p < params->positions; p++) {
        sum += io->folded[p * params->channels + (uint32_t)c];
    }
    return sum;
#endif
}

void tt_bias_update(const tt_bias_update_params *params, const tt_bias_update_io *io,
                    const tt_step *step)
{
    if (!step->apply) {
        return;
    }
    const float base =
        (*io->first_scale * (*io->folded_scale * params->gain)) * step->learning_rate;
    uint32_t counter = tt_stream_key(step, params->stream);
    int32_t sums[4] = {0, 0, 0, 0};
    for (int32_t c = 0; c < params->channels; c++) {
        const int32_t sum = sum_of(params, io, c, sums);
        const tt_step_multiplier multiplier = tt_step_multiplier_of(base * params->factors[c]);
        const int32_t delta = bias_delta(sum, multiplier, tt_random_at(counter));
        counter += TT_GOLDEN;
        const int64_t moved = (int64_t)io->bias[c] + bounded(params, c, delta);
        io->bias[c] = moved > TT_BIAS_MAX    ? TT_BIAS_MAX
                      : moved < -TT_BIAS_MAX ? -TT_BIAS_MAX
                                             : (int32_t)moved;
    }
}
