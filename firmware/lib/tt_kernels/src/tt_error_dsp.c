#include "tt_error_dsp.h"

#if TT_DSP

#define TT_ALIAS_LIMIT 32000 /* errors whose square a 16-bit product holds */

void tt_error_stage_follow(tt_error_stage *stage)
{
    const tt_error_requantizer *r = &stage->plain;
    /* no error of a larger sum is smaller */
    int32_t least = (((r->seen >> r->shift) - 1) * (stage->multiplier >> 16)) >> 16;
    least = least < TT_ERROR_MAX ? least : TT_ERROR_MAX;
    stage->fast = stage->possible && least > 0;
    stage->guard = INT32_MAX - (least * least - 1);
}

tt_error_stage tt_error_stage_of(float range, float unit, int32_t bound, const tt_step *step,
                                 tt_key key)
{
    const int32_t limit = tt_error_limit(range, unit);
    tt_error_stage s = {.plain = tt_error_begin(limit, key), .key = key};
    const int32_t shift = s.plain.shift;
    /* below it the decayed range is larger; the margin is far above the floats' rounding */
    s.plain.seen = limit / 64 * (step->apply ? 58 : 45);
    s.lift = shift < 2 ? 2 : 0;
    s.scale = (int32_t)(UINT32_C(1) << (uint32_t)(32 - shift - s.lift));
    s.multiplier = (int32_t)((uint32_t)s.plain.multiplier << 16);
    const int64_t largest = ((int64_t)(bound >> shift) + 1) * s.plain.multiplier;
    s.possible = s.plain.multiplier < 32768 && largest < (int64_t)TT_ALIAS_LIMIT << 16 &&
                 bound < INT32_MAX >> 3;
    tt_error_stage_follow(&s);
    return s;
}

/* The registers of the loop, in their order: sums r4, out r5, counter r6, and constants. */
typedef struct tt_error_registers {
    const int32_t *sums;
    int8_t *out;
    uint32_t counter;
    int32_t scale, multiplier; /* r7, r8 */
    uint32_t mix0, mix1;       /* r9, r10; see tt_random_at */
    int32_t guard, out_step;   /* r11, r12 */
    uint32_t counter_step;     /* lr */
} tt_error_registers;

/* One element: sum in `acc`, draw r2, error r3. */
#define TT_ERROR(acc)                                                                              \
    "smmulr " acc ", " acc ", r7\n"                                                                \
    "eor r2, r6, r6, lsr #15\n"                                                                    \
    "mul r2, r2, r9\n"                                                                             \
    "eor r2, r2, r2, lsr #12\n"                                                                    \
    "mul r2, r2, r10\n"                                                                            \
    "mov r3, #0\n"                                                                                 \
    "smlal r2, r3, " acc ", r8\n"                                                                  \
    "add r6, r6, lr\n"                                                                             \
    "smlabb r2, r3, r3, r11\n"

#define TT_TWO_ERRORS(load)                                                                        \
    load TT_ERROR("r0") "strb r3, [r5]\n" TT_ERROR("r1") "strb r3, [r5, r12]\n"                    \
                                                         "add r5, r5, r12, lsl #1\n"

#define TT_LOAD_STEP_1 "ldrd r0, r1, [r4], #8\n"
#define TT_LOAD_STEP_2 "ldr r0, [r4], #8\n ldr r1, [r4], #8\n"
#define TT_LIFT "lsl r0, r0, #2\n lsl r1, r1, #2\n"

/* Four elements a turn. */
#define TT_ERRORS(load)                                                                            \
    __asm__ volatile("ldr r0, %[start]\n"                                                          \
                     "ldmia r0, {r4, r5, r6, r7, r8, r9, r10, r11, r12, lr}\n"                     \
                     "mov r0, #0\n"                                                                \
                     "msr apsr_nzcvq, r0\n"                                                        \
                     "1:\n" TT_TWO_ERRORS(load) TT_TWO_ERRORS(load) "ldr r3, %[end]\n"             \
                                                                    "cmp r4, r3\n"                 \
                                                                    "bne 1b\n"                     \
                                                                    "mrs r0, apsr\n"               \
                                                                    "str r0, %[flags]\n"           \
                     : [flags] "=m"(flags)                                                         \
                     : [start] "m"(start), [registers] "m"(registers), [end] "m"(end)              \
                     : "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11",   \
                       "r12", "lr", "cc", "memory")

#define TT_FLAG_Q (UINT32_C(1) << 27)

/* Whether none of the first `count` elements, a multiple of four, needs the plain code. */
static bool fast_errors(const tt_error_stage *stage, const tt_error_column *column, int32_t count)
{
    const tt_error_registers registers = {
        .sums = column->sums,
        .out = column->out,
        .counter = stage->key.first + column->index * stage->key.stride,
        .scale = stage->scale,
        .multiplier = stage->multiplier,
        .mix0 = TT_RANDOM_FIRST,
        .mix1 = TT_RANDOM_SECOND,
        .guard = stage->guard,
        .out_step = column->out_step,
        .counter_step = (uint32_t)column->out_step * stage->key.stride,
    };
    const void *const start = &registers;
    const int32_t *const end = column->sums + count * column->sum_step;
    uint32_t flags;
    if (column->sum_step == 1) {
        if (stage->lift == 0) {
            TT_ERRORS(TT_LOAD_STEP_1);
        } else {
            TT_ERRORS(TT_LOAD_STEP_1 TT_LIFT);
        }
    } else if (stage->lift == 0) {
        TT_ERRORS(TT_LOAD_STEP_2);
    } else {
        TT_ERRORS(TT_LOAD_STEP_2 TT_LIFT);
    }
    return (flags & TT_FLAG_Q) == 0u;
}

