/* Sums over positions, of up to four channels at a time. */
#ifndef TT_SUM_POSITIONS_DSP_H
#define TT_SUM_POSITIONS_DSP_H

#include "tt_dsp.h"

#if TT_DSP

/* `step` bytes from position to position, `channels` 1 to 4. */
void tt_sum_positions(const int8_t *x, int32_t step, uint32_t positions, int32_t channels,
                      int32_t sums[4]);

#endif

#endif
