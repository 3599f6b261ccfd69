#include "tt_float_math.h"
#include "tt_kernels.h"

void tt_class_scores_s8(const tt_class_scores_s8_params *params, const tt_class_scores_s8_io *io)
{
    float *scores = io->scores;
    const int32_t classes = params->classes;
    float largest = 0.0f;
    for (int32_t c = 0; c < classes; c++) {
        scores[c] = (float)(io->logits[c] - params->zero_point) * params->scales[c];
        largest = c == 0 || scores[c] > largest ? scores[c] : largest;
    }
    float sum = 0.0f;
    for (int32_t c = 0; c < classes; c++) {
        scores[c] = tt_exp_negative(scores[c] - largest);
        sum += scores[c];
    }
    for (int32_t c = 0; c < classes; c++) {
        scores[c] /= sum;
    }
}
