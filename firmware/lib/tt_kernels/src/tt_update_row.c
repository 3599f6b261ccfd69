#include "tt_dsp.h"
#include "tt_update.h"

/* -gradient * multiplier / 2^(32 - left + right), rounded: only the high word of the product
 * counts, for a gradient that has room to the left. */
typedef struct tt_delta_rule {
    int32_t multiplier, left, right;
    int64_t rounding;
} tt_delta_rule;

static inline int32_t high_delta(int32_t gradient, const tt_delta_rule *rule)
{
    const int32_t moved = (int32_t)((uint32_t)gradient << (uint32_t)rule->left);
    const int64_t product = rule->rounding - (int64_t)moved * rule->multiplier;
    return (int32_t)(product >> 32) >> rule->right;
}

/* Whether the rule holds for all gradients of the row. */
static bool delta_rule(const tt_weight_row *row, tt_delta_rule *rule)
{
    const int32_t shift = row->multiplier.shift;
    rule->multiplier = row->multiplier.multiplier;
    rule->left = shift < 32 ? 32 - shift : 0;
    rule->right = shift < 32 ? 0 : shift - 32;
    if (rule->left > 24 || shift > 62 || rule->multiplier == 0 ||
        row->gradient_max > INT32_MAX >> rule->left) {
        return false;
    }
    rule->rounding = INT64_C(1) << (rule->right + 31);
    return true;
}

/* The common case: a weight of int8 and a fraction, moved at once. */
static void move_row(tt_updater *updater, const tt_update_io *io, const tt_weight_row *row,
                     tt_delta_rule rule)
{
    const int32_t *gradient = row->gradient;
    const uint16_t *channels = row->channels;
    int8_t *const weights = io->weights + row->at;
    int8_t *fraction = (int8_t *)io->fraction + row->index;
    uint32_t counter = updater->key.first + row->index * updater->key.stride;
    const uint32_t stride = updater->key.stride;
    uint64_t squares = updater->squares;
    uint32_t weights2 = 0;
    for (int32_t i = 0; i < row->count; i++) {
        int32_t delta = high_delta(*gradient, &rule);
        delta = delta > TT_DELTA_MAX ? TT_DELTA_MAX : delta;
        delta = delta < TT_DELTA_MIN ? TT_DELTA_MIN : delta;
        squares += (uint64_t)((int64_t)delta * delta);
        int8_t *const weight = weights + (channels != NULL ? channels[i] : i);
        const int32_t noise = (int32_t)(tt_random_at(counter) >> 24);
        const int32_t drawn = delta + noise < TT_DELTA_MAX ? delta + noise : TT_DELTA_MAX;
        int32_t total = *weight * 256 + *fraction + (drawn >> 8);
        total = total > TT_WEIGHT_MAX * 256 ? TT_WEIGHT_MAX * 256 : total;
        total = total < -TT_WEIGHT_MAX * 256 ? -TT_WEIGHT_MAX * 256 : total;
        const int32_t high = (total + 128) >> 8;
        *fraction++ = (int8_t)(total - high * 256);
        *weight = (int8_t)high;
        weights2 += (uint32_t)(high * high);
        counter += stride;
        gradient += row->step;
    }
    updater->squares = squares;
    updater->weights2 += weights2;
}

#if TT_DSP

/* What four weights at a time need of a row:
 * delta = (half - (gradient << left) * multiplier) >> 32 >> right. */
typedef struct tt_quick_rule {
    int32_t multiplier, half, left, right;
} tt_quick_rule;

#define TT_QUICK_BITS 7 /* make 31 bits of the multiplier's 24 */
#define TT_QUICK_SHIFT 26

static bool quick_rule(const tt_weight_row *row, tt_quick_rule *rule)
{
    const int32_t shift = row->multiplier.shift;
    rule->left = shift < TT_QUICK_SHIFT ? TT_QUICK_SHIFT - shift : 0;
    if (row->channels != NULL || rule->left > 24 || shift > 55 ||
        row->gradient_max > INT32_MAX >> rule->left) {
        return false;
    }
    rule->multiplier = row->multiplier.multiplier << TT_QUICK_BITS;
    rule->right = shift + rule->left + TT_QUICK_BITS - 32;
    rule->half = (int32_t)(UINT32_C(1) << (uint32_t)(rule->right - 1));
    return true;
}

