#include "tt_kernels.h"

void tt_spread_error(const tt_spread_error_params *params, const tt_spread_error_io *io)
{
    const tt_reduction *r = &params->reduction;
    const int8_t *error = io->error;
    for (int32_t i = 0; i < r->kept_outer; i++) {
        for (int32_t j = 0; j < r->kept_inner; j++) {
            int8_t *first = io->result + i * r->kept_outer_stride + j * r->kept_inner_stride;
            for (int32_t k = 0; k < r->reduced_outer; k++) {
                for (int32_t m = 0; m < r->reduced_inner; m++) {
                    first[k * r->reduced_outer_stride + m * r->reduced_inner_stride] = *error;
                }
            }
            error++;
        }
    }
}
