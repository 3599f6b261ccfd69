#include "tt_dot_dsp.h"

#if TT_DSP

#include "tt_matmul_dsp.h"

#define TT_CHUNK 512 /* terms staged at a time */

/* Eight bytes become four words: terms (0, 2), (1, 3), (4, 6), (5, 7). */
#define TT_STAGE(more)                                                                             \
    __asm__ volatile("1:\n"                                                                        \
                     "ldr r4, [%[x]], #4\n"                                                        \
                     "ldr r6, [%[x]], #4\n"                                                        \
                     "sxtab16 r3, %[offset], r4\n"                                                 \
                     "sxtab16 r4, %[offset], r4, ror #8\n"                                         \
                     "sxtab16 r5, %[offset], r6\n"                                                 \
                     "sxtab16 r6, %[offset], r6, ror #8\n"                                         \
                     "stmia %[staged]!, {r3, r4, r5, r6}\n" more "cmp %[staged], %[end]\n"         \
                     "bne 1b\n"                                                                    \
                     : [staged] "+r"(staged), [x] "+r"(x), [sum] "+r"(sum)                         \
                     : [offset] "r"(offset), [end] "r"(end)                                        \
                     : "r3", "r4", "r5", "r6", "cc", "memory")

/* With `pairs`, returns the sum of the products of even terms with the odd ones after them. */
static uint32_t stage(uint32_t *staged, const int8_t *x, int32_t eights, uint32_t offset,
                      bool pairs)
{
    const uint32_t *const end = staged + 4 * eights;
    uint32_t sum = 0;
    if (pairs) {
        TT_STAGE("smlad %[sum], r3, r4, %[sum]\n smlad %[sum], r5, r6, %[sum]\n");
    } else {
        TT_STAGE("");
    }
    return sum;
}

/* Four terms of a row: a loaded word in `w`, inputs in x0 and x1. */
#define TT_FOUR(sum, w, x0, x1)                                                                    \
    "sxtb16 r10, " w "\n"                                                                          \
    "smlad " sum ", r10, " x0 ", " sum "\n"                                                        \
    "sxtb16 r10, " w ", ror #8\n"                                                                  \
    "smlad " sum ", r10, " x1 ", " sum "\n"
#define TT_EIGHT(load0, load1)                                                                     \
    "ldmia %[x]!, {r3, r4, r5, r6}\n" load0 TT_FOUR("%[a]", "r8", "r3", "r4")                      \
        TT_FOUR("%[a]", "r9", "r5", "r6") load1 TT_FOUR("%[b]", "r8", "r3", "r4")                  \
            TT_FOUR("%[b]", "r9", "r5", "r6")
#define TT_SIXTEEN(load0, load1) TT_EIGHT(load0, load1) TT_EIGHT(load0, load1)
#define TT_ALIGNED(row) "ldrd r8, r9, [" row "], #8\n"
#define TT_ANY(row) "ldr r8, [" row "], #4\n ldr r9, [" row "], #4\n"
#define TT_LOOP(body)                                                                              \
    __asm__ volatile("1:\n" body "cmp %[x], %[end]\n"                                              \
                     "bne 1b\n"                                                                    \
                     : [x] "+r"(x), [w0] "+r"(w0), [w1] "+r"(w1), [a] "+r"(a), [b] "+r"(b)         \
                     : [end] "r"(end)                                                              \
                     : "r3", "r4", "r5", "r6", "r8", "r9", "r10", "cc", "memory")

/* Two rows, or one twice, times staged inputs. */
static void two_rows(const uint32_t *x, const int8_t *w0, const int8_t *w1, int32_t eights,
                     int32_t sums[2])
{
    const uint32_t *const end16 = x + (eights & ~1) * 4;
    const uint32_t *end = end16;
    int32_t a = 0;
    int32_t b = 0;
    if (x != end && (((uintptr_t)w0 | (uintptr_t)w1) & 3u) == 0u) {
        TT_LOOP(TT_SIXTEEN(TT_ALIGNED("%[w0]"), TT_ALIGNED("%[w1]")));
    } else if (x != end) {
        TT_LOOP(TT_SIXTEEN(TT_ANY("%[w0]"), TT_ANY("%[w1]")));
    }
    if ((eights & 1) != 0) {
        end += 4;
        TT_LOOP(TT_EIGHT(TT_ANY("%[w0]"), TT_ANY("%[w1]")));
    }
    sums[0] = a;
    sums[1] = b;
}

