#include "tt_mve.h"

#if TT_MVE

#include "tt_fixed_point.h"
#include "tt_kernels.h"

#define TT_GROUP 4 /* output channels that share a load of the inputs */

/* Four filters, the output stage of their channels, and steps; fast_run has the offsets. */
typedef struct tt_run {
    const int8_t *packed; /* vectors of the four filters in turn */
    int32_t turns;        /* of the inner loop */
    int32_t x_back;       /* from the end of a window, in whole vectors, to the next one */
    int32_t out_step;
    int32_t act_min, act_max;
    tt_four_channels stage;
} tt_run;

/* Sixteen terms of four filters. */
#define TT_TERMS                                                                                   \
    "vldrb.8 q0, [%[x]], #16\n"                                                                    \
    "vldrb.8 q1, [r1], #16\n"                                                                      \
    "vmladava.s8 r0, q0, q1\n"                                                                     \
    "vldrb.8 q1, [r1], #16\n"                                                                      \
    "vmladava.s8 r2, q0, q1\n"                                                                     \
    "vldrb.8 q1, [r1], #16\n"                                                                      \
    "vmladava.s8 r4, q0, q1\n"                                                                     \
    "vldrb.8 q1, [r1], #16\n"                                                                      \
    "vmladava.s8 r10, q0, q1\n"

/* `vmov a, b, q[2], q[0]` names the lanes in the other order: a is lane 0. */
#define TT_RUN(begin, terms, end_)                                                                 \
    __asm__ volatile("ldrd r0, r1, [r8, #16]\n"                                                    \
                     "vdup.32 q6, r0\n"                                                            \
                     "vdup.32 q7, r1\n"                                                            \
                     "vldrw.32 q2, [r8, #24]\n"                                                    \
                     "vldrw.32 q3, [r8, #40]\n"                                                    \
                     "vldrw.32 q4, [r8, #56]\n"                                                    \
                     "vldrw.32 q5, [r8, #72]\n"                                                    \
                     "ldrd r5, r9, [r8, #8]\n"                                                     \
                     "ldrd r8, r3, [r8]\n"                                                         \
                     "1:\n"                                                                        \
                     "mov r1, r8\n"                                                                \
                     "vmov r0, r4, q2[2], q2[0]\n"                                                 \
                     "vmov r2, r10, q2[3], q2[1]\n" begin " lr, r3\n"                              \
                     "2:\n" terms end_ " lr, 2b\n"                                                 \
                     "vmov q0[2], q0[0], r0, r4\n"                                                 \
                     "vmov q0[3], q0[1], r2, r10\n"                                                \
                     "vqrdmulh.s32 q0, q0, q3\n"                                                   \
                     "add %[x], %[x], r5\n"                                                        \
                     "vshr.s32 q1, q0, #31\n"                                                      \
                     "vadd.i32 q0, q0, q4\n"                                                       \
                     "vadd.i32 q0, q0, q1\n"                                                       \
                     "vshl.s32 q0, q0, q5\n"                                                       \
                     "vmax.s32 q0, q0, q6\n"                                                       \
                     "vmin.s32 q0, q0, q7\n"                                                       \
                     "vstrb.32 q0, [%[out]]\n"                                                     \
                     "add %[out], %[out], r9\n"                                                    \
                     "cmp %[out], %[end]\n"                                                        \
                     "bne 1b\n"                                                                    \
                     : [x] "+r"(x), [out] "+l"(out), "+r"(packed)                                  \
                     : [end] "r"(end)                                                              \
                     : "r0", "r1", "r2", "r3", "r4", "r5", "r9", "r10", "lr", "q0", "q1", "q2",    \
                       "q3", "q4", "q5", "q6", "q7", "cc", "memory")

/* Vectors a turn of the inner loop; a single one may be cut short. */
static int32_t unrolled(int32_t terms)
{
    if (terms % 64 == 0) {
        return 4;
    }
    return terms % 48 == 0 ? 3 : 1;
}

