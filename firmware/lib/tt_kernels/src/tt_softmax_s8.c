#include "tt_fixed_exp.h"
#include "tt_kernels.h"

#define TT_SMALLEST (-128)
#define TT_OUTPUT_BITS 8

/* e^(beta * difference) in Q0; 0 where too small to count. */
static int32_t exponential(const tt_softmax_s8_params *p, int32_t difference)
{
    if (difference < p->smallest_difference) {
        return 0;
    }
    const int32_t shifted = (int32_t)((uint32_t)difference << (uint32_t)p->left_shift);
    return tt_exp_on_negative_values(
        tt_saturating_rounding_doubling_high_mul(shifted, p->multiplier));
}

static void softmax_row(const tt_softmax_s8_params *p, const int8_t *in, int8_t *out)
{
    int32_t largest = in[0];
    for (int32_t c = 1; c < p->depth; c++) {
        largest = in[c] > largest ? in[c] : largest;
    }
    int32_t sum = 0;
    for (int32_t c = 0; c < p->depth; c++) {
        sum += tt_rounding_divide_by_power_of_two(exponential(p, in[c] - largest),
                                                  TT_ACCUMULATOR_INTEGER_BITS);
    }
    int32_t bits;
    const int32_t reciprocal = tt_reciprocal(sum, &bits);
    const int32_t exponent = bits + 31 - TT_OUTPUT_BITS;
    for (int32_t c = 0; c < p->depth; c++) {
        int32_t share = 0; /* of a sum of 512 or more every share is below 1/512 */
        if (exponent <= 31) {
            const int32_t product = tt_saturating_rounding_doubling_high_mul(
                exponential(p, in[c] - largest), reciprocal);
            share = tt_rounding_divide_by_power_of_two(product, exponent);
        }
        out[c] = (int8_t)tt_clamp(share + TT_SMALLEST, TT_SMALLEST, 127);
    }
}

void tt_softmax_s8(const tt_softmax_s8_params *params, const tt_softmax_s8_io *io)
{
    for (int32_t row = 0; row < params->rows; row++) {
        softmax_row(params, io->input + row * params->depth, io->output + row * params->depth);
    }
}