/* The same with pairs: r3 and r5 hold the even terms of x, r4 and r6 the odd ones. */
#define TT_PAIRS(sum, w, even, odd)                                                                \
    "sxtab16 r10, " even ", " w ", ror #8\n"                                                       \
    "sxtab16 " w ", " odd ", " w "\n"                                                              \
    "smlad " sum ", r10, " w ", " sum "\n"
#define TT_EIGHT_PAIRS(load0, load1)                                                               \
    "ldmia %[x]!, {r3, r4, r5, r6}\n" load0 TT_PAIRS("%[a]", "r8", "r3", "r4")                     \
        TT_PAIRS("%[a]", "r9", "r5", "r6") load1 TT_PAIRS("%[b]", "r8", "r3", "r4")                \
            TT_PAIRS("%[b]", "r9", "r5", "r6")
#define TT_SIXTEEN_PAIRS(load0, load1) TT_EIGHT_PAIRS(load0, load1) TT_EIGHT_PAIRS(load0, load1)
#define TT_THIRTY_TWO_PAIRS(load0, load1)                                                          \
    TT_SIXTEEN_PAIRS(load0, load1) TT_SIXTEEN_PAIRS(load0, load1)

static void two_rows_of_pairs(const uint32_t *x, const int8_t *w0, const int8_t *w1, int32_t eights,
                              int32_t sums[2])
{
    const uint32_t *end = x + (eights & ~3) * 4;
    int32_t a = 0;
    int32_t b = 0;
    if (x != end && (((uintptr_t)w0 | (uintptr_t)w1) & 3u) == 0u) {
        TT_LOOP(TT_THIRTY_TWO_PAIRS(TT_ALIGNED("%[w0]"), TT_ALIGNED("%[w1]")));
    } else if (x != end) {
        TT_LOOP(TT_THIRTY_TWO_PAIRS(TT_ANY("%[w0]"), TT_ANY("%[w1]")));
    }
    if ((eights & 3) != 0) {
        end += (eights & 3) * 4;
        TT_LOOP(TT_EIGHT_PAIRS(TT_ANY("%[w0]"), TT_ANY("%[w1]")));
    }
    sums[0] = a;
    sums[1] = b;
}

static int32_t rest(const tt_dot_rows_job *job, int32_t output, int32_t first)
{
    const int8_t *w = job->weights + output * job->terms;
    int32_t sum = 0;
    for (int32_t i = first; i < job->terms; i++) {
        sum += (job->x[i] - job->zero_point) * w[i];
    }
    return sum;
}

static void add(int32_t *sum, uint32_t value) { *sum = (int32_t)((uint32_t)*sum + value); }

void tt_dot_rows(const tt_dot_rows_job *job)
{
    uint32_t staged[TT_CHUNK / 2];
    const int32_t whole = job->terms & ~7;
    const uint32_t offset = tt_both_halves(-job->zero_point);
    const bool pairs = job->pair_sums != NULL;
    uint32_t taken = 0;
    for (int32_t first = 0; first < whole; first += TT_CHUNK) {
        const int32_t eights = (whole - first < TT_CHUNK ? whole - first : TT_CHUNK) / 8;
        taken += stage(staged, job->x + first, eights, offset, pairs);
        const int8_t *w = job->weights + first;
        for (int32_t o = 0; o < job->outputs; o += 2) {
            const bool both = o + 1 < job->outputs;
            int32_t sums[2];
            if (pairs) {
                two_rows_of_pairs(staged, w, both ? w + job->terms : w, eights, sums);
            } else {
                two_rows(staged, w, both ? w + job->terms : w, eights, sums);
            }
            add(job->sums + o, (uint32_t)sums[0]);
            if (both) {
                add(job->sums + o + 1, (uint32_t)sums[1]);
            }
            w += 2 * job->terms;
        }
    }
    for (int32_t o = 0; pairs && o < job->outputs; o++) {
        add(job->sums + o, 0u - taken - (uint32_t)job->pair_sums[o]);
    }
    for (int32_t o = 0; whole < job->terms && o < job->outputs; o++) {
        add(job->sums + o, (uint32_t)rest(job, o, whole));
    }
}

#endif
