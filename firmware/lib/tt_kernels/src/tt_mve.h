/* The vector extension (Helium) of Cortex-M55: sixteen bytes an instruction.
 *
 * TT_MVE says whether these kernels (`*_mve.c`) are built, in place of those for the DSP extension
 * that the same core has; an operator without a file of its own takes the latter. All give the same
 * bits. TT_PORTABLE turns them off.
 */
#ifndef TT_MVE_H
#define TT_MVE_H

#include "tt_dsp.h"

#if TT_DSP && defined(__ARM_FEATURE_MVE)
#define TT_MVE (__ARM_FEATURE_MVE & 1)
#else
#define TT_MVE 0
#endif

#if TT_MVE

#include <arm_mve.h>

/* The output stage of four channels, all of them fast in the sense of tt_channel: VQRDMULH is the
 * high product, and the rest is as there. */
typedef struct tt_four_channels {
    int32_t bias[4];
    int32_t multiplier[4];
    int32_t rounding[4];
    int32_t shift[4]; /* negative: to the right */
} tt_four_channels;

/* Exactly `count` bytes. */
static inline void tt_copy_vector(int8_t *to, const int8_t *from, int32_t count)
{
    __asm__ volatile("wlstp.8 lr, %[count], 2f\n"
                     "1:\n"
                     "vldrb.8 q0, [%[from]], #16\n"
                     "vstrb.8 q0, [%[to]], #16\n"
                     "letp lr, 1b\n"
                     "2:\n"
                     : [to] "+r"(to), [from] "+r"(from)
                     : [count] "r"(count)
                     : "lr", "q0", "cc", "memory");
}

/* Exactly `count` bytes of one value. */
static inline void tt_fill_vector(int8_t *to, int32_t value, int32_t count)
{
    __asm__ volatile("vdup.8 q0, %[value]\n"
                     "wlstp.8 lr, %[count], 2f\n"
                     "1:\n"
                     "vstrb.8 q0, [%[to]], #16\n"
                     "letp lr, 1b\n"
                     "2:\n"
                     : [to] "+r"(to)
                     : [count] "r"(count), [value] "r"(value)
                     : "lr", "q0", "cc", "memory");
}

#endif

#endif
