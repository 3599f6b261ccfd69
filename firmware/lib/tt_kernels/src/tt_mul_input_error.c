#include "tt_error.h"
#include "tt_kernels.h"

static int32_t sum(const tt_mul_input_error_params *p, const int8_t *error, const int8_t *other)
{
    int32_t total = 0;
    for (int32_t i = 0; i < p->reduced[0]; i++) {
        const int8_t *e = error + i * p->reduced_strides[0];
        const int8_t *x = other + i * p->reduced_strides_other[0];
        for (int32_t j = 0; j < p->reduced[1]; j++) {
            total += e[j * p->reduced_strides[1]] *
                     (x[j * p->reduced_strides_other[1]] - p->other_zero_point);
        }
    }
    return total;
}

void tt_mul_input_error(const tt_mul_input_error_params *params, const tt_mul_input_error_io *io,
                        const tt_step *step)
{
    const int32_t *n = params->kept;
    const int32_t *s = params->kept_strides;
    const int32_t *t = params->kept_strides_other;
    const float unit = *io->error_scale * params->gain;
    tt_error_requantizer requantizer =
        tt_error_begin(tt_error_limit(*io->range, unit), tt_stream_key(step, params->stream));
    int8_t *result = io->result;
    for (int32_t i = 0; i < n[0]; i++) {
        for (int32_t j = 0; j < n[1]; j++) {
            for (int32_t k = 0; k < n[2]; k++) {
                const int8_t *e = io->error + i * s[0] + j * s[1] + k * s[2];
                const int8_t *x = io->other + i * t[0] + j * t[1] + k * t[2];
                for (int32_t m = 0; m < n[3]; m++) {
                    *result++ =
                        tt_error_next(&requantizer, sum(params, e + m * s[3], x + m * t[3]));
                }
            }
        }
    }
    *io->result_scale = tt_error_scale(&requantizer, unit);
    *io->range = tt_error_next_range(&requantizer, *io->range, unit, step);
}
