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
    uint32_t counter = updater->key + row->index * TT_GOLDEN;
    uint64_t squares = updater->squares;
    uint32_t weights2 = 0;
    for (int32_t i = 0; i < row->count; i++) {
        int32_t delta = high_delta(*gradient, &rule);
        delta = delta > TT_DELTA_MAX ? TT_DELTA_MAX : delta;
        delta = delta < -TT_DELTA_MAX ? -TT_DELTA_MAX : delta;
        squares += (uint64_t)((int64_t)delta * delta);
        int8_t *const weight = weights + (channels != NULL ? channels[i] : i);
        const int32_t noise = (int32_t)(tt_random_at(counter) >> 24);
        int32_t total = *weight * 256 + *fraction + ((delta + noise) >> 8);
        total = total > TT_WEIGHT_MAX * 256 ? TT_WEIGHT_MAX * 256 : total;
        total = total < -TT_WEIGHT_MAX * 256 ? -TT_WEIGHT_MAX * 256 : total;
        const int32_t high = (total + 128) >> 8;
        *fraction++ = (int8_t)(total - high * 256);
        *weight = (int8_t)high;
        weights2 += (uint32_t)(high * high);
        counter += TT_GOLDEN;
        gradient += row->step;
    }
    updater->squares = squares;
    updater->weights2 += weights2;
}

void tt_update_row(tt_updater *updater, const tt_update_io *io, const tt_weight_row *row)
{
    tt_delta_rule rule;
    if (io->accumulator == NULL && updater->move && updater->state == TT_STATE_INT16 &&
        updater->optimizer == NULL && delta_rule(row, &rule)) {
        move_row(updater, io, row, rule);
        return;
    }
    for (int32_t i = 0; i < row->count; i++) {
        const int32_t channel = row->channels != NULL ? row->channels[i] : i;
        const int32_t delta = tt_weight_delta(row->gradient[i * row->step], row->multiplier);
        tt_update_weight(updater, io, delta, row->at + (uint32_t)channel, row->index + (uint32_t)i);
    }
}
