#include "tt_planes_dsp.h"

#if TT_DSP

/* One row of taps for a group of outputs: r0 the plane (then the next row), r1 the filter, r2, r3,
 * r12, lr the sums in turn (r2, r3 where the group is two), r11 bytes of a plane's row. */

#define TT_MLA(sum, x, w) "smlad " sum ", " x ", " w ", " sum "\n"

#define TT_ROW_3_1                                                                                 \
    "ldmia r0, {r4, r5, r6}\n"                                                                     \
    "add r0, r0, r11\n"                                                                            \
    "ldmia r1!, {r7, r8, r9, r10}\n" TT_MLA("r2", "r4", "r7") TT_MLA("r2", "r5", "r8")             \
        TT_MLA("r3", "r4", "r9") TT_MLA("r3", "r5", "r10") TT_MLA("r12", "r5", "r7")               \
            TT_MLA("r12", "r6", "r8") TT_MLA("lr", "r5", "r9") TT_MLA("lr", "r6", "r10")

#define TT_ROW_5_1                                                                                 \
    "ldmia r0, {r4, r5, r6, r7}\n"                                                                 \
    "add r0, r0, r11\n"                                                                            \
    "ldmia r1!, {r8, r9, r10}\n" TT_MLA("r2", "r4", "r8") TT_MLA("r2", "r5", "r9")                 \
        TT_MLA("r2", "r6", "r10") TT_MLA("r12", "r5", "r8") TT_MLA("r12", "r6", "r9")              \
            TT_MLA("r12", "r7", "r10") "ldmia r1!, {r8, r9, r10}\n" TT_MLA("r3", "r4", "r8")       \
                TT_MLA("r3", "r5", "r9") TT_MLA("r3", "r6", "r10") TT_MLA("lr", "r5", "r8")        \
                    TT_MLA("lr", "r6", "r9") TT_MLA("lr", "r7", "r10")

#define TT_ROW_7_1                                                                                 \
    "ldmia r0, {r4, r5, r6, r7}\n"                                                                 \
    "add r0, r0, r11\n"                                                                            \
    "ldmia r1!, {r8, r9, r10, r12}\n" TT_MLA("r2", "r4", "r8") TT_MLA("r2", "r5", "r9")            \
        TT_MLA("r2", "r6", "r10")                                                                  \
            TT_MLA("r2", "r7", "r12") "ldmia r1!, {r8, r9, r10, r12}\n" TT_MLA("r3", "r4", "r8")   \
                TT_MLA("r3", "r5", "r9") TT_MLA("r3", "r6", "r10") TT_MLA("r3", "r7", "r12")

#define TT_ROW_3_2                                                                                 \
    "ldmia r0, {r4, r5, r6, r7, r8}\n"                                                             \
    "add r0, r0, r11\n"                                                                            \
    "ldmia r1!, {r9, r10}\n" TT_MLA("r2", "r4", "r9") TT_MLA("r2", "r5", "r10")                    \
        TT_MLA("r3", "r5", "r9") TT_MLA("r3", "r6", "r10") TT_MLA("r12", "r6", "r9")               \
            TT_MLA("r12", "r7", "r10") TT_MLA("lr", "r7", "r9") TT_MLA("lr", "r8", "r10")

#define TT_ROW_5_2                                                                                 \
    "ldmia r0, {r4, r5, r6, r7}\n"                                                                 \
    "add r0, r0, r11\n"                                                                            \
    "ldmia r1!, {r8, r9, r10}\n" TT_MLA("r2", "r4", "r8") TT_MLA("r2", "r5", "r9")                 \
        TT_MLA("r2", "r6", "r10") TT_MLA("r3", "r5", "r8") TT_MLA("r3", "r6", "r9")                \
            TT_MLA("r3", "r7", "r10")

#define TT_ROW_7_2                                                                                 \
    "ldmia r0, {r4, r5, r6, r7, r8}\n"                                                             \
    "add r0, r0, r11\n"                                                                            \
    "ldmia r1!, {r9, r10, r12, lr}\n" TT_MLA("r2", "r4", "r9") TT_MLA("r2", "r5", "r10")           \
        TT_MLA("r2", "r6", "r12") TT_MLA("r2", "r7", "lr") TT_MLA("r3", "r5", "r9")                \
            TT_MLA("r3", "r6", "r10") TT_MLA("r3", "r7", "r12") TT_MLA("r3", "r8", "lr")

#define TT_ROWS_1(row) row
#define TT_ROWS_2(row) row row
#define TT_ROWS_3(row) row row row
#define TT_ROWS_4(row) row row row row
#define TT_ROWS_5(row) row row row row row
#define TT_ROWS_7(row) row row row row row row row

#define TT_GROUP_OF_4 "ldmia r4, {r1, r2, r11}\n mov r3, r2\n mov r12, r2\n mov lr, r2\n"
#define TT_GROUP_OF_2 "ldmia r4, {r1, r2, r11}\n mov r3, r2\n"
#define TT_STORE_4 "stmia r4!, {r2, r3, r12, lr}\n"
#define TT_STORE_2 "stmia r4!, {r2, r3}\n"

