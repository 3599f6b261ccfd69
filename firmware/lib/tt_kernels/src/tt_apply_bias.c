#include "tt_bias.h"
#include "tt_kernels.h"

void tt_apply_bias(const tt_apply_bias_params *params, const tt_apply_bias_io *io,
                   const tt_step *step)
{
    if (!step->apply) {
        return;
    }
    const tt_key key = tt_stream_key(step, params->velocity_stream);
    for (uint32_t i = 0; i < params->count; i++) {
        int32_t delta = io->accumulator[i];
        if (io->velocity != NULL) {
            const uint32_t draw = tt_random_at(key.first + i * key.stride);
            delta = tt_bias_velocity(io->velocity[i], params->momentum, delta, draw);
            io->velocity[i] = delta;
        }
        io->bias[i] = tt_saturate_bias((int64_t)io->bias[i] + delta);
        io->accumulator[i] = 0;
    }
}