/* Four output channels of the windows from `x` on. */
__attribute__((noinline)) static void fast_run(tt_run *run, const int8_t *x, int8_t *out,
                                               int32_t count, int32_t terms)
{
    const int8_t *const end = out + count * run->out_step;
    const int32_t vectors = unrolled(terms);
    register const tt_run *packed __asm__("r8") = run; /* first the rules, then the filters */
    run->turns = vectors == 1 ? terms : terms / (16 * vectors);
    if (vectors == 4) {
        TT_RUN("dls", TT_TERMS TT_TERMS TT_TERMS TT_TERMS, "le");
    } else if (vectors == 3) {
        TT_RUN("dls", TT_TERMS TT_TERMS TT_TERMS, "le");
    } else {
        TT_RUN("dlstp.8", TT_TERMS, "letp");
    }
}

/* sum + x . w */
static int32_t dot(const int8_t *x, const int8_t *w, int32_t terms, int32_t sum)
{
    for (int32_t i = 0; i < terms; i += 16) {
        const mve_pred16_t p = vctp8q((uint32_t)(terms - i));
        sum = vmladavaq_p_s8(sum, vldrbq_z_s8(x + i, p), vldrbq_z_s8(w + i, p), p);
    }
    return sum;
}

static int32_t sum_of(const int8_t *w, int32_t terms)
{
    int32_t sum = 0;
    for (int32_t i = 0; i < terms; i += 16) {
        const mve_pred16_t p = vctp8q((uint32_t)(terms - i));
        sum = vaddvaq_p_s8(sum, vldrbq_z_s8(w + i, p), p);
    }
    return sum;
}

/* What a call works on: `channels` from `first` on are those of `run`. */
typedef struct tt_conv_group {
    const tt_conv2d_s8_params *params;
    tt_run run;
    const int8_t *filters[TT_GROUP];
    int8_t *packed; /* room for four filters; NULL: there is none */
    int32_t terms;
    int32_t first, channels;
    bool fast;
} tt_conv_group;

/* Copies a filter to every fourth vector from `to` on, missing terms as 0; returns its sum. */
static int32_t pack(int8_t *to, const int8_t *filter, int32_t terms)
{
    int32_t sum = 0;
    for (int32_t t = 0; t < terms; t += 16) {
        const int8x16_t w = vldrbq_z_s8(filter + t, vctp8q((uint32_t)(terms - t)));
        vstrbq_s8(to, w);
        sum = vaddvaq_s8(sum, w);
        to += 16 * TT_GROUP;
    }
    return sum;
}

static void begin_group(tt_conv_group *group, const tt_conv2d_s8_io *io, int32_t first)
{
    const tt_conv2d_s8_params *params = group->params;
    const int32_t terms = group->terms;
    const int32_t left = params->out_c - first;
    group->first = first;
    group->channels = left < TT_GROUP ? left : TT_GROUP;
    group->fast = left >= TT_GROUP && group->packed != NULL;
    for (int32_t i = 0; i < group->channels; i++) {
        const int32_t c = first + i;
        const int8_t *filter = io->weights + c * terms;
        const tt_channel channel = tt_channel_of(&params->output, io->bias, c, terms);
        const int32_t sum = group->packed != NULL ? pack(group->packed + 16 * i, filter, terms)
                                                  : sum_of(filter, terms);
        const int32_t offset = -params->input_zero_point * sum;
        group->filters[i] = filter;
        group->run.stage.bias[i] = tt_wrapping_add(channel.bias, offset);
        group->run.stage.multiplier[i] = channel.multiplier;
        group->run.stage.rounding[i] = channel.rounding;
        group->run.stage.shift[i] = -channel.right;
        group->fast = group->fast && channel.fast;
    }
    group->run.packed = group->packed;
}

