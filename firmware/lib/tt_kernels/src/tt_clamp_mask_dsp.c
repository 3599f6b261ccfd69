#include "tt_dsp.h"

#if TT_DSP

#include "tt_kernels.h"
#include "tt_mask.h"

/* One bit a byte: whether the signed byte is strictly between the bounds, for bounds of int8 (low
 * below -128 and high above 127 let everything pass). */
static uint32_t open_bits(uint32_t word, int32_t low, int32_t high)
{
    const uint32_t width = (uint32_t)(high - low - 1);
    uint32_t bits = 0;
    for (int32_t i = 0; i < 4; i++) {
        const int32_t value = (int8_t)(word >> (8 * i));
        bits |= ((uint32_t)(value - low - 1) < width ? 1u : 0u) << i;
    }
    return bits;
}

/* For the bounds -128 and 127, four at a time: the bytes that differ from both. A byte differs
 * from a constant where their exclusive or, added to itself with saturation by 255 - 1, carries. */
static uint32_t open_bits_int8(uint32_t word)
{
    const uint32_t low = word ^ 0x80808080u;  /* 0 where -128 */
    const uint32_t high = word ^ 0x7F7F7F7Fu; /* 0 where 127 */
    uint32_t a = (((low & 0x7F7F7F7Fu) + 0x7F7F7F7Fu) | low) & 0x80808080u;
    a &= ((high & 0x7F7F7F7Fu) + 0x7F7F7F7Fu) | high;
    /* bits 7, 15, 23, 31 to bits 28 to 31 */
    return ((a >> 7) * 0x10204080u) >> 28;
}

void tt_clamp_mask(const tt_clamp_mask_params *params, const tt_clamp_mask_io *io)
{
    const bool int8_bounds = params->act_min == -128 && params->act_max == 127;
    const uint32_t whole = params->count & ~7u;
    const int8_t *x = io->input;
    uint8_t *mask = io->mask;
    const int8_t *const end = x + whole;
    if (int8_bounds) {
        for (; x != end; x += 8) {
            *mask++ = (uint8_t)(open_bits_int8(tt_load32(x)) |
                                (open_bits_int8(tt_load32(x + 4)) << 4));
        }
    } else {
        for (; x != end; x += 8) {
            *mask++ =
                (uint8_t)(open_bits(tt_load32(x), params->act_min, params->act_max) |
                          (open_bits(tt_load32(x + 4), params->act_min, params->act_max) << 4));
        }
    }
    if (whole != params->count) {
        uint32_t bits = 0;
        for (uint32_t i = whole; i < params->count; i++) {
            if (tt_is_open(io->input, NULL, i, params->act_min, params->act_max)) {
                bits |= UINT32_C(1) << (i & 7u);
            }
        }
        *mask = (uint8_t)bits;
    }
}

#endif
