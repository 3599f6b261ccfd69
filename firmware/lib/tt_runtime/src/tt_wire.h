/*
 * tt_wire.h: frames on a serial line.
 *
 * A frame is a body and its CRC-32 (little-endian), coded by COBS (consistent overhead byte
 * stuffing, Cheshire and Baker 1999) so that no byte of it is 0, between two bytes 0. Whatever
 * happens on the line, the next 0 is a fresh start.
 */
#ifndef TT_WIRE_H
#define TT_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TT_WIRE_CRC_BYTES 4u

typedef enum tt_wire_event {
    TT_WIRE_NOTHING, /* go on */
    TT_WIRE_FRAME,   /* the body is in the buffer */
    TT_WIRE_DAMAGED, /* a frame was cut, damaged or too long */
} tt_wire_event;

/* Takes frames apart, byte by byte. */
typedef struct tt_wire_reader {
    uint8_t *buffer;
    uint32_t capacity; /* of the buffer: the longest body and its CRC */
    uint32_t count;    /* bytes in the buffer; after TT_WIRE_FRAME: of the body */
    uint8_t left;      /* bytes of the block under way */
    bool begun, zero, bad;
} tt_wire_reader;

typedef void (*tt_wire_write)(void *context, const uint8_t *bytes, uint32_t count);

void tt_wire_open(tt_wire_reader *reader, void *buffer, uint32_t capacity);

/* The buffer belongs to the reader again with the call that follows TT_WIRE_FRAME. */
tt_wire_event tt_wire_take(tt_wire_reader *reader, uint8_t byte);

/* Write a frame; TT_WIRE_CRC_BYTES more than `count` must fit behind `body`. */
void tt_wire_send(uint8_t *body, uint32_t count, tt_wire_write write, void *context);

#ifdef __cplusplus
}
#endif

#endif
