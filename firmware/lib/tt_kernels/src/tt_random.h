/* The counter-based random generator; tinytrain/numeric/random.py defines it. */
#ifndef TT_RANDOM_H
#define TT_RANDOM_H

#include "tt_types.h"

#define TT_GOLDEN UINT32_C(0x9E3779B9)
#define TT_RANDOM_FIRST UINT32_C(0x2C1B3C6D)
#define TT_RANDOM_SECOND UINT32_C(0x297A2D39)

static inline uint32_t tt_mix32(uint32_t x)
{
    x ^= x >> 16;
    x *= UINT32_C(0x7FEB352D);
    x ^= x >> 15;
    x *= UINT32_C(0x846CA68B);
    return x ^ (x >> 16);
}

/* The key of a step; an operator's stream is derived from it by tt_stream_key. */
static inline uint32_t tt_step_key(uint32_t seed, uint32_t index)
{
    return tt_mix32(seed + index * TT_GOLDEN);
}

/* The stream of what rounds to nearest: each draw of it is one half. */
#define TT_NEAREST 0u
#define TT_HALF_COUNTER UINT32_C(0x603E72FC)

/* Element i of a stream draws at first + i * stride. */
typedef struct tt_key {
    uint32_t first;
    uint32_t stride; /* TT_GOLDEN, or 0 where all draws are the same */
} tt_key;

static inline tt_key tt_stream_key(const tt_step *step, uint32_t stream)
{
    tt_key key = {TT_HALF_COUNTER, 0};
    if (stream != TT_NEAREST) {
        key.first = tt_mix32(step->key ^ (stream * UINT32_C(0x85EBCA6B)));
        key.stride = TT_GOLDEN;
    }
    return key;
}

/* The draw at a counter, see tt_key; the high bits are the best. */
static inline uint32_t tt_random_at(uint32_t counter)
{
    uint32_t x = counter;
    x ^= x >> 15;
    x *= TT_RANDOM_FIRST;
    x ^= x >> 12;
    x *= TT_RANDOM_SECOND;
    return x;
}

#endif
