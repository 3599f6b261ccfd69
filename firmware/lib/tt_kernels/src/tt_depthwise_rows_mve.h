/* Depthwise convolution a row of outputs at a time, from what tt_weave_mve.h lays out. */
#ifndef TT_DEPTHWISE_ROWS_MVE_H
#define TT_DEPTHWISE_ROWS_MVE_H

#include "tt_weave_mve.h"

#if TT_MVE

/* What the loop over the columns of a channel takes; its registers in this order. */
typedef struct tt_woven_run {
    const int8_t *x;
    int8_t *out;
    int32_t out_row, out_step; /* bytes to the second row, and to the fourth column */
    int32_t columns;
    const tt_woven_stage *stage;
    int32_t x_step; /* bytes of a window's stride */
    int32_t in_c;
    int32_t act_min, act_max;
    int32_t plane_bytes;
} tt_woven_run;

/* Requantizes four outputs in `q`, but for the zero point; r0 bias, r2 multiplier, r6 shift. Half
 * of what is shifted out is added by the shift itself; a tie is moved by the sign. */
#define TT_WOVEN_FINISH(q)                                                                         \
    "vadd.i32 " q ", " q ", r0\n"                                                                  \
    "vqrdmulh.s32 " q ", " q ", r2\n"                                                              \
    "vshr.s32 q2, " q ", #31\n"                                                                    \
    "vadd.i32 " q ", " q ", q2\n"                                                                  \
    "vrshl.s32 " q ", r6\n"

/* Two rows of outputs, windows of one vector that lie four bytes apart; q4 and q5 are the weights
 * of both. */
#define TT_TWO_PRODUCTS(a, b)                                                                      \
    "vldrb.8 q0, [r1], #4\n"                                                                       \
    "vmladav.s8 " a ", q0, q4\n"                                                                   \
    "vmladav.s8 " b ", q0, q5\n"
/* Four columns: the rows' outputs side by side in the halves of q2. */
#define TT_TWO_ROWS                                                                                \
    TT_TWO_PRODUCTS("r0", "r8")                                                                    \
    TT_TWO_PRODUCTS("r2", "r10")                                                                   \
    TT_TWO_PRODUCTS("r4", "r12")                                                                   \
    TT_TWO_PRODUCTS("r6", "lr")                                                                    \
    "vmov q0[2], q0[0], r0, r4\n"                                                                  \
    "vmov q0[3], q0[1], r2, r6\n"                                                                  \
    "vmov q1[2], q1[0], r8, r12\n"                                                                 \
    "vmov q1[3], q1[1], r10, lr\n"                                                                 \
    "ldm r7, {r0, r2, r4, r6}\n" TT_WOVEN_FINISH("q0")                                             \
        TT_WOVEN_FINISH("q1") "vqmovnb.s32 q2, q0\n"                                               \
                              "vqmovnt.s32 q2, q1\n"                                               \
                              "vqadd.s16 q2, q2, r4\n"                                             \
                              "vmax.s16 q2, q2, q3\n"                                              \
                              "vmin.s16 q2, q2, q7\n"

