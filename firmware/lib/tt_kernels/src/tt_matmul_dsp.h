/* Products of int8 matrices by two rows times two columns, on the DSP extension.
 *
 * Both sides are staged first: widened to int16, two rows woven together. A quad is four terms of
 * both rows in four words: row 0 terms (0, 2), row 0 terms (1, 3), row 1 (0, 2), row 1 (1, 3), as
 * SXTB16 gives them. The inner loop then takes 10 instructions for 16 products: two LDM, 8 SMLAD.
 * Missing terms are staged as bytes of 0; it is enough that one side's words become 0.
 */
#ifndef TT_MATMUL_DSP_H
#define TT_MATMUL_DSP_H

#include "tt_dsp.h"

#if TT_DSP

#define TT_QUAD_WORDS 4

static inline int32_t tt_quads(int32_t terms)
{
    return (terms + 3) / 4;
}

/* Stages two rows of `terms` bytes each; returns the end. */
uint32_t *tt_stage_rows(uint32_t *staged, const int8_t *row0, const int8_t *row1, int32_t terms,
                        uint32_t offset);

/* 1 to 4 bytes as a word, zeros above. */
uint32_t tt_load_part(const int8_t *from, int32_t count);

/* A matrix of bytes to be staged along its columns. */
typedef struct tt_byte_columns {
    const int8_t *first; /* top of the first column */
    int32_t stride;      /* bytes from row to row */
    int32_t rows;        /* terms */
    int32_t columns;     /* 1 to 4 */
    uint32_t offset;
} tt_byte_columns;

/* Stages up to four columns: the first two at `staged`, the others `pair_words` later. */
void tt_stage_columns(uint32_t *staged, int32_t pair_words, const tt_byte_columns *source);

typedef struct tt_sums {
    int32_t a0, a1, b0, b1; /* row of x (a, b) times row of w (0, 1) */
} tt_sums;

/* Pairs of staged rows of x times two staged rows of w, requantized. Both channels are `fast`, and
 * their results stand side by side; the activation's bounds are those of int8. */
typedef struct tt_pairs_job {
    const uint32_t *x;
    const uint32_t *w;
    int32_t pairs; /* at least one */
    int32_t quads;
    int8_t *out;      /* of the first row of x */
    int32_t out_step; /* to the next one's */
    const tt_channel *channel0;
    const tt_channel *channel1;
} tt_pairs_job;

void tt_multiply_pairs_s8(const tt_pairs_job *job);

/* The sums themselves, which begin at 0: for each pair a0, a1, b0, b1 (see tt_sums). */
typedef struct tt_pair_sums_job {
    const uint32_t *x;
    const uint32_t *w;
    int32_t pairs; /* at least one */
    int32_t quads;
    int32_t *sums;
} tt_pair_sums_job;

void tt_multiply_pairs_s32(const tt_pair_sums_job *job);

#define TT_LOAD_QUADS                                                                              \
    "ldmia %[x]!, {r3, r4, r5, r6}\n"                                                            \
    "ldmia %[w]!, {r8, r9, r10, r11}\n"
#define TT_SUM_QUADS                                                                               \
    "smlad %[a0], r3, r8, %[a0]\n"                                                                 \
    "smlad %[a1], r3, r10, %[a1]\n"                                                                \
    "smlad %[b0], r5, r8, %[b0]\n"                                                                 \
    "smlad %[b1], r5, r10, %[b1]\n"                                                                \
    "smlad %[a0], r4, r9, %[a0]\n"                                                                 \
    "smlad %[a1], r4, r11, %[a1]\n"                                                                \
    "smlad %[b0], r6, r9, %[b0]\n"                                                                 \
    "smlad %[b1], r6, r11, %[b1]\n"

/* sums += x * w over `quads` >= 1 quads. Two pointers, four sums and eight words fill the
 * registers, so the end of w is compared in memory. */
static inline void tt_dot_2x2(tt_sums *sums, const uint32_t *x, const uint32_t *w, int32_t quads)
{
    const uint32_t *const ends[2] = {w + (quads & ~3) * TT_QUAD_WORDS, w + quads * TT_QUAD_WORDS};
    int32_t a0 = sums->a0, a1 = sums->a1, b0 = sums->b0, b1 = sums->b1;
    if (quads >= 4) {
        __asm__ volatile("1:\n" TT_LOAD_QUADS TT_SUM_QUADS TT_LOAD_QUADS TT_SUM_QUADS TT_LOAD_QUADS
                             TT_SUM_QUADS TT_LOAD_QUADS TT_SUM_QUADS
                         "ldr r3, %[end]\n cmp %[w], r3\n bne 1b\n"
                         : [x] "+r"(x), [w] "+r"(w), [a0] "+r"(a0), [a1] "+r"(a1), [b0] "+r"(b0),
                           [b1] "+r"(b1)
                         : [end] "m"(ends[0])
                         : "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "cc", "memory");
    }
    if ((quads & 3) != 0) {
        __asm__ volatile("1:\n" TT_LOAD_QUADS TT_SUM_QUADS "ldr r3, %[end]\n cmp %[w], r3\n bne 1b\n"
                         : [x] "+r"(x), [w] "+r"(w), [a0] "+r"(a0), [a1] "+r"(a1), [b0] "+r"(b0),
                           [b1] "+r"(b1)
                         : [end] "m"(ends[1])
                         : "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "cc", "memory");
    }
    sums->a0 = a0;
    sums->a1 = a1;
    sums->b0 = b0;
    sums->b1 = b1;
}

#endif

#endif
