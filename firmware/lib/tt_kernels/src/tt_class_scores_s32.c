#include "tt_float_math.h"
#include "tt_kernels.h"

void tt_class_scores_s32(const tt_class_scores_s32_params *params, const tt_class_scores_s32_io *io)
{
    for (int32_t c = 0; c < params->classes; c++) {
        io->scores[c] = (float)(io->logits[c] - params->zero_point) * params->scales[c];
    }
    tt_scores_of_logits(io->scores, params->classes);
}