/* The group's channels of `count` windows that lie `x_step` apart, from output `position` on. */
static void multiply(tt_conv_group *group, const int8_t *x, int32_t x_step, int8_t *out,
                     int32_t count)
{
    const tt_conv2d_s8_params *params = group->params;
    const int32_t terms = group->terms;
    out += group->first;
    if (group->fast) {
        group->run.x_back = x_step - ((terms + 15) & ~15);
        fast_run(&group->run, x, out, count, terms);
        return;
    }
    for (int32_t n = 0; n < count; n++) {
        for (int32_t i = 0; i < group->channels; i++) {
            const int32_t sum = dot(x, group->filters[i], terms, group->run.stage.bias[i]);
            out[i] = tt_requantize(&params->output, group->first + i, sum);
        }
        x += x_step;
        out += params->out_c;
    }
}

/* `count` windows that lie side by side, all inside the input. */
static void copy_windows(const tt_conv2d_s8_params *params, const int8_t *from, int8_t *to,
                         int32_t step, int32_t count)
{
    const tt_window *w = &params->window;
    const int32_t bytes = w->kernel_w * params->in_c;
    const int32_t row = w->dilation_h * w->in_w * params->in_c;
    for (int32_t n = 0; n < count; n++) {
        const int8_t *at = from;
        int8_t *filled = to;
        for (int32_t ky = 0; ky < w->kernel_h; ky++) {
            tt_copy_vector(filled, at, bytes);
            filled += bytes;
            at += row;
        }
        to += step;
        from += w->stride_w * params->in_c;
    }
}

/* The bytes of a window whose first tap is at (top, left), in the order of the weights; `rows` of
 * its taps are inside the input. */
static void gather(const tt_conv2d_s8_params *params, const int8_t *input, int8_t *to, int32_t top,
                   int32_t left, tt_taps rows)
{
    const tt_window *w = &params->window;
    const int32_t in_c = params->in_c;
    const tt_taps columns = tt_valid_taps(left, w->in_w, w->kernel_w, w->dilation_w);
    const int32_t wide = columns.end - columns.first;
    const bool whole = w->dilation_w == 1u;
    if (rows.end - rows.first != w->kernel_h || wide != w->kernel_w) {
        tt_fill_vector(to, params->input_zero_point, w->kernel_h * w->kernel_w * in_c);
    }
    for (int32_t ky = rows.first; ky < rows.end && wide > 0; ky++) {
        const int32_t row = (top + ky * w->dilation_h) * w->in_w;
        int8_t *at = to + (ky * w->kernel_w + columns.first) * in_c;
        const int8_t *from = input + (row + left + columns.first * w->dilation_w) * in_c;
        for (int32_t kx = 0; kx < (whole ? 1 : wide); kx++) {
            tt_copy_vector(at, from, whole ? wide * in_c : in_c);
            at += in_c;
            from += w->dilation_w * in_c;
        }
    }
}

/* Whether windows are of one tap, and all inside the input. */
static bool has_one_tap(const tt_window *w)
{
    return w->kernel_h == 1u && w->kernel_w == 1u && w->pad_h == 0u && w->pad_w == 0u &&
           (w->out_h - 1) * w->stride_h < w->in_h && (w->out_w - 1) * w->stride_w < w->in_w;
}

/* These are used where they lie. */
static void one_tap(tt_conv_group *group, const tt_conv2d_s8_io *io)
{
    const tt_conv2d_s8_params *params = group->params;
    const tt_window *w = &params->window;
    const int32_t in_c = params->in_c;
    if (w->stride_h == 1u && w->stride_w == 1u && w->out_w == w->in_w) {
        multiply(group, io->input, in_c, io->output, w->out_h * w->out_w);
        return;
    }
    for (int32_t oy = 0; oy < w->out_h; oy++) {
        multiply(group, io->input + oy * w->stride_h * w->in_w * in_c, w->stride_w * in_c,
                 io->output + oy * w->out_w * params->out_c, w->out_w);
    }
}