/* All channels of the group. */
__attribute__((noinline)) static void tt_woven_two_rows(const tt_woven_run *run,
                                                        const int8_t *weights)
{
    register const tt_woven_run *r __asm__("r0") = run;
    register const int8_t *w __asm__("r2") = weights;
    __asm__ volatile("mov r5, r2\n"
                     "ldrd r4, r6, [r0, #32]\n"
                     "vdup.16 q3, r4\n"
                     "vdup.16 q7, r6\n"
                     "ldrd r4, r6, [r0, #8]\n" /* q6: 0, row, step, row + step, .. */
                     "mov r9, r6\n"
                     "ldr r8, [r0, #28]\n"
                     "movs r6, #0\n"
                     "vidup.u32 q6, r6, #1\n"
                     "vmul.i32 q6, q6, r8\n"
                     "vadd.i32 q0, q6, r4\n"
                     "vmovnt.i32 q6, q0\n"
                     "ldr r7, [r0, #20]\n"
                     "ldrd r2, r4, [r0]\n"
                     "ldr r6, [r0, #16]\n"
                     "ldr r8, [r0, #40]\n"
                     "add r10, r7, #256\n"
                     "push {r2, r4, r6, r8, r10, r12}\n"
                     "1:\n"
                     "vldrb.8 q4, [r5], #16\n"
                     "vldrb.8 q5, [r5], #16\n"
                     "ldrd r1, r3, [sp]\n"
                     "ldrd r11, r0, [sp, #8]\n"
                     "add r0, r0, r1\n"
                     "add r2, r3, #1\n"
                     "strd r0, r2, [sp]\n"
                     "subs r11, r11, #4\n"
                     "blt 3f\n"
                     "2:\n" TT_TWO_ROWS "vstrb.16 q2, [r3, q6]\n"

                     "add r3, r3, r9\n"
                     "subs r11, r11, #4\n"
                     "bge 2b\n"
                     "3:\n"
                     "adds r11, r11, #4\n"
                     "beq 4f\n" TT_TWO_ROWS "vctp.32 r11\n"
                     "vpst\n"
                     "vstrbt.16 q2, [r3, q6]\n"
                     "4:\n"
                     "ldr r0, [sp, #16]\n"
                     "add r7, r7, #16\n"
                     "cmp r7, r0\n"
                     "bne 1b\n"
                     "add sp, sp, #24\n"
                     : "+r"(r), "+r"(w)
                     :
                     : "r1", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11", "r12", "lr",
                       "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "cc", "memory");
}

/* One row of outputs, windows of one to four vectors, whose weights are q4 to q7. */
#define TT_FIRST_PRODUCT(a) "vldrb.8 q0, [r1]\n vmladav.s8 " a ", q0, q4\n"
#define TT_NEXT_PRODUCT(a, at, w) "vldrb.8 q0, [r1, #" at "]\n vmladava.s8 " a ", q0, " w "\n"
#define TT_PRODUCTS_1(a) TT_FIRST_PRODUCT(a) "add r1, r1, r9\n"
#define TT_PRODUCTS_3(a)                                                                           \
    TT_FIRST_PRODUCT(a)                                                                            \
    TT_NEXT_PRODUCT(a, "16", "q5") TT_NEXT_PRODUCT(a, "32", "q6") "add r1, r1, r9\n"
#define TT_PRODUCTS_4(a)                                                                           \
    TT_FIRST_PRODUCT(a)                                                                            \
    TT_NEXT_PRODUCT(a, "16", "q5")                                                                 \
    TT_NEXT_PRODUCT(a, "32", "q6") TT_NEXT_PRODUCT(a, "48", "q7") "add r1, r1, r9\n"
#define TT_ONE_ROW_END                                                                             \
    "vmov q0[2], q0[0], r0, r4\n"                                                                  \
    "vmov q0[3], q0[1], r2, r6\n"                                                                  \
    "ldm r7, {r0, r2, r4, r6}\n" TT_WOVEN_FINISH("q0") "vadd.i32 q0, q0, r4\n"                     \
                                                       "vdup.32 q2, r5\n"                          \
                                                       "movs r0, #0\n"                             \
                                                       "vmax.s32 q0, q0, q2\n"                     \
                                                       "vidup.u32 q1, r0, #1\n"                    \
                                                       "vmin.s32 q0, q0, q3\n"                     \
                                                       "vmul.i32 q1, q1, r8\n"                     \
                                                       "vctp.32 r11\n"                             \
                                                       "vpst\n"                                    \
                                                       "vstrbt.32 q0, [r3, q1]\n"                  \
                                                       "add r3, r3, r10\n"                         \
                                                       "subs r11, r11, #4\n"                       \
                                                       "bgt 1b\n"
#define TT_ONE_ROW(load, products)                                                                 \
    __asm__ volatile("vldrb.8 q4, [r2]\n" load "ldrd r5, r6, [r0, #32]\n"                          \
                     "vdup.32 q3, r6\n"                                                            \
                     "ldrd r9, r8, [r0, #24]\n"                                                    \
                     "ldrd r1, r3, [r0]\n"                                                         \
                     "ldr r10, [r0, #12]\n"                                                        \
                     "ldrd r11, r7, [r0, #16]\n"                                                   \
                     "1:\n" products("r0") products("r2") products("r4") products("r6")            \
                         TT_ONE_ROW_END                                                            \
                     : "+r"(r), "+r"(w)                                                            \
                     :                                                                             \
                     : "r1", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11", "q0", "q1",   \
                       "q2", "q3", "q4", "q5", "q6", "q7", "cc", "memory")

__attribute__((noinline)) static void tt_woven_one_row(const tt_woven_run *run,
                                                       const int8_t *weights, int32_t vectors)
{
    register const tt_woven_run *r __asm__("r0") = run;
    register const int8_t *w __asm__("r2") = weights;
    if (vectors == 1) {
        TT_ONE_ROW("", TT_PRODUCTS_1);
    } else if (vectors <= 3) {
        TT_ONE_ROW("vldrb.8 q5, [r2, #16]\n vldrb.8 q6, [r2, #32]\n", TT_PRODUCTS_3);
    } else {
        TT_ONE_ROW("vldrb.8 q5, [r2, #16]\n vldrb.8 q6, [r2, #32]\n vldrb.8 q7, [r2, #48]\n",
                   TT_PRODUCTS_4);
    }
}

/* All outputs of the group's channels. */
static void tt_woven_outputs(const tt_woven *woven, const tt_depthwise_conv2d_s8_io *io)
{
    const tt_depthwise_conv2d_s8_params *p = woven->params;
    const tt_window *w = &p->window;
    const int32_t in_c = p->in_c;
    const int32_t row_bytes = w->out_w * in_c;
    tt_woven_run run = {.out_row = row_bytes,
                        .out_step = 4 * in_c,
                        .columns = w->out_w,
                        .x_step = w->stride_w * woven->lines,
                        .in_c = in_c,
                        .act_min = p->output.act_min,
                        .act_max = p->output.act_max,
                        .plane_bytes = woven->plane_bytes};
    for (int32_t line = 0; line < woven->lines; line += 4) {
        tt_weave_padding(woven, line);
    }
    for (int32_t oy = 0; oy < w->out_h; oy += woven->rows) {
        const int32_t top = oy * w->stride_h - w->pad_h;
        tt_weave_lines(woven, io->input, top, 0);
        if (woven->lines == 8) {
            tt_weave_lines(woven, io->input, top, 4);
        }
        const int8_t *weights = woven->weights;
        run.x = woven->planes;
        run.out = io->output + oy * row_bytes + woven->first;
        run.stage = woven->stages;
        if (woven->rows == 2 && oy + 1 < w->out_h) {
            tt_woven_two_rows(&run, weights);
            continue;
        }
        for (int32_t i = 0; i < TT_WOVEN_CHANNELS; i++) {
            run.stage = &woven->stages[i];
            tt_woven_one_row(&run, weights, woven->vectors);
            weights += woven->rows * woven->vectors * 16;
            run.x += woven->plane_bytes;
            run.out++;
        }
    }
}

#endif

#endif
