#include "tt_update.h"

#include <math.h>

#include "tt_float_math.h"

#define TT_SHARE_GAIN 0.125f
#define TT_MEASURABLE_SQUARES (UINT64_C(1) << 20)

tt_step_multiplier tt_step_multiplier_of(float step)
{
    tt_step_multiplier result = {0, 0};
    if (step > 0.0f) {
        int32_t adjust = 0;
        if (step < 1.17549435e-38f) { /* subnormal: normalize first */
            step *= 16777216.0f;
            adjust = 24;
        }
        const int32_t bits = tt_bits_from_float(step);
        /* significand in [2^23, 2^24), value = significand * 2^(exponent - 24) */
        const int32_t exponent = (bits >> 23) - 126 - adjust;
        result.multiplier = (bits & 0x7FFFFF) | 0x800000;
        result.shift = 24 - TT_DELTA_FRACTION_BITS - exponent;
    }
    return result;
}

int32_t tt_weight_delta(int32_t gradient, tt_step_multiplier step)
{
    if (step.shift > 62 || step.multiplier == 0) {
        return 0;
    }
    int64_t product = -((int64_t)gradient * step.multiplier);
    if (step.shift > 0) {
        product = (product + (INT64_C(1) << (step.shift - 1))) >> step.shift;
    }
    if (product > TT_DELTA_MAX) {
        return TT_DELTA_MAX;
    }
    return product < TT_DELTA_MIN ? TT_DELTA_MIN : (int32_t)product;
}

float tt_bound_factor(float step2, float weight2, float tau)
{
    /* weights that are all zero are bounded as if one of them were one step */
    const float limit2 = (tau * tau) * (weight2 > 1.0f ? weight2 : 1.0f);
    if (tau == 0.0f || step2 <= limit2) {
        return 1.0f;
    }
    return sqrtf(limit2 / step2);
}

float tt_tau_at(float tau, float rate)
{
    return rate < TT_FULL_TAU_RATE ? tau * (rate / TT_FULL_TAU_RATE) : tau;
}

tt_updater tt_update_begin(const tt_update_rule *rule, const tt_update_io *io, const tt_step *step)
{
    const float rate = step->learning_rate;
    const float first = *io->first_scale;
    float taken = rate;
    tt_updater updater;
    updater.reach2 = 0.0f;
    if (io->accumulator == NULL && rule->tau > 0.0f) {
        const float reach2 = tt_update_reach2(rule, io);
        const float size = rate * first;
        const float likely = reach2 > 0.0f ? (size * size) * (reach2 * io->bound[0]) : 0.0f;
        taken = rate * tt_bound_factor(likely, io->bound[1], tt_tau_at(rule->tau, rate));
        const float taken_size = taken * first;
        const float size2 = taken_size * taken_size;
        updater.reach2 = size2 > 0.0f ? size2 * reach2 : 0.0f;
    }
    updater.move = step->apply;
    updater.base = taken * (first * (*io->folded_scale * rule->gain));
    updater.state = rule->state;
    updater.key = tt_stream_key(step, rule->stream);
    updater.squares = 0;
    updater.weights2 = 0;
    updater.optimizer = NULL;
    if (io->accumulator == NULL) {
        tt_optimizer_begin(&updater, &rule->optimizer, rate, step);
    }
    return updater;
}

void tt_optimizer_begin(tt_updater *updater, const tt_optimizer *optimizer, float rate,
                        const tt_step *step)
{
    updater->optimizer = NULL;
    if (optimizer->calls != NULL && updater->move) {
        updater->optimizer = optimizer;
        optimizer->calls->begin(updater, rate, step);
    }
}

static int8_t move_weight(const tt_updater *updater, const tt_update_io *io, int32_t delta,
                          uint32_t at, uint32_t index)
{
    const uint32_t noise = tt_random_at(updater->key.first + index * updater->key.stride);
    if (updater->state == TT_STATE_INT8) {
        const int32_t moved = io->weights[at] + ((delta + (int32_t)(noise >> 16)) >> 16);
        return (int8_t)tt_clamp(moved, -TT_WEIGHT_MAX, TT_WEIGHT_MAX);
    }
    if (updater->state == TT_STATE_INT16) {
        int8_t *fraction = io->fraction;
        int32_t total = io->weights[at] * 256 + fraction[index];
        total += tt_clamp(delta + (int32_t)(noise >> 24), TT_DELTA_MIN, TT_DELTA_MAX) >> 8;
        total = tt_clamp(total, -TT_WEIGHT_MAX * 256, TT_WEIGHT_MAX * 256);
        const int32_t high = (total + 128) >> 8;
        fraction[index] = (int8_t)(total - high * 256);
        return (int8_t)high;
    }
    float *master = io->fraction;
    float value = master[index] + (float)delta * 0x1p-16f;
    value = value < -(float)TT_WEIGHT_MAX ? -(float)TT_WEIGHT_MAX : value;
    value = value > (float)TT_WEIGHT_MAX ? (float)TT_WEIGHT_MAX : value;
    master[index] = value;
    const float half_up = value + 0.5f;
    const int32_t whole = (int32_t)half_up;
    return (int8_t)((float)whole > half_up ? whole - 1 : whole);
}

void tt_update_weight(tt_updater *updater, const tt_update_io *io, int32_t delta, uint32_t at,
                      uint32_t index)
{
    if (io->accumulator != NULL) {
        if (updater->move) {
            io->accumulator[index] += delta;
        }
        return;
    }
    updater->squares += (uint64_t)((int64_t)delta * delta);
    if (updater->move) {
        if (updater->optimizer != NULL) {
            delta = updater->optimizer->calls->delta(updater, io, delta, at, index);
        }
        io->weights[at] = move_weight(updater, io, delta, at, index);
    }
    const int32_t weight = io->weights[at];
    updater->weights2 += (uint32_t)(weight * weight);
}

void tt_update_end(const tt_updater *updater, const tt_update_io *io)
{
    if (io->accumulator != NULL) {
        return;
    }
    io->bound[1] = (float)updater->weights2;
    if (updater->optimizer != NULL) {
        updater->optimizer->calls->end(updater, io);
    }
    if (updater->reach2 > 0.0f && updater->squares >= TT_MEASURABLE_SQUARES) {
        const float seen = ((float)updater->squares * 0x1p-32f) / updater->reach2;
        io->bound[0] += (seen - io->bound[0]) * TT_SHARE_GAIN;
    }
}
