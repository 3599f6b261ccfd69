#include "tt_bias.h"
#include "tt_kernels.h"
#include "tt_sum_positions_dsp.h"

/* -sum * step in whole units, rounded by the draw, saturated. */
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
    return tt_saturate_bias(product);
}

/* What the biases of a layer share: the size of a step, and its random stream. */
typedef struct tt_bias_step {
    float size;
    tt_key key, velocity_key;
} tt_bias_step;

static tt_bias_step begin(const tt_bias_update_params *params, const tt_bias_update_io *io,
                          const tt_step *step)
{
    const float scale = *io->first_scale * (*io->folded_scale * params->gain);
    const tt_bias_step result = {scale * step->learning_rate, tt_stream_key(step, params->stream),
                                 tt_stream_key(step, params->velocity_stream)};
    return result;
}

/* A step of bias c, whose folded errors add up to `sum`. */
static void move_bias(const tt_bias_update_params *params, const tt_bias_update_io *io, int32_t c,
                      int32_t sum, tt_bias_step step)
{
    const tt_step_multiplier multiplier = tt_step_multiplier_of(step.size * params->factors[c]);
    int32_t delta =
        bias_delta(sum, multiplier, tt_random_at(step.key.first + (uint32_t)c * step.key.stride));
    if (params->limits != NULL) {
        delta = tt_clamp(delta, -params->limits[c], params->limits[c]);
    }
    if (io->velocity != NULL) {
        const uint32_t draw =
            tt_random_at(step.velocity_key.first + (uint32_t)c * step.velocity_key.stride);
        delta = tt_bias_velocity(io->velocity[c], params->momentum, delta, draw);
        io->velocity[c] = delta;
    }
    io->bias[c] = tt_saturate_bias((int64_t)io->bias[c] + delta);
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
    const tt_bias_step common = begin(params, io, step);
    int32_t sums[4] = {0, 0, 0, 0};
    for (int32_t c = 0; c < params->channels; c++) {
        move_bias(params, io, c, sum_of(params, io, c, sums), common);
    }
}
