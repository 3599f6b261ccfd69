/* What generated code hands to the runtime. Applications need tt_runtime.h only. */
#ifndef TT_PROGRAM_H
#define TT_PROGRAM_H

#include <stdint.h>

#include "tt_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Version of the structs below; generated code refuses to compile against another one. */
#define TT_RUNTIME_ABI 1

/* Every offset inside the caller's memory is a multiple of this. */
#define TT_ALIGNMENT 4u

/* Where the tensors of one call are. */
typedef struct tt_frame {
    uint8_t *state;      /* trained values */
    uint8_t *buffers;    /* a batch's gradients */
    uint8_t *arena;      /* activations, errors, scratch */
    const void *target;  /* int32_t class or int8_t values; NULL in inference */
    const tt_step *step; /* NULL in inference */
} tt_frame;

/* First value of a piece of the state; what no entry covers begins as 0. */
typedef struct tt_initial {
    uint32_t offset;
    uint32_t bytes;
    const void *data;
} tt_initial;

typedef enum tt_output_kind {
    TT_OUTPUT_VALUES = 0, /* int8 */
    TT_OUTPUT_SCORES = 1, /* float32 probabilities */
} tt_output_kind;

typedef enum tt_target_kind {
    TT_TARGET_NONE = 0,   /* inference only */
    TT_TARGET_CLASS = 1,  /* int32 */
    TT_TARGET_VALUES = 2, /* int8, as many as outputs */
} tt_target_kind;

typedef void (*tt_phase)(const tt_frame *frame);

typedef struct tt_program {
    uint32_t abi; /* TT_RUNTIME_ABI */
    const char *name;
    uint32_t fingerprint; /* of graph and state layout: a state fits where it is equal */
    uint32_t state_bytes, buffer_bytes, arena_bytes;
    uint32_t input_offset, input_bytes; /* in the arena */
    uint32_t output_offset;             /* in the arena */
    uint32_t loss_offset;               /* in the arena; float32 */
    uint16_t output_count;
    uint16_t classes; /* of TT_TARGET_CLASS */
    uint8_t output_kind, target_kind;
    uint16_t initial_count;
    const tt_initial *initial;
    tt_phase forward;
    tt_phase backward; /* NULL: inference only */
    tt_phase apply;    /* NULL: updates happen in `backward`, after each sample */
} tt_program;

/* With TT_TRACE defined, tt_trace is called after each operator; the build must provide it. */
#if defined(TT_TRACE)
void tt_trace(const tt_frame *frame, uint32_t op);
#define TT_TRACE_OP(frame, op) tt_trace((frame), (op))
#else
#define TT_TRACE_OP(frame, op) ((void)0)
#endif

#ifdef __cplusplus
}
#endif

#endif
