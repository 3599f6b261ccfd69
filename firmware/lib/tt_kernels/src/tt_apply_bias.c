#include "tt_kernels.h"

#define TT_BIAS_MAX ((1 << 30) - 1)

void tt_apply_bias(const tt_apply_bias_params *params, const tt_apply_bias_io *io)
{
    for (uint32_t i = 0; i < params->count; i++) {
        const int64_t total = (int64_t)io->bias[i] + io->accumulator[i];
        io->bias[i] = total > TT_BIAS_MAX    ? TT_BIAS_MAX
                      : total < -TT_BIAS_MAX ? -TT_BIAS_MAX
                                             : (int32_t)total;
        io->accumulator[i] = 0;
    }
}
