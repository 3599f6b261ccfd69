/* Copying and filling bytes by the word: a C library built for size goes byte by byte. */
#ifndef TT_BYTES_H
#define TT_BYTES_H

#include "tt_dsp.h"
#include "tt_types.h"

#if TT_DSP

/* The parts may overlap where `to` is the lower one. */
void tt_copy_bytes(int8_t *to, const int8_t *from, size_t count);
void tt_fill_bytes(int8_t *to, int8_t value, size_t count);

#else

#include <string.h>

static inline void tt_copy_bytes(int8_t *to, const int8_t *from, size_t count)
{
    memmove(to, from, count);
}

static inline void tt_fill_bytes(int8_t *to, int8_t value, size_t count)
{
    memset(to, value, count);
}

#endif

#endif
