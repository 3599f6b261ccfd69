#include "tt_dsp.h"
#include "tt_update.h"

#define TT_REACH_CHANNELS 8

#if TT_DSP

/* Sum of squares of the inputs, zero point taken off. */
static uint64_t inputs_squared(const tt_update_rule *rule, const int8_t *input)
{
    const uint32_t offset = tt_both_halves(-rule->input_zero_point);
    uint64_t total = 0;
    const int8_t *const end = input + rule->inputs;
    const int8_t *const whole = input + (rule->inputs & ~3u);
    while (input < whole) {
        const int8_t *const now = whole - input > 4096 ? input + 4096 : whole;
        int32_t sum = 0;
        while (input < now) {
            const uint32_t word = tt_load32(input);
            const uint32_t x02 = tt_extend_02(offset, word);
            const uint32_t x13 = tt_extend_13(offset, word);
            sum = tt_smlad(x02, x02, sum);
            sum = tt_smlad(x13, x13, sum);
            input += 4;
        }
        total += (uint32_t)sum;
    }
    while (input < end) {
        const int32_t x = *input++ - rule->input_zero_point;
        total += (uint32_t)(x * x);
    }
    return total;
}

/* Sums of squares of four channels' errors. */
static void four_squares(const tt_update_rule *rule, const int8_t *u, uint32_t *squares)
{
    int32_t a = 0;
    int32_t b = 0;
    int32_t c = 0;
    int32_t d = 0;
    for (uint32_t p = 0; p < rule->positions; p++) {
        const uint32_t word = tt_load32(u);
        const uint32_t u02 = tt_extend_02(0, word);
        const uint32_t u13 = tt_extend_13(0, word);
        a += (int16_t)u02 * (int16_t)u02;
        b += (int16_t)u13 * (int16_t)u13;
        c += ((int32_t)u02 >> 16) * ((int32_t)u02 >> 16);
        d += ((int32_t)u13 >> 16) * ((int32_t)u13 >> 16);
        u += rule->channels;
    }
    squares[0] = (uint32_t)a;
    squares[1] = (uint32_t)b;
    squares[2] = (uint32_t)c;
    squares[3] = (uint32_t)d;
}

#else

static uint64_t inputs_squared(const tt_update_rule *rule, const int8_t *input)
{
    uint64_t total = 0;
    for (uint32_t first = 0; first < rule->inputs; first += 4096) {
        const uint32_t end = rule->inputs - first < 4096 ? rule->inputs : first + 4096;
        uint32_t sum = 0; /* at most 4096 * 255 * 255 */
        for (uint32_t i = first; i < end; i++) {
            const int32_t x = input[i] - rule->input_zero_point;
            sum += (uint32_t)(x * x);
        }
        total += sum;
    }
    return total;
}

#endif

/* Sums of squares of the errors of `count` channels; positions * 128 * 128 stays below 2^31. */
static void errors_squared(const tt_update_rule *rule, const int8_t *u, uint32_t count,
                           uint32_t *squares)
{
#if TT_DSP
    if (count == TT_REACH_CHANNELS) {
        four_squares(rule, u, squares);
        four_squares(rule, u + 4, squares + 4);
        return;
    }
#endif
    for (uint32_t c = 0; c < count; c++) {
        squares[c] = 0;
    }
    for (uint32_t p = 0; p < rule->positions; p++) {
        for (uint32_t c = 0; c < count; c++) {
            squares[c] += (uint32_t)(u[c] * u[c]);
        }
        u += rule->channels;
    }
}

float tt_update_reach2(const tt_update_rule *rule, const tt_update_io *io)
{
    const uint64_t inputs2 = inputs_squared(rule, io->input);
    const float relative = *io->folded_scale * rule->gain;
    float total = 0.0f;
    if (inputs2 == 0) {
        return 0.0f;
    }
    for (uint32_t first = 0; first < rule->channels; first += TT_REACH_CHANNELS) {
        const uint32_t left = rule->channels - first;
        const uint32_t count = left < TT_REACH_CHANNELS ? left : TT_REACH_CHANNELS;
        uint32_t squares[TT_REACH_CHANNELS];
        errors_squared(rule, io->folded + first, count, squares);
        for (uint32_t c = 0; c < count; c++) {
            if (squares[c] != 0) {
                const float unit = relative * rule->factors[first + c];
                total += (unit * unit) * (float)squares[c];
            }
        }
    }
    return (float)inputs2 * total;
}
