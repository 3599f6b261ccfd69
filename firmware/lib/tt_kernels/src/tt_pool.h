/* What the pools' kernels share: windows and positions that see each other. */
#ifndef TT_POOL_H
#define TT_POOL_H

#include "tt_types.h"

/* First and one past the last output position whose window holds input position `at`. */
static inline tt_taps tt_covering(int32_t at, int32_t pad, int32_t kernel, int32_t stride,
                                  int32_t out)
{
    const int32_t padded = at + pad;
    tt_taps windows;
    windows.first = padded < kernel ? 0 : (padded - kernel) / stride + 1;
    windows.end = padded / stride + 1;
    windows.end = windows.end < out ? windows.end : out;
    return windows;
}

/* Input rows and columns of one window. */
static inline tt_taps tt_window_rows(const tt_window *w, int32_t oy)
{
    const int32_t top = oy * w->stride_h - w->pad_h;
    const tt_taps taps = tt_valid_taps(top, w->in_h, w->kernel_h, 1);
    const tt_taps rows = {top + taps.first, top + taps.end};
    return rows;
}

static inline tt_taps tt_window_columns(const tt_window *w, int32_t ox)
{
    const int32_t left = ox * w->stride_w - w->pad_w;
    const tt_taps taps = tt_valid_taps(left, w->in_w, w->kernel_w, 1);
    const tt_taps columns = {left + taps.first, left + taps.end};
    return columns;
}

/* The tensors of a max pool's backward pass. */
typedef struct tt_max_pool {
    const tt_window *window;
    int32_t channels;
    const int8_t *error;
    const int8_t *input;
    const int8_t *output;
} tt_max_pool;

/* Whether window (oy, ox) has its largest value already before (y, x) in scan order. */
static inline bool tt_seen_before(const tt_max_pool *p, int32_t oy, int32_t ox, int32_t y,
                                  int32_t x, int32_t c)
{
    const tt_window *w = p->window;
    const int8_t largest = p->output[(oy * w->out_w + ox) * p->channels + c];
    const tt_taps columns = tt_window_columns(w, ox);
    for (int32_t row = tt_window_rows(w, oy).first; row <= y; row++) {
        const int32_t end = row == y ? x : columns.end;
        for (int32_t column = columns.first; column < end; column++) {
            if (p->input[(row * w->in_w + column) * p->channels + c] == largest) {
                return true;
            }
        }
    }
    return false;
}

/* Sum of the errors of the windows whose first largest element is (y, x, c). */
static inline int32_t tt_routed_error(const tt_max_pool *p, int32_t y, int32_t x, int32_t c)
{
    const tt_window *w = p->window;
    const tt_taps rows = tt_covering(y, w->pad_h, w->kernel_h, w->stride_h, w->out_h);
    const tt_taps columns = tt_covering(x, w->pad_w, w->kernel_w, w->stride_w, w->out_w);
    const int8_t value = p->input[(y * w->in_w + x) * p->channels + c];
    int32_t sum = 0;
    for (int32_t oy = rows.first; oy < rows.end; oy++) {
        for (int32_t ox = columns.first; ox < columns.end; ox++) {
            const int32_t at = (oy * w->out_w + ox) * p->channels + c;
            if (p->error[at] != 0 && p->output[at] == value &&
                !tt_seen_before(p, oy, ox, y, x, c)) {
                sum += p->error[at];
            }
        }
    }
    return sum;
}

#endif
