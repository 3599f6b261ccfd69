#include "tt_matmul_dsp.h"

#if TT_DSP

/* One quad from up to four bytes of each row. */
static uint32_t *stage_rest(uint32_t *staged, const int8_t *row0, const int8_t *row1, int32_t terms,
                            uint32_t offset)
{
    uint32_t word0 = 0;
    uint32_t word1 = 0;
    for (int32_t i = 0; i < terms; i++) {
        word0 |= (uint32_t)(uint8_t)row0[i] << (8 * i);
        word1 |= (uint32_t)(uint8_t)row1[i] << (8 * i);
    }
    staged[0] = tt_extend_02(offset, word0);
    staged[1] = tt_extend_13(offset, word0);
    staged[2] = tt_extend_02(offset, word1);
    staged[3] = tt_extend_13(offset, word1);
    return staged + 4;
}

#define TT_STAGE_QUAD                                                                              \
    "ldr r5, [%[row0]], #4\n"                                                                      \
    "ldr r8, [%[row1]], #4\n"                                                                      \
    "sxtab16 r4, %[offset], r5\n"                                                                  \
    "sxtab16 r5, %[offset], r5, ror #8\n"                                                          \
    "sxtab16 r6, %[offset], r8\n"                                                                  \
    "sxtab16 r8, %[offset], r8, ror #8\n"                                                          \
    "stmia %[staged]!, {r4, r5, r6, r8}\n"

uint32_t *tt_stage_rows(uint32_t *staged, const int8_t *row0, const int8_t *row1, int32_t terms,
                        uint32_t offset)
{
    const uint32_t *const end4 = staged + (terms / 16) * 16;
    const uint32_t *const end1 = staged + (terms / 4) * 4;
    if (staged != end4) {
        __asm__ volatile("1:\n" TT_STAGE_QUAD TT_STAGE_QUAD TT_STAGE_QUAD TT_STAGE_QUAD
                         "cmp %[staged], %[end]\n bne 1b\n"
                         : [staged] "+r"(staged), [row0] "+r"(row0), [row1] "+r"(row1)
                         : [offset] "r"(offset), [end] "r"(end4)
                         : "r4", "r5", "r6", "r8", "cc", "memory");
    }
    if (staged != end1) {
        __asm__ volatile("1:\n" TT_STAGE_QUAD "cmp %[staged], %[end]\n bne 1b\n"
                         : [staged] "+r"(staged), [row0] "+r"(row0), [row1] "+r"(row1)
                         : [offset] "r"(offset), [end] "r"(end1)
                         : "r4", "r5", "r6", "r8", "cc", "memory");
    }
    return (terms & 3) == 0 ? staged : stage_rest(staged, row0, row1, terms & 3, offset);
}

/* Four rows of one word each, columns by columns: a quad of columns 0 and 1, one of 2 and 3. */
static void stage_square(uint32_t *staged, int32_t pair_words, const uint32_t rows[4],
                         uint32_t offset)
{
    const uint32_t low02 = tt_pack_low(rows[0], rows[2]);
    const uint32_t low13 = tt_pack_low(rows[1], rows[3]);
    const uint32_t high02 = tt_pack_high(rows[0], rows[2]);
    const uint32_t high13 = tt_pack_high(rows[1], rows[3]);
    uint32_t *second = staged + pair_words;
    staged[0] = tt_extend_02(offset, low02);
    staged[1] = tt_extend_02(offset, low13);
    staged[2] = tt_extend_13(offset, low02);
    staged[3] = tt_extend_13(offset, low13);
    second[0] = tt_extend_02(offset, high02);
    second[1] = tt_extend_02(offset, high13);
    second[2] = tt_extend_13(offset, high02);
    second[3] = tt_extend_13(offset, high13);
}

static void stage_square_pair(uint32_t *staged, const uint32_t rows[4], uint32_t offset)
{
    const uint32_t low02 = tt_pack_low(rows[0], rows[2]);
    const uint32_t low13 = tt_pack_low(rows[1], rows[3]);
    staged[0] = tt_extend_02(offset, low02);
    staged[1] = tt_extend_02(offset, low13);
    staged[2] = tt_extend_13(offset, low02);
    staged[3] = tt_extend_13(offset, low13);
}

/* Squares of whole words; the asm holds the four rows and the words of two quads. */
static const int8_t *stage_squares(uint32_t *staged, int32_t pair_words,
                                   const tt_byte_columns *source, int32_t squares)
{
    const int8_t *from = source->first;
    const int32_t stride = source->stride;
    uint32_t *second = staged + pair_words;
    const uint32_t *const end = staged + squares * TT_QUAD_WORDS;
    __asm__ volatile("1:\n"
                     "ldr r4, [%[from]]\n"
                     "ldr r5, [%[from], %[stride]]\n"
                     "add %[from], %[from], %[stride], lsl #1\n"
                     "ldr r6, [%[from]]\n"
                     "ldr r8, [%[from], %[stride]]\n"
                     "add %[from], %[from], %[stride], lsl #1\n"
                     "pkhbt r9, r4, r6, lsl #16\n"
                     "pkhtb r6, r6, r4, asr #16\n"
                     "pkhbt r10, r5, r8, lsl #16\n"
                     "pkhtb r8, r8, r5, asr #16\n"
                     "sxtab16 r3, %[offset], r9\n"
                     "sxtab16 r4, %[offset], r10\n"
                     "sxtab16 r5, %[offset], r9, ror #8\n"
                     "sxtab16 r9, %[offset], r10, ror #8\n"
                     "stmia %[staged]!, {r3, r4, r5, r9}\n"
                     "sxtab16 r3, %[offset], r6\n"
                     "sxtab16 r4, %[offset], r8\n"
                     "sxtab16 r5, %[offset], r6, ror #8\n"
                     "sxtab16 r6, %[offset], r8, ror #8\n"
                     "stmia %[second]!, {r3, r4, r5, r6}\n"
                     "ldr r10, %[end]\n"
                     "cmp %[staged], r10\n"
                     "bne 1b\n"
                     : [staged] "+r"(staged), [second] "+r"(second), [from] "+r"(from)
                     : [stride] "r"(stride), [offset] "r"(source->offset), [end] "m"(end)
                     : "r3", "r4", "r5", "r6", "r8", "r9", "r10", "cc", "memory");
    return from;
}

uint32_t tt_load_part(const int8_t *from, int32_t count)
{
    if (count == 4) {
        return tt_load32(from);
    }
    uint32_t word = 0;
    for (int32_t i = 0; i < count; i++) {
        word |= (uint32_t)(uint8_t)from[i] << (8 * i);
    }
    return word;
}

void tt_stage_columns(uint32_t *staged, int32_t pair_words, const tt_byte_columns *source)
{
    const int8_t *from = source->first;
    int32_t left = source->rows;
    if (source->columns == 4 && left >= 4) {
        from = stage_squares(staged, pair_words, source, left / 4);
        staged += left / 4 * TT_QUAD_WORDS;
        left &= 3;
    }
    while (left > 0) {
        uint32_t rows[4] = {0, 0, 0, 0};
        for (int32_t i = 0; i < 4 && i < left; i++) {
            rows[i] = tt_load_part(from, source->columns);
            from += source->stride;
        }
        if (source->columns > 2) {
            stage_square(staged, pair_words, rows, source->offset);
        } else {
            stage_square_pair(staged, rows, source->offset);
        }
        staged += TT_QUAD_WORDS;
        left -= 4;
    }
}

#endif
