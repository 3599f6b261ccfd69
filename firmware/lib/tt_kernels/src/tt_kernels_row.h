/* A chain of layers that runs row by row; tinytrain/ops/row_chain.py defines it. The end of
 * tt_kernels.h includes it. */
#ifndef TT_KERNELS_ROW_H
#define TT_KERNELS_ROW_H

#define TT_ROW_STAGES 8
#define TT_ROW_OPERANDS 4

enum tt_row_kind {
    TT_ROW_CONV2D = 0,
    TT_ROW_DEPTHWISE_CONV2D = 1,
    TT_ROW_ADD = 2,
    TT_ROW_COPY = 3,
};

/* One layer. Row r reads input rows from r * stride - pad, `reach` of them. */
typedef struct tt_row_stage {
    uint8_t kind;          /* enum tt_row_kind */
    uint8_t source, other; /* a stage, or TT_ROW_STAGES + an operand; equal where there is one */
    uint16_t rows, in_rows;
    uint32_t row_bytes, in_row_bytes;
    uint16_t stride, pad, reach;
    uint16_t capacity; /* rows of the line buffer; none for the last stage */
    uint32_t buffer;   /* offset of the line buffer in scratch */
    union {
        tt_conv2d_s8_params conv2d; /* of a batch of rows, away from the borders */
        tt_depthwise_conv2d_s8_params depthwise_conv2d;
        tt_add_s8_params add; /* of one row */
    } layer;
} tt_row_stage;

typedef struct tt_row_chain_params {
    uint8_t stages;
    uint16_t batch; /* rows that a stage makes at a time */
    tt_row_stage stage[TT_ROW_STAGES];
} tt_row_chain_params;

/* scratch: the largest scratch of a layer, then the line buffers */
typedef struct tt_row_chain_io {
    const int8_t *operands[TT_ROW_OPERANDS];
    const int8_t *weights[TT_ROW_STAGES];
    const int32_t *bias[TT_ROW_STAGES];
    int8_t *output;
    int8_t *scratch;
} tt_row_chain_io;
void tt_row_chain(const tt_row_chain_params *params, const tt_row_chain_io *io);

#endif
