#include "tt_kernels.h"

void tt_apply_weights(const tt_apply_weights_params *params, const tt_apply_weights_io *io,
                      const tt_step *step)
{
    uint64_t squares = 0;
    for (uint32_t i = 0; i < params->count; i++) {
        const int32_t delta = tt_clamp(io->accumulator[i], -TT_DELTA_MAX, TT_DELTA_MAX);
        squares += (uint64_t)((int64_t)delta * delta);
    }
    const float rate = step->learning_rate * (float)params->batch;
    const float tau = tt_tau_at(params->tau, rate);
    const float factor = tt_bound_factor((float)squares * 0x1p-32f, io->bound[1], tau);
    const tt_step_multiplier scale = tt_step_multiplier_of(factor * 0x1p-16f);
    tt_updater updater = {0};
    updater.move = step->apply;
    updater.state = params->state;
    updater.key = tt_stream_key(step, params->stream);
    tt_optimizer_begin(&updater, &params->optimizer, rate, step);
    const tt_update_io states = {.weights = io->weights,
                                 .fraction = io->fraction,
                                 .bound = io->bound,
                                 .velocity = io->velocity,
                                 .velocity_bits = io->velocity_bits};
    for (uint32_t i = 0; i < params->count; i++) {
        int32_t delta = tt_clamp(io->accumulator[i], -TT_DELTA_MAX, TT_DELTA_MAX);
        if (factor < 1.0f) {
            delta = -tt_weight_delta(delta, scale);
        }
        uint32_t at = i;
        if (params->channels != NULL) {
            const uint32_t row = i / params->trained_channels;
            at = row * params->in_channels + params->channels[i % params->trained_channels];
        }
        tt_update_weight(&updater, &states, delta, at, i);
        io->accumulator[i] = 0;
    }
    tt_update_end(&updater, &states);
}
