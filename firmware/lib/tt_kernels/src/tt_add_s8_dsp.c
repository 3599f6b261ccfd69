#include "tt_dsp.h"

#if TT_DSP

#include "tt_fixed_point.h"
#include "tt_kernels.h"

#define TT_ADD_LEFT_SHIFT 20
#define TT_HALF (1 << 30)

typedef struct tt_byte_row {
    int8_t *data;
    int32_t count;
} tt_byte_row;

/* The numbers of one addition. The operand with the larger scale has the multiplier 1/2, which is
 * exact: it is called `whole`, the other one `part`. */
typedef struct tt_addition {
    int32_t whole_zero_point, part_zero_point;
    int32_t part_multiplier, part_half, part_right;
    int32_t multiplier, rounding, right;
} tt_addition;

/* See tt_channel: rounded high products and divisions at a shift of 1 to 22. */
static inline int32_t add(const tt_addition *n, int32_t whole, int32_t part)
{
    const int32_t high = tt_smmulr((part - n->part_zero_point) * (1 << (TT_ADD_LEFT_SHIFT + 1)),
                                   n->part_multiplier);
    const int32_t scaled = (high + (high >> 31) + n->part_half) >> n->part_right;
    const int32_t sum = scaled + (whole - n->whole_zero_point) * (1 << (TT_ADD_LEFT_SHIFT - 1));
    const int32_t product = tt_smmulr(sum * 2, n->multiplier);
    return tt_saturate8((product + (product >> 31) + n->rounding) >> n->right);
}

/* An operand whose multiplier is 1/2 too. */
static inline int32_t add_wholes(const tt_addition *n, int32_t whole, int32_t part)
{
    const int32_t sum = (whole + part - n->whole_zero_point - n->part_zero_point) *
                        (1 << (TT_ADD_LEFT_SHIFT - 1));
    const int32_t product = tt_smmulr(sum * 2, n->multiplier);
    return tt_saturate8((product + (product >> 31) + n->rounding) >> n->right);
}

static int8_t add_any(const tt_add_s8_params *p, int32_t a, int32_t b)
{
    const int32_t scaled_a = tt_multiply_by_quantized_multiplier(
        (a - p->zero_point_a) * (1 << TT_ADD_LEFT_SHIFT), p->multiplier_a, p->shift_a);
    const int32_t scaled_b = tt_multiply_by_quantized_multiplier(
        (b - p->zero_point_b) * (1 << TT_ADD_LEFT_SHIFT), p->multiplier_b, p->shift_b);
    const int32_t sum =
        tt_multiply_by_quantized_multiplier(scaled_a + scaled_b, p->multiplier, p->shift);
    return (int8_t)tt_clamp(sum + p->zero_point, p->act_min, p->act_max);
}

static bool is_whole(int32_t multiplier, int32_t shift)
{
    return multiplier == TT_HALF && shift == 0;
}

/* Whether the fast forms hold; `a_is_whole` says which operand is `whole`. */
static bool numbers_of(const tt_add_s8_params *p, tt_addition *n, bool *a_is_whole)
{
    const bool whole = is_whole(p->multiplier_a, p->shift_a);
    const int32_t part_right = whole ? -p->shift_b : -p->shift_a;
    n->whole_zero_point = whole ? p->zero_point_a : p->zero_point_b;
    n->part_zero_point = whole ? p->zero_point_b : p->zero_point_a;
    n->part_multiplier = whole ? p->multiplier_b : p->multiplier_a;
    n->part_right = part_right;
    n->part_half = part_right > 0 && part_right <= 22 ? 1 << (part_right - 1) : 0;
    n->multiplier = p->multiplier;
    n->right = -p->shift;
    *a_is_whole = whole;
    if (!(whole || is_whole(p->multiplier_b, p->shift_b)) || n->right < 1 || n->right > 22 ||
        part_right < 0 || part_right > 22 || p->act_min != -128 || p->act_max != 127) {
        return false;
    }
    n->rounding = (2 * p->zero_point + 1) * (1 << (n->right - 1));
    return part_right > 0 || is_whole(n->part_multiplier, 0);
}

static void add_row(const tt_addition *numbers, const int8_t *whole, int32_t whole_step,
                    const int8_t *part, int32_t part_step, tt_byte_row out)
{
    const tt_addition n = *numbers;
    int8_t *to = out.data;
    int8_t *const end = to + out.count;
    if (n.part_right == 0) {
        for (; to != end; whole += whole_step, part += part_step) {
            *to++ = (int8_t)add_wholes(&n, *whole, *part);
        }
    } else if (whole_step == 1 && part_step == 1) {
#pragma GCC unroll 2
        while (to != end) {
            *to++ = (int8_t)add(&n, *whole++, *part++);
        }
    } else {
        for (; to != end; whole += whole_step, part += part_step) {
            *to++ = (int8_t)add(&n, *whole, *part);
        }
    }
}

void tt_add_s8(const tt_add_s8_params *params, const tt_add_s8_io *io)
{
    const int32_t *n = params->loops.extents;
    const int32_t *step_a = params->loops.strides_a;
    const int32_t *step_b = params->loops.strides_b;
    tt_byte_row out = {io->output, n[3]};
    tt_addition numbers;
    bool a_is_whole;
    const bool fast = numbers_of(params, &numbers, &a_is_whole);
    for (int32_t i = 0; i < n[0]; i++) {
        for (int32_t j = 0; j < n[1]; j++) {
            for (int32_t k = 0; k < n[2]; k++) {
                const int8_t *a = io->a + i * step_a[0] + j * step_a[1] + k * step_a[2];
                const int8_t *b = io->b + i * step_b[0] + j * step_b[1] + k * step_b[2];
                if (fast && a_is_whole) {
                    add_row(&numbers, a, step_a[3], b, step_b[3], out);
                } else if (fast) {
                    add_row(&numbers, b, step_b[3], a, step_a[3], out);
                } else {
                    for (int32_t m = 0; m < n[3]; m++) {
                        out.data[m] = add_any(params, a[m * step_a[3]], b[m * step_b[3]]);
                    }
                }
                out.data += n[3];
            }
        }
    }
}

#endif
