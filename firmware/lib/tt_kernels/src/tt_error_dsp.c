#include "tt_error_dsp.h"

#if TT_DSP

/* One element, at label 1n: sum r3, draw r4. A sum above `seen` is rare; label 3n takes it. */
#define TT_ERROR(n, bytes)                                                                         \
    "1" n ":\n"                                                                                    \
    "ldr r3, [%[sums]], #" bytes "\n"                                                              \
    "add r4, r3, %[seen]\n"                                                                        \
    "cmp r4, %[seen], lsl #1\n"                                                                    \
    "bhi 3" n "f\n"                                                                                \
    "2" n ":\n"                                                                                    \
    "eor r4, %[counter], %[counter], lsr #15\n"                                                    \
    "mul r4, r4, %[mix0]\n"                                                                        \
    "add r3, r3, %[half]\n"                                                                        \
    "asr r3, r3, %[shift]\n"                                                                       \
    "eor r4, r4, r4, lsr #12\n"                                                                    \
    "mul r4, r4, %[mix1]\n"                                                                        \
    "ssat r3, #16, r3\n"                                                                           \
    "mul r3, r3, %[multiplier]\n"                                                                  \
    "add %[counter], %[counter], %[counter_step]\n"                                                \
    "add r3, r3, r4, lsr #16\n"                                                                    \
    "ssat r3, #8, r3, asr #16\n"                                                                   \
    "strb r3, [%[out]]\n"                                                                          \
    "add %[out], %[out], %[out_step]\n"
#define TT_LARGER(n)                                                                               \
    "3" n ":\n"                                                                                    \
    "eor %[seen], r3, r3, asr #31\n"                                                               \
    "sub %[seen], %[seen], r3, asr #31\n"                                                          \
    "b 2" n "b\n"

/* Two elements a turn; an odd one comes in at the second. */
#define TT_ERRORS(bytes)                                                                           \
    __asm__ volatile("ldr r3, %[odd]\n"                                                            \
                     "cmp r3, #0\n"                                                                \
                     "bne 12f\n" TT_ERROR("1", bytes) TT_ERROR("2", bytes) "ldr r3, %[end]\n"      \
                     "cmp %[sums], r3\n"                                                           \
                     "bne 11b\n"                                                                   \
                     "b 4f\n" TT_LARGER("1") TT_LARGER("2") "4:\n"                                 \
                     : [sums] "+r"(sums), [out] "+r"(out), [counter] "+r"(counter),                \
                       [seen] "+r"(seen)                                                           \
                     : [half] "r"(half), [shift] "r"(shift), [multiplier] "r"(multiplier),         \
                       [mix0] "r"(mix0), [mix1] "r"(mix1), [out_step] "r"(out_step),               \
                       [counter_step] "r"(counter_step), [end] "m"(end), [odd] "m"(odd)            \
                     : "r3", "r4", "cc", "memory")

void tt_requantize_errors(tt_error_requantizer *requantizer, uint32_t key,
                          const tt_error_column *column)
{
    const int32_t *sums = column->sums;
    const int32_t *const end = sums + column->count * column->sum_step;
    const int32_t odd = column->count & 1;
    const int32_t half = requantizer->half;
    const int32_t shift = requantizer->shift;
    const int32_t multiplier = requantizer->multiplier;
    const uint32_t mix0 = TT_RANDOM_FIRST; /* see tt_random_at */
    const uint32_t mix1 = TT_RANDOM_SECOND;
    const int32_t out_step = column->out_step;
    const uint32_t counter_step = (uint32_t)out_step * TT_GOLDEN;
    int8_t *out = column->out;
    uint32_t counter = key + column->index * TT_GOLDEN;
    uint32_t seen = (uint32_t)requantizer->seen;
    if (column->sum_step == 1) {
        TT_ERRORS("4");
    } else {
        TT_ERRORS("8");
    }
    requantizer->seen = (int32_t)seen;
}

#endif
