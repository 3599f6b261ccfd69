#include "tt_update.h"

#define TT_VELOCITY_BITS 20
#define TT_VELOCITY_MAX ((int64_t)TT_DELTA_MAX << 4)

static int32_t velocity_limit(const tt_updater *updater)
{
    return updater->optimizer->wide ? INT16_MAX : INT8_MAX;
}

static void begin(tt_updater *updater, float rate, const tt_step *step)
{
    updater->decay = tt_step_multiplier_of((rate * updater->optimizer->decay) * 0x1p-8f);
    updater->velocity_key = tt_stream_key(step, updater->optimizer->stream);
    updater->velocity_max = 0;
}

static int32_t clamp_velocity(int64_t value)
{
    if (value > TT_VELOCITY_MAX) {
        return (int32_t)TT_VELOCITY_MAX;
    }
    return value < -TT_VELOCITY_MAX ? (int32_t)-TT_VELOCITY_MAX : (int32_t)value;
}

/* v = m * v + delta; returns the delta to take of it. */
static int32_t accelerate(tt_updater *updater, const tt_update_io *io, int32_t delta,
                          uint32_t index)
{
    int8_t *const narrow = io->velocity;
    int16_t *const wide = io->velocity;
    const int32_t held = updater->optimizer->wide ? wide[index] : narrow[index];
    const int64_t scaled =
        (int64_t)held * (INT64_C(1) << (TT_VELOCITY_BITS - io->velocity_bits[0]));
    const int64_t kept = (scaled * updater->optimizer->momentum + 0x8000) >> 16;
    const int32_t exact = clamp_velocity(kept + (int64_t)delta * 16);
    const int32_t magnitude = exact < 0 ? -exact : exact;
    updater->velocity_max = magnitude > updater->velocity_max ? magnitude : updater->velocity_max;
    const int32_t shift = TT_VELOCITY_BITS - io->velocity_bits[1];
    const uint32_t draw =
        tt_random_at(updater->velocity_key.first + index * updater->velocity_key.stride);
    const int32_t noise = shift == 0 ? 0 : (int32_t)(draw >> (32 - shift));
    const int32_t limit = velocity_limit(updater);
    const int32_t stored = tt_clamp((exact + noise) >> shift, -limit, limit);
    if (updater->optimizer->wide) {
        wide[index] = (int16_t)stored;
    } else {
        narrow[index] = (int8_t)stored;
    }
    return (exact + 8) >> 4;
}

/* A weight in 256ths. */
static int32_t weight_q8(const tt_updater *updater, const tt_update_io *io, uint32_t at,
                         uint32_t index)
{
    if (updater->state == TT_STATE_FLOAT32) {
        return (int32_t)(((const float *)io->fraction)[index] * 256.0f);
    }
    const int32_t high = io->weights[at] * 256;
    return updater->state == TT_STATE_INT16 ? high + ((const int8_t *)io->fraction)[index] : high;
}

static int32_t delta_of(tt_updater *updater, const tt_update_io *io, int32_t delta, uint32_t at,
                        uint32_t index)
{
    int32_t result = delta;
    if (io->velocity != NULL) {
        result = accelerate(updater, io, delta, index);
    }
    if (updater->optimizer->decay > 0.0f) {
        result += tt_weight_delta(weight_q8(updater, io, at, index), updater->decay);
    }
    return result;
}

/* The most fraction bits with which twice the largest velocity does not saturate. */
static void end(const tt_updater *updater, const tt_update_io *io)
{
    if (io->velocity == NULL) {
        return;
    }
    const int32_t limit = velocity_limit(updater);
    int32_t bits = TT_VELOCITY_BITS;
    while (bits > 0 && (updater->velocity_max * 2) >> (TT_VELOCITY_BITS - bits) > limit) {
        bits--;
    }
    io->velocity_bits[0] = io->velocity_bits[1];
    io->velocity_bits[1] = bits;
}

const tt_optimizer_calls tt_momentum_and_decay = {begin, delta_of, end};
