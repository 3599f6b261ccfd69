#include "tt_error_dsp.h"

#if TT_DSP

/* What the loop below keeps in memory, for want of registers. */
typedef struct tt_error_loop {
    const int32_t *end;
    int32_t sum_bytes;
    int32_t out_step;
    uint32_t counter_step;
} tt_error_loop;

void tt_requantize_errors(tt_error_requantizer *requantizer, uint32_t key,
                          const tt_error_column *column)
{
    const int32_t *sums = column->sums;
    int8_t *out = column->out;
    uint32_t counter = key + column->index * TT_GOLDEN;
    uint32_t seen = (uint32_t)requantizer->seen;
    tt_error_loop loop;
    const tt_error_loop *const at = &loop;
    loop.end = sums + column->count * column->sum_step;
    loop.sum_bytes = 4 * column->sum_step;
    loop.out_step = column->out_step;
    loop.counter_step = (uint32_t)column->out_step * TT_GOLDEN;
    __asm__ volatile("b 1f\n"
                     "8:\n"
                     "cmp r3, #0\n"
                     "ite lt\n"
                     "rsblt %[seen], r3, #0\n"
                     "movge %[seen], r3\n"
                     "b 2f\n"
                     "1:\n"
                     "ldr r3, [%[sums]]\n"
                     "add r4, r3, %[seen]\n"
                     "cmp r4, %[seen], lsl #1\n"
                     "bhi 8b\n"
                     "2:\n"
                     "eor r4, %[counter], %[counter], lsr #15\n"
                     "mul r4, r4, %[mix0]\n"
                     "add r3, r3, %[half]\n"
                     "asr r3, r3, %[shift]\n"
                     "eor r4, r4, r4, lsr #12\n"
                     "mul r4, r4, %[mix1]\n"
                     "ssat r3, #16, r3\n"
                     "mul r3, r3, %[multiplier]\n"
                     "add r3, r3, r4, lsr #16\n"
                     "ssat r3, #8, r3, asr #16\n"
                     "ldr r4, %[at]\n"
                     "strb r3, [%[out]]\n"
                     "ldm r4, {r3, r4, r5, r6}\n"
                     "add %[sums], %[sums], r4\n"
                     "add %[out], %[out], r5\n"
                     "add %[counter], %[counter], r6\n"
                     "cmp %[sums], r3\n"
                     "bne 1b\n"
                     : [sums] "+r"(sums), [out] "+r"(out), [counter] "+r"(counter), [seen] "+r"(seen)
                     : [half] "r"(requantizer->half), [shift] "r"(requantizer->shift),
                       [multiplier] "r"(requantizer->multiplier), [mix0] "r"(UINT32_C(0x2C1B3C6D)),
                       [mix1] "r"(UINT32_C(0x297A2D39)), [at] "m"(at), [block] "m"(loop)
                     : "r3", "r4", "r5", "r6", "cc", "memory");
    requantizer->seen = (int32_t)seen;
}

#endif
