#include <string.h>

#include "tt_kernels.h"

/* Small C libraries copy byte by byte. The barrier keeps the compiler from calling them. */
static void copy_words(int8_t *to, const int8_t *from, size_t count)
{
    const int8_t *const whole = from + (count & ~(size_t)15);
    while (from != whole) {
        uint32_t words[4];
        memcpy(words, from, sizeof words);
        memcpy(to, words, sizeof words);
        from += sizeof words;
        to += sizeof words;
        __asm__ volatile("" ::: "memory");
    }
    memcpy(to, from, count & 15);
}

void tt_merge_weights(const tt_merge_weights_params *params, const tt_merge_weights_io *io)
{
    const int8_t *trained = io->trained;
    const uint16_t *const channels = params->channels;
    const int32_t count = params->trained_channels;
    int8_t *row = io->output;
    copy_words(row, io->frozen, (size_t)params->rows * params->in_c);
    for (uint32_t r = 0; r < params->rows; r++) {
        int32_t i = 0;
        for (; i + 4 <= count; i += 4) {
            row[channels[i]] = trained[0];
            row[channels[i + 1]] = trained[1];
            row[channels[i + 2]] = trained[2];
            row[channels[i + 3]] = trained[3];
            trained += 4;
        }
        for (; i < count; i++) {
            row[channels[i]] = *trained++;
        }
        row += params->in_c;
    }
}
