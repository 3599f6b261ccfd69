#include "tt_wire.h"

#include <string.h>

#include "tt_crc32.h"

#define LONGEST_RUN 254u

static void begin(tt_wire_reader *reader)
{
    reader->count = 0;
    reader->left = 0;
    reader->begun = reader->zero = reader->bad = false;
}

void tt_wire_open(tt_wire_reader *reader, void *buffer, uint32_t capacity)
{
    reader->buffer = buffer;
    reader->capacity = capacity;
    begin(reader);
}

static void push(tt_wire_reader *reader, uint8_t byte)
{
    if (reader->count == reader->capacity) {
        reader->bad = true;
        return;
    }
    reader->buffer[reader->count++] = byte;
}

/* Whether the buffer holds a body with the CRC that belongs to it. */
static bool is_whole(const tt_wire_reader *reader)
{
    if (reader->bad || reader->left != 0u || reader->count < TT_WIRE_CRC_BYTES) {
        return false;
    }
    uint32_t crc;
    const uint32_t count = reader->count - TT_WIRE_CRC_BYTES;
    memcpy(&crc, reader->buffer + count, sizeof crc);
    return crc == tt_crc32(0u, reader->buffer, count);
}

tt_wire_event tt_wire_take(tt_wire_reader *reader, uint8_t byte)
{
    if (byte == 0u) {
        const bool begun = reader->begun, whole = is_whole(reader);
        const uint32_t count = reader->count;
        begin(reader);
        if (!begun) {
            return TT_WIRE_NOTHING;
        }
        if (!whole) {
            return TT_WIRE_DAMAGED;
        }
        reader->count = count - TT_WIRE_CRC_BYTES;
        return TT_WIRE_FRAME;
    }
    if (!reader->begun) {
        begin(reader); /* also forgets the body that was handed over */
        reader->begun = true;
        reader->left = (uint8_t)(byte - 1u);
        reader->zero = byte <= LONGEST_RUN;
    } else if (reader->left != 0u) {
        push(reader, byte);
        reader->left--;
    } else {
        if (reader->zero) {
            push(reader, 0u);
        }
        reader->left = (uint8_t)(byte - 1u);
        reader->zero = byte <= LONGEST_RUN;
    }
    return TT_WIRE_NOTHING;
}

void tt_wire_send(uint8_t *body, uint32_t count, tt_wire_write write, void *context)
{
    static const uint8_t delimiter = 0u;
    const uint32_t crc = tt_crc32(0u, body, count);
    memcpy(body + count, &crc, sizeof crc);
    const uint32_t total = count + TT_WIRE_CRC_BYTES;
    write(context, &delimiter, 1u);
    for (uint32_t at = 0, run = 0;; at += run < LONGEST_RUN ? 1u : 0u) {
        run = 0;
        while (run < LONGEST_RUN && at + run < total && body[at + run] != 0u) {
            run++;
        }
        const uint8_t code = (uint8_t)(run + 1u);
        write(context, &code, 1u);
        write(context, body + at, run);
        at += run;
        if (at == total) {
            break;
        }
    }
    write(context, &delimiter, 1u);
}
