#include "tt_float_math.h"
#include "tt_kernels.h"
#include "tt_random.h"

#define TT_SMALLEST_SCORE 1e-30f

static float wanted(const tt_cross_entropy_error_params *p, float even, int32_t c, int32_t target)
{
    return c == target ? even + (1.0f - p->smoothing) : even;
}

void tt_cross_entropy_error(const tt_cross_entropy_error_params *params,
                            const tt_cross_entropy_error_io *io, const tt_step *step)
{
    const int32_t target = *io->target;
    const int32_t first = params->classes - params->logits;
    const float even = params->smoothing / (float)params->classes;
    float largest = 0.0f;
    for (int32_t c = first; c < params->classes; c++) {
        const float error = io->scores[c] - wanted(params, even, c, target);
        const float magnitude = error < 0.0f ? -error : error;
        largest = magnitude > largest ? magnitude : largest;
    }
    /* with next to no error any scale does: the integers are 0, and 127 / largest may overflow */
    const bool some = largest >= TT_SMALLEST_SCORE;
    const float factor = some ? 127.0f / largest : 0.0f;
    tt_key draws = tt_stream_key(step, params->stream);
    for (int32_t c = first; c < params->classes; c++) {
        const float error = io->scores[c] - wanted(params, even, c, target);
        const float noise = (float)(tt_random_at(draws.first) >> 16) * 0x1p-16f;
        draws.first += draws.stride;
        const float shifted = error * factor + noise;
        int32_t q = (int32_t)shifted;
        q -= (float)q > shifted ? 1 : 0; /* floor */
        io->error[c - first] = (int8_t)tt_clamp(q, -127, 127);
    }
    *io->first_scale = some ? largest / 127.0f : 1.0f;
    *io->error_scale = 1.0f;
    const float score = io->scores[target];
    *io->loss = -tt_log(score > TT_SMALLEST_SCORE ? score : TT_SMALLEST_SCORE);
}
