/* int32 accumulators to int8 errors; tinytrain/numeric/error_scale.py defines it. */
#ifndef TT_ERROR_H
#define TT_ERROR_H

#include "tt_dsp.h"
#include "tt_random.h"

#define TT_ERROR_MAX 127
#define TT_MIN_RANGE 127
#define TT_RANGE_MAX (1 << 30)
#define TT_RANGE_DECAY 0.96875f
#define TT_CALIBRATION_DECAY 0.75f
#define TT_HEADROOM 1.0625f

typedef struct tt_error_requantizer {
    int32_t half;
    int32_t shift;
    int32_t multiplier;
    int32_t limit;    /* the magnitude that becomes 127 */
    int32_t seen;     /* largest magnitude of an accumulator so far */
    uint32_t counter; /* random counter of the next element */
    uint32_t stride;  /* from one counter to the next */
} tt_error_requantizer;

static inline int32_t tt_bit_length(uint32_t value)
{
    int32_t bits = 0;
    while (value != 0u) {
        value >>= 1;
        bits++;
    }
    return bits;
}

/* The accumulator that a range, relative to the first error, stands for; `unit` is the real size of
 * an accumulator unit on the same terms. */
static inline int32_t tt_error_limit(float range, float unit)
{
    const float limit = unit > 0.0f ? range / unit : 0.0f;
    return limit < (float)TT_RANGE_MAX ? (int32_t)limit : TT_RANGE_MAX;
}

/* Maps +-limit onto +-127. */
static inline tt_error_requantizer tt_error_begin(int32_t limit, tt_key key)
{
    limit = limit > TT_MIN_RANGE ? limit : TT_MIN_RANGE;
    const int32_t bits = tt_bit_length((uint32_t)limit);
    tt_error_requantizer r;
    r.shift = bits > 14 ? bits - 14 : 0;
    r.half = (int32_t)((UINT32_C(1) << (uint32_t)r.shift) >> 1);
    r.multiplier = (TT_ERROR_MAX << 16) / (limit >> r.shift);
    r.limit = limit;
    r.seen = 0;
    r.counter = key.first;
    r.stride = key.stride;
    return r;
}

/* The next element in order, rounded by a draw. */
#if TT_DSP
static inline int8_t tt_error_next(tt_error_requantizer *r, int32_t accumulator)
{
    /* |accumulator| > seen, in one comparison */
    const uint32_t seen = (uint32_t)r->seen;
    if (__builtin_expect((uint32_t)accumulator + seen > 2u * seen, 0)) {
        r->seen = accumulator < 0 ? -accumulator : accumulator;
    }
    const uint32_t noise = tt_random_at(r->counter) >> 16;
    r->counter += r->stride;
    const int32_t a = tt_saturate16((accumulator + r->half) >> r->shift);
    return (int8_t)tt_saturate8_asr16((int32_t)((uint32_t)(a * r->multiplier) + noise));
}
#else
static inline int8_t tt_error_next(tt_error_requantizer *r, int32_t accumulator)
{
    const int32_t magnitude = accumulator < 0 ? -accumulator : accumulator;
    r->seen = magnitude > r->seen ? magnitude : r->seen;
    const int32_t noise = (int32_t)(tt_random_at(r->counter) >> 16);
    r->counter += r->stride;
    const int32_t a = tt_clamp((accumulator + r->half) >> r->shift, -32768, 32767);
    return (int8_t)tt_clamp((a * r->multiplier + noise) >> 16, -128, 127);
}
#endif

/* What two errors of different scales are multiplied by, Q14, to be added; real size of the sum's
 * unit. */
typedef struct tt_error_weights {
    int32_t a, b;
    float unit;
} tt_error_weights;

static inline tt_error_weights tt_error_weights_of(float scale_a, float scale_b)
{
    const float largest = scale_b > scale_a ? scale_b : scale_a;
    tt_error_weights weights = {1 << 14, 1 << 14, largest * 0x1p-14f};
    if (largest != 0.0f) {
        weights.a = (int32_t)((scale_a / largest) * 16384.0f + 0.5f);
        weights.b = (int32_t)((scale_b / largest) * 16384.0f + 0.5f);
    }
    return weights;
}

/* The scale of the errors, given that of the accumulator. */
static inline float tt_error_scale(const tt_error_requantizer *r, float accumulator_scale)
{
    const float ratio = (float)(UINT64_C(65536) << (uint32_t)r->shift) / (float)r->multiplier;
    return accumulator_scale * ratio;
}

/* The range for the next step: a little over what was seen, or the old one, decayed; a calibrating
 * step forgets faster. Comes last for each tensor, so it also counts those that were cut. */
static inline float tt_error_next_range(const tt_error_requantizer *r, float range, float unit,
                                        const tt_step *step)
{
    if (step->counts != NULL) {
        step->counts->tensors++;
        step->counts->saturated =
            (uint16_t)(step->counts->saturated + (r->seen > r->limit ? 1u : 0u));
    }
    const float decayed = range * (step->apply ? TT_RANGE_DECAY : TT_CALIBRATION_DECAY);
    const float seen = ((float)r->seen * unit) * TT_HEADROOM;
    return seen > decayed ? seen : decayed;
}

#endif
