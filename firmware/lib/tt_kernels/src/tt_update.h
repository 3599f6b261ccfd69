/* The step that weights take; tinytrain/ops/weight_update.py defines it. */
#ifndef TT_UPDATE_H
#define TT_UPDATE_H

#include "tt_random.h"

#define TT_WEIGHT_MAX 127
#define TT_FULL_TAU_RATE 0.01f
#define TT_DELTA_FRACTION_BITS 16
#define TT_DELTA_MAX ((1 << 23) - 1)
#define TT_DELTA_MIN (-TT_DELTA_MAX - 1)

/* How the value of a trained weight is kept. */
enum tt_weight_state {
    TT_STATE_INT8 = 0,    /* int8, stochastic rounding */
    TT_STATE_INT16 = 1,   /* int8 and 256ths of a step, signed, int8 */
    TT_STATE_FLOAT32 = 2, /* int8 and the weight in float32 */
};

typedef struct tt_updater tt_updater;
typedef struct tt_update_io tt_update_io;
typedef struct tt_optimizer_calls tt_optimizer_calls;

/* What is done with a step besides taking it; all 0 for plain SGD. */
typedef struct tt_optimizer {
    const tt_optimizer_calls *calls; /* NULL: nothing; so that only what is used is linked */
    int32_t momentum;                /* Q16; 0: no velocity */
    float decay;                     /* of a weight at rate 1 */
    uint32_t stream;                 /* of the rounding of velocities */
    bool wide;                       /* int16 velocities, int8 else */
} tt_optimizer;

typedef struct tt_update_rule {
    const float *factors; /* rho * s_x / s_w[c]^2, one an output channel */
    float gain;           /* of the folded error's scale */
    float tau;            /* largest step relative to the weights' norm; 0: unbounded */
    uint32_t inputs;      /* elements of the input */
    uint32_t positions;   /* of the folded error */
    uint32_t channels;    /* of the folded error */
    int32_t input_zero_point;
    uint8_t state; /* enum tt_weight_state */
    uint32_t stream;
    tt_optimizer optimizer;
} tt_update_rule;

/* Layouts: input and folded NHWC; weights as in tflite. */
struct tt_update_io {
    const int8_t *input;
    const int8_t *folded;
    const float *folded_scale;
    const float *first_scale;
    int32_t *accumulator; /* of a batch; NULL: update at once */
    int8_t *weights;
    void *fraction; /* int8 or float32 after the state; NULL for int8 */
    float *bound;   /* mean share that squared steps have of their reach; squared norm of weights */
    void *velocity; /* int8 or int16; NULL without momentum */
    int32_t *velocity_bits; /* fraction bits of the velocities, and of the next ones */
    int32_t *scratch;
};

/* A float32 >= 0 as multiplier * 2^(16 - shift). */
typedef struct tt_step_multiplier {
    int32_t multiplier; /* 24 bits */
    int32_t shift;
} tt_step_multiplier;

/* One weight tensor's update under way. */
struct tt_updater {
    float base;    /* rate * bound factor * scale of the gradient */
    float reach2;  /* squared norm that the step can reach; 0: not measured */
    bool move;     /* whether weights change */
    uint8_t state; /* enum tt_weight_state */
    tt_key key;
    uint64_t squares;              /* sum of squared Q16 deltas */
    uint64_t weights2;             /* sum of squared weights after the step */
    const tt_optimizer *optimizer; /* NULL: plain SGD */
    tt_step_multiplier decay;      /* of 256ths of a weight */
    tt_key velocity_key;
    int32_t velocity_max; /* largest magnitude, with TT_VELOCITY_BITS fraction bits */
};

/* Momentum and weight decay; tinytrain/ops/optimizer.py defines them. */
struct tt_optimizer_calls {
    void (*begin)(tt_updater *updater, float rate, const tt_step *step);
    /* The delta to take of weight `at`, `index` among the trained ones. */
    int32_t (*delta)(tt_updater *updater, const tt_update_io *io, int32_t delta, uint32_t at,
                     uint32_t index);
    void (*end)(const tt_updater *updater, const tt_update_io *io);
};
extern const tt_optimizer_calls tt_momentum_and_decay;

/* Of an updater whose other fields are set: the optimizer, if there is one and weights move. */
void tt_optimizer_begin(tt_updater *updater, const tt_optimizer *optimizer, float rate,
                        const tt_step *step);

tt_step_multiplier tt_step_multiplier_of(float step);

/* -gradient * step in Q16 weight units, to nearest, saturated. */
int32_t tt_weight_delta(int32_t gradient, tt_step_multiplier step);

/* Factor in (0, 1] that keeps sqrt(step2) within tau * sqrt(weight2). */
float tt_bound_factor(float step2, float weight2, float tau);

/* tau at rates from TT_FULL_TAU_RATE up, in proportion to the rate below. */
float tt_tau_at(float tau, float rate);

/* Squared norm that no step of one position exceeds, at rate 1 and a first error of unit 1: of
 * errors times that of inputs (Cauchy and Schwarz). */
float tt_update_reach2(const tt_update_rule *rule, const tt_update_io *io);

tt_updater tt_update_begin(const tt_update_rule *rule, const tt_update_io *io, const tt_step *step);

/* Takes the delta of one weight: `at` in the weights, `index` among the trained ones. */
void tt_update_weight(tt_updater *updater, const tt_update_io *io, int32_t delta, uint32_t at,
                      uint32_t index);

void tt_update_end(const tt_updater *updater, const tt_update_io *io);

/* Gradients of weights that stand in a row. */
typedef struct tt_weight_row {
    const int32_t *gradient;
    int32_t step; /* words from one to the next */
    int32_t count;
    int32_t gradient_max; /* that no magnitude exceeds */
    tt_step_multiplier multiplier;
    uint32_t at;              /* of the row's start in the weights */
    const uint16_t *channels; /* places from there; NULL: one after the other */
    uint32_t index;           /* of the first among the trained ones */
} tt_weight_row;

/* Takes a step of all of them. */
void tt_update_row(tt_updater *updater, const tt_update_io *io, const tt_weight_row *row);

#endif