/* Along one output row: `start` holds filter, initial sum, row bytes. */
#define TT_SUM_ROW(begin, rows, store)                                                             \
    __asm__ volatile("ldr r0, %[x]\n"                                                              \
                     "1:\n"                                                                        \
                     "ldr r4, %[start]\n" begin rows "ldr r4, %[sums]\n" store "str r4, %[sums]\n" \
                     "ldr r5, %[back]\n"                                                           \
                     "ldr r6, %[end]\n"                                                            \
                     "sub r0, r0, r5\n"                                                            \
                     "cmp r4, r6\n"                                                                \
                     "bne 1b\n"                                                                    \
                     : [sums] "+m"(sums)                                                           \
                     : [x] "m"(x), [start] "m"(start_at), [start_block] "m"(start),                \
                       [back] "m"(back), [end] "m"(end)                                            \
                     : "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11",   \
                       "r12", "lr", "cc", "memory")

void tt_sum_plane(const tt_plane_shape *shape, tt_plane_pair pair, int32_t rows, int32_t initial)
{
    const struct {
        const uint32_t *filter;
        int32_t initial, pitch_bytes;
    } start = {pair.filter, initial, 4 * shape->pitch};
    const void *const start_at = &start;
    const int32_t kernel = shape->kernel;
    const int32_t stride = shape->stride;
    /* from below the window to the next group's */
    const int32_t back = kernel * start.pitch_bytes - 2 * shape->group * stride;
    const uint32_t *x = pair.plane;
    int32_t *sums = shape->sums;
    for (int32_t row = 0; row < rows; row++) {
        const int32_t *const end = sums + shape->out_w;
        if (stride == 1) {
            if (kernel == 3) {
                TT_SUM_ROW(TT_GROUP_OF_4, TT_ROWS_3(TT_ROW_3_1), TT_STORE_4);
            } else if (kernel == 5) {
                TT_SUM_ROW(TT_GROUP_OF_4, TT_ROWS_5(TT_ROW_5_1), TT_STORE_4);
            } else {
                TT_SUM_ROW(TT_GROUP_OF_2, TT_ROWS_7(TT_ROW_7_1), TT_STORE_2);
            }
        } else if (kernel == 3) {
            TT_SUM_ROW(TT_GROUP_OF_4, TT_ROWS_3(TT_ROW_3_2), TT_STORE_4);
        } else if (kernel == 5) {
            TT_SUM_ROW(TT_GROUP_OF_2, TT_ROWS_5(TT_ROW_5_2), TT_STORE_2);
        } else {
            TT_SUM_ROW(TT_GROUP_OF_2, TT_ROWS_7(TT_ROW_7_2), TT_STORE_2);
        }
        x += stride * shape->pitch;
    }
}

void tt_sum_plane_between(const tt_plane_shape *shape, tt_plane_pair pair, int32_t rows, bool odd)
{
    struct {
        const uint32_t *filter;
        int32_t initial, pitch_bytes;
    } start = {pair.filter, 0, 4 * shape->pitch};
    const void *const start_at = &start;
    const int32_t kernel = shape->kernel;
    const int32_t more = (kernel + 1) / 2; /* rows of the filter at even places */
    const uint32_t *const others = pair.filter + more * 2 * more;
    const uint32_t *x = pair.plane;
    int32_t *sums = shape->sums;
    for (int32_t row = 0; row < rows; row++) {
        const int32_t *const end = sums + shape->out_w;
        const int32_t taps = odd ? more - 1 : more;
        const int32_t back = taps * start.pitch_bytes - 2 * shape->group;
        start.filter = odd ? others : pair.filter;
        if (kernel == 3) {
            if (odd) {
                TT_SUM_ROW(TT_GROUP_OF_4, TT_ROWS_1(TT_ROW_3_1), TT_STORE_4);
            } else {
                TT_SUM_ROW(TT_GROUP_OF_4, TT_ROWS_2(TT_ROW_3_1), TT_STORE_4);
            }
        } else if (kernel == 5) {
            if (odd) {
                TT_SUM_ROW(TT_GROUP_OF_4, TT_ROWS_2(TT_ROW_5_1), TT_STORE_4);
            } else {
                TT_SUM_ROW(TT_GROUP_OF_4, TT_ROWS_3(TT_ROW_5_1), TT_STORE_4);
            }
        } else if (odd) {
            TT_SUM_ROW(TT_GROUP_OF_2, TT_ROWS_3(TT_ROW_7_1), TT_STORE_2);
        } else {
            TT_SUM_ROW(TT_GROUP_OF_2, TT_ROWS_4(TT_ROW_7_1), TT_STORE_2);
        }
        if (!odd) { /* the row in between begins one source row further down */
            x += shape->pitch;
        }
        odd = !odd;
    }
}

#endif