/* Calls `one_tap`, or `multiply` on staged windows, for each group of channels; the last group
 * starts early, so that it is full, and makes some outputs twice. */
static void all_groups(tt_conv_group *group, const tt_conv2d_s8_io *io, const int8_t *windows,
                       int32_t step, int8_t *out, int32_t count)
{
    const int32_t out_c = group->params->out_c;
    for (int32_t c = 0; c < out_c; c += TT_GROUP) {
        begin_group(group, io, out_c >= TT_GROUP && c > out_c - TT_GROUP ? out_c - TT_GROUP : c);
        if (windows == NULL) {
            one_tap(group, io);
        } else {
            multiply(group, windows, step, out, count);
        }
    }
}

/* Output columns whose windows are inside the input. */
static tt_taps columns_inside(const tt_window *w)
{
    const int32_t stride = w->stride_w;
    const int32_t room = w->in_w + w->pad_w - w->kernel_w;
    const tt_taps inside = {(w->pad_w + stride - 1) / stride,
                            w->dilation_w == 1u && room >= 0 ? room / stride + 1 : 0};
    return inside;
}

/* Windows `first` to `first` + `count`, `step` bytes apart. */
static void stage_windows(const tt_conv2d_s8_params *params, const int8_t *input, int8_t *to,
                          int32_t step, int32_t first, int32_t count)
{
    const tt_window *w = &params->window;
    const tt_taps inside = columns_inside(w);
    int32_t oy = first / w->out_w;
    int32_t ox = first - oy * w->out_w;
    while (count > 0) {
        const int32_t top = oy * w->stride_h - w->pad_h;
        const tt_taps rows = tt_valid_taps(top, w->in_h, w->kernel_h, w->dilation_h);
        const bool whole = rows.end - rows.first == w->kernel_h;
        for (; ox < w->out_w && count > 0; ox++) {
            const int32_t left = ox * w->stride_w - w->pad_w;
            int32_t now = 1;
            if (whole && ox >= inside.first && ox < inside.end) {
                now = inside.end < w->out_w ? inside.end - ox : w->out_w - ox;
                now = now < count ? now : count;
                copy_windows(params, input + (top * w->in_w + left) * params->in_c, to, step, now);
            } else {
                gather(params, input, to, top, left, rows);
            }
            to += now * step;
            count -= now;
            ox += now - 1;
        }
        ox = 0;
        oy++;
    }
}

void tt_conv2d_s8(const tt_conv2d_s8_params *params, const tt_conv2d_s8_io *io)
{
    const tt_window *w = &params->window;
    const int32_t positions = w->out_h * w->out_w;
    tt_conv_group group = {.params = params};
    group.terms = w->kernel_h * w->kernel_w * params->in_c;
    /* for kernels that widen: block rows of two bytes a term, two filters, two rows gathered */
    const bool whole = has_one_tap(w);
    const int32_t step = (group.terms + 3) & ~3;
    const int32_t filters = TT_GROUP * ((group.terms + 15) & ~15);
    const int32_t bytes = (2 * params->block + 4 + (whole ? 0 : 2)) * step;
    int8_t *windows = (int8_t *)(void *)io->scratch;
    if (bytes >= filters + (whole ? 0 : step)) {
        group.packed = windows;
        windows += filters;
    }
    group.run.out_step = params->out_c;
    group.run.act_min = params->output.act_min;
    group.run.act_max = params->output.act_max;
    if (whole) {
        all_groups(&group, io, NULL, 0, NULL, 0);
        return;
    }
    const int32_t block = (bytes - (group.packed != NULL ? filters : 0)) / step;
    for (int32_t first = 0; first < positions; first += block) {
        const int32_t count = positions - first < block ? positions - first : block;
        stage_windows(params, io->input, windows, step, first, count);
        all_groups(&group, io, windows, step, io->output + first * params->out_c, count);
    }
}

#endif