static inline int32_t quick_delta(int32_t gradient, const tt_quick_rule *rule)
{
    const int32_t moved = (int32_t)((uint32_t)gradient << (uint32_t)rule->left);
    return tt_saturate24(tt_smmls(rule->half, moved, rule->multiplier) >> rule->right);
}

/* Values in 256ths of two weights (bytes 0 and 2, or 1 and 3) plus two steps, within +-127. */
static inline uint32_t moved_halves(uint32_t held, uint32_t steps)
{
    const uint32_t sum = tt_qadd16(held, steps);
    const uint32_t low = tt_qsub16(tt_qadd16(sum, tt_both_halves(255)), tt_both_halves(511));
    return tt_qadd16(low, tt_both_halves(256));
}

/* As move_row, of the whole fours; returns how many weights were moved. */
static int32_t move_fours(tt_updater *updater, const tt_update_io *io, const tt_weight_row *row,
                          const tt_quick_rule *rule)
{
    const int32_t fours = row->count & ~3;
    const uint32_t bytes = 0x00FF00FFu;
    const int32_t *gradient = row->gradient;
    const int32_t step = row->step;
    int8_t *weights = io->weights + row->at;
    int8_t *fractions = (int8_t *)io->fraction + row->index;
    const int8_t *const end = weights + fours;
    uint32_t counter = updater->key.first + row->index * updater->key.stride;
    const uint32_t stride = updater->key.stride;
    uint64_t squares = updater->squares;
    int32_t weights2 = 0;
    while (weights != end) {
        int32_t delta[4];
        for (int32_t i = 0; i < 4; i++) {
            delta[i] = quick_delta(*gradient, rule);
            gradient += step;
            squares += (uint64_t)((int64_t)delta[i] * delta[i]);
            delta[i] = tt_saturate24(delta[i] + (int32_t)(tt_random_at(counter) >> 24));
            counter += stride;
        }
        const uint32_t w = tt_load32(weights);
        const uint32_t f = tt_load32(fractions);
        const uint32_t steps02 = tt_pack_asr8(delta[2], delta[0]);
        const uint32_t steps13 = tt_pack_asr8(delta[3], delta[1]);
        const uint32_t even = moved_halves(tt_extend_02((w << 8) & ~bytes, f), steps02);
        const uint32_t odd = moved_halves(tt_extend_13(w & ~bytes, f), steps13);
        const uint32_t low = (even & bytes) | ((odd & bytes) << 8);
        const uint32_t high = ((tt_qadd16(even, tt_both_halves(128)) >> 8) & bytes) |
                              (tt_qadd16(odd, tt_both_halves(128)) & ~bytes);
        memcpy(fractions, &low, sizeof low);
        memcpy(weights, &high, sizeof high);
        const uint32_t high02 = tt_extend_02(0, high);
        const uint32_t high13 = tt_extend_13(0, high);
        weights2 = tt_smlad(high02, high02, tt_smlad(high13, high13, weights2));
        weights += 4;
        fractions += 4;
    }
    updater->squares = squares;
    updater->weights2 += (uint32_t)weights2;
    return fours;
}

#endif

void tt_update_row(tt_updater *updater, const tt_update_io *io, const tt_weight_row *row)
{
    tt_delta_rule rule;
    const bool common = io->accumulator == NULL && updater->move &&
                        updater->state == TT_STATE_INT16 && updater->optimizer == NULL;
#if TT_DSP
    tt_quick_rule quick;
    tt_weight_row rest = *row;
    if (common && quick_rule(row, &quick)) {
        const int32_t moved = move_fours(updater, io, row, &quick);
        rest.gradient += moved * row->step;
        rest.count -= moved;
        rest.at += (uint32_t)moved;
        rest.index += (uint32_t)moved;
        if (rest.count == 0) {
            return;
        }
    }
    row = &rest;
#endif
    if (common && delta_rule(row, &rule)) {
        move_row(updater, io, row, rule);
        return;
    }
    for (int32_t i = 0; i < row->count; i++) {
        const int32_t channel = row->channels != NULL ? row->channels[i] : i;
        const int32_t delta = tt_weight_delta(row->gradient[i * row->step], row->multiplier);
        tt_update_weight(updater, io, delta, row->at + (uint32_t)channel, row->index + (uint32_t)i);
    }
}