void tt_requantize_errors(tt_error_stage *stage, const tt_error_column *column)
{
    int32_t made = stage->fast ? column->count & ~3 : 0;
    if (made > 0 && !fast_errors(stage, column, made)) {
        made = 0;
    }
    if (made == column->count) {
        return;
    }
    tt_error_requantizer r = stage->plain;
    const int32_t seen = r.seen;
    const int32_t step = column->out_step;
    const int32_t *sums = column->sums + made * column->sum_step;
    int8_t *out = column->out + made * step;
    r.counter = stage->key.first + (column->index + (uint32_t)(made * step)) * r.stride;
    for (int32_t i = made; i < column->count; i++) {
        *out = tt_error_next(&r, *sums);
        r.counter += (uint32_t)(step - 1) * r.stride;
        sums += column->sum_step;
        out += step;
    }
    stage->plain.seen = r.seen;
    if (r.seen != seen) {
        tt_error_stage_follow(stage);
    }
}

/* The same for products, in the registers r1, r4 to r12. */
typedef struct tt_product_registers {
    const int8_t *errors;
    int8_t *out;
    uint32_t counter;
    const int16_t *factors;
    int32_t scale, multiplier;
    uint32_t mix0, mix1;
    int32_t guard;
    uint32_t stride;
} tt_product_registers;

/* One product; an error of 0 stays 0 whatever is drawn, so nothing is. */
#define TT_PRODUCT(n, at)                                                                          \
    "ldrsb r0, [r1], #1\n"                                                                         \
    "mov r3, #0\n"                                                                                 \
    "cbz r0, 1" n "f\n"                                                                            \
    "ldrsh r2, [r6, #" at "]\n"                                                                    \
    "eor r3, r5, r5, lsr #15\n"                                                                    \
    "mul r3, r3, r9\n"                                                                             \
    "smulbb r0, r0, r2\n"                                                                          \
    "smmulr r0, r0, r7\n"                                                                          \
    "eor r2, r3, r3, lsr #12\n"                                                                    \
    "mul r2, r2, r10\n"                                                                            \
    "mov r3, #0\n"                                                                                 \
    "smlal r2, r3, r0, r8\n"                                                                       \
    "smlabb r2, r3, r3, r11\n"                                                                     \
    "1" n ":\n"                                                                                    \
    "strb r3, [r4], #1\n"                                                                          \
    "add r5, r5, r12\n"

static bool fast_products(const tt_error_stage *stage, const tt_error_products *p, int32_t count)
{
    const tt_product_registers registers = {
        .errors = p->errors,
        .out = p->out,
        .counter = stage->key.first + p->index * stage->key.stride,
        .factors = p->factors,
        .scale = stage->scale,
        .multiplier = stage->multiplier,
        .mix0 = TT_RANDOM_FIRST,
        .mix1 = TT_RANDOM_SECOND,
        .guard = stage->guard,
        .stride = stage->key.stride,
    };
    const void *const start = &registers;
    const int8_t *const end = p->errors + count;
    uint32_t flags;
    __asm__ volatile("ldr r0, %[start]\n"
                     "ldmia r0, {r1, r4, r5, r6, r7, r8, r9, r10, r11, r12}\n"
                     "mov r0, #0\n"
                     "msr apsr_nzcvq, r0\n"
                     "2:\n" TT_PRODUCT("1", "0") TT_PRODUCT("2", "2") TT_PRODUCT("3", "4")
                         TT_PRODUCT("4", "6") "add r6, #8\n"
                                              "ldr r3, %[end]\n"
                                              "cmp r1, r3\n"
                                              "bne 2b\n"
                                              "mrs r0, apsr\n"
                                              "str r0, %[flags]\n"
                     : [flags] "=m"(flags)
                     : [start] "m"(start), [registers] "m"(registers), [end] "m"(end)
                     : "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11",
                       "r12", "cc", "memory");
    return (flags & TT_FLAG_Q) == 0u;
}

void tt_requantize_products(tt_error_stage *stage, const tt_error_products *products)
{
    int32_t made = stage->fast && stage->lift == 0 ? products->count & ~3 : 0;
    if (made > 0 && !fast_products(stage, products, made)) {
        made = 0;
    }
    if (made == products->count) {
        return;
    }
    tt_error_requantizer r = stage->plain;
    const int32_t seen = r.seen;
    for (int32_t i = made; i < products->count; i++) {
        r.counter = stage->key.first + (products->index + (uint32_t)i) * r.stride;
        products->out[i] = tt_error_next(&r, products->errors[i] * products->factors[i]);
    }
    stage->plain.seen = r.seen;
    if (r.seen != seen) {
        tt_error_stage_follow(stage);
    }
}

#endif
