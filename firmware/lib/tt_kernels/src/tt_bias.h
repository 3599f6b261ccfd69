/* Arithmetic of biases; tinytrain/ops/bias.py defines it. */
#ifndef TT_BIAS_H
#define TT_BIAS_H

#include "tt_random.h"

#define TT_BIAS_MAX ((1 << 30) - 1)

static inline int32_t tt_saturate_bias(int64_t value)
{
    if (value > TT_BIAS_MAX) {
        return TT_BIAS_MAX;
    }
    return value < -TT_BIAS_MAX ? -TT_BIAS_MAX : (int32_t)value;
}

/* v = momentum * v + delta, rounded stochastically; momentum is Q16. */
static inline int32_t tt_bias_velocity(int32_t velocity, int32_t momentum, int32_t delta,
                                       uint32_t draw)
{
    const int64_t moved = (int64_t)velocity * momentum + (int64_t)delta * 65536;
    return tt_saturate_bias((moved + (int64_t)(draw >> 16)) >> 16);
}

#endif
