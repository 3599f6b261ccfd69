#include "tt_float_math.h"
#include "tt_kernels.h"

void tt_class_scores_s8(const tt_class_scores_s8_params *params, const tt_class_scores_s8_io *io)
{
    /* a single logit is that of the second of two classes; that of the first is 0 */
    const int32_t first = params->logits == 1u ? 1 : 0;
    io->scores[0] = 0.0f;
    for (int32_t c = 0; c < params->logits; c++) {
        io->scores[first + c] = (float)(io->logits[c] - params->zero_point) * params->scales[c];
    }
    tt_scores_of_logits(io->scores, params->logits + first);
}
