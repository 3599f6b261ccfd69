#include "tt_matmul_dsp.h"

#if TT_DSP

/* 40 bytes: the code is entered in the middle where `quads` is no multiple of four. */
#define TT_QUAD                                                                                    \
    "ldmia.w r0!, {r4, r5, r6, r7}\n"                                                              \
    "ldmia.w r1!, {r8, r9, r10, r11}\n"                                                            \
    "smlad r2, r4, r8, r2\n"                                                                       \
    "smlad r3, r4, r10, r3\n"                                                                      \
    "smlad r12, r6, r8, r12\n"                                                                     \
    "smlad lr, r6, r10, lr\n"                                                                      \
    "smlad r2, r5, r9, r2\n"                                                                       \
    "smlad r3, r5, r11, r3\n"                                                                      \
    "smlad r12, r7, r9, r12\n"                                                                     \
    "smlad lr, r7, r11, lr\n"
#define TT_QUAD_BYTES 40u

/* See tt_fast_requantize. */
#define TT_REQUANTIZE(sum, multiplier, rounding, right)                                            \
    "lsl " sum ", " sum ", #1\n"                                                                   \
    "smmulr " sum ", " sum ", " multiplier "\n"                                                    \
    "add " sum ", " sum ", " sum ", asr #31\n"                                                     \
    "add " sum ", " sum ", " rounding "\n"                                                         \
    "asr " sum ", " sum ", " right "\n"                                                            \
    "ssat " sum ", #8, " sum "\n"

/* x, w, four sums and eight words fill the registers; all else is read from the stack. */
void tt_multiply_pairs_s8(const tt_pairs_job *job)
{
    const uint32_t *x = job->x;
    const uint32_t *const x_end = x + job->pairs * job->quads * TT_QUAD_WORDS;
    const uint32_t *const w_end = job->w + job->quads * TT_QUAD_WORDS;
    int8_t *out = job->out;
    const int32_t out_step = job->out_step;
    const int32_t stage[6] = {job->channel0->multiplier, job->channel0->rounding,
                              job->channel0->right,      job->channel1->multiplier,
                              job->channel1->rounding,   job->channel1->right};
    const int32_t *const stage_at = stage;
    struct {
        const uint32_t *w;
        int32_t bias0, bias1;
        uint32_t skip; /* bytes of code */
    } start = {job->w, job->channel0->bias, job->channel1->bias,
               ((uint32_t)-job->quads & 3u) * TT_QUAD_BYTES};
    const void *const start_at = &start;
    __asm__ volatile("ldr r0, %[x]\n"
                     "adr r5, 2f\n"
                     "ldr r4, %[start]\n"
                     "ldr r6, [r4, #12]\n"
                     "add r5, r5, r6\n"
                     "orr r5, r5, #1\n"
                     "str r5, [r4, #12]\n"
                     "1:\n"
                     "ldr r4, %[start]\n"
                     "ldmia r4, {r1, r2, r3, r4}\n"
                     "mov r12, r2\n"
                     "mov lr, r3\n"
                     "bx r4\n"
                     ".balign 4\n"
                     "2:\n" TT_QUAD TT_QUAD TT_QUAD TT_QUAD
                     "ldr r4, %[w_end]\n"
                     "cmp r1, r4\n"
                     "bne 2b\n"
                     "ldr r4, %[stage]\n"
                     "ldmia r4, {r5, r6, r7, r8, r9, r10}\n"
                     TT_REQUANTIZE("r2", "r5", "r6", "r7") TT_REQUANTIZE("r12", "r5", "r6", "r7")
                     TT_REQUANTIZE("r3", "r8", "r9", "r10") TT_REQUANTIZE("lr", "r8", "r9", "r10")
                     "ldr r4, %[out]\n"
                     "ldr r5, %[out_step]\n"
                     "strb r2, [r4]\n"
                     "strb r3, [r4, #1]\n"
                     "add r4, r4, r5\n"
                     "strb r12, [r4]\n"
                     "strb lr, [r4, #1]\n"
                     "add r4, r4, r5\n"
                     "str r4, %[out]\n"
                     "ldr r4, %[x_end]\n"
                     "cmp r0, r4\n"
                     "bne 1b\n"
                     : [out] "+m"(out), [start_block] "+m"(start)
                     : [x] "m"(x), [x_end] "m"(x_end), [w_end] "m"(w_end), [start] "m"(start_at),
                       [stage] "m"(stage_at), [stage_block] "m"(stage), [out_step] "m"(out_step)
                     : "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11",
                       "r12", "lr", "cc", "memory");
}

void tt_multiply_pairs_s32(const tt_pair_sums_job *job)
{
    const uint32_t *x = job->x;
    const uint32_t *const x_end = x + job->pairs * job->quads * TT_QUAD_WORDS;
    const uint32_t *const w_end = job->w + job->quads * TT_QUAD_WORDS;
    int32_t *sums = job->sums;
    struct {
        const uint32_t *w;
        uint32_t skip; /* bytes of code, then its address */
    } start = {job->w, ((uint32_t)-job->quads & 3u) * TT_QUAD_BYTES};
    const void *const start_at = &start;
    __asm__ volatile("ldr r0, %[x]\n"
                     "adr r5, 2f\n"
                     "ldr r4, %[start]\n"
                     "ldr r6, [r4, #4]\n"
                     "add r5, r5, r6\n"
                     "orr r5, r5, #1\n"
                     "str r5, [r4, #4]\n"
                     "1:\n"
                     "ldr r4, %[start]\n"
                     "ldrd r1, r4, [r4]\n"
                     "mov r2, #0\n"
                     "mov r3, #0\n"
                     "mov r12, #0\n"
                     "mov lr, #0\n"
                     "bx r4\n"
                     ".balign 4\n"
                     "2:\n" TT_QUAD TT_QUAD TT_QUAD TT_QUAD
                     "ldr r4, %[w_end]\n"
                     "cmp r1, r4\n"
                     "bne 2b\n"
                     "ldr r4, %[sums]\n"
                     "stmia r4!, {r2, r3, r12, lr}\n"
                     "str r4, %[sums]\n"
                     "ldr r4, %[x_end]\n"
                     "cmp r0, r4\n"
                     "bne 1b\n"
                     : [sums] "+m"(sums), [start_block] "+m"(start)
                     : [x] "m"(x), [x_end] "m"(x_end), [w_end] "m"(w_end), [start] "m"(start_at)
                     : "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11",
                       "r12", "lr", "cc", "memory");
}

#endif
