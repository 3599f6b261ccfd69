/*
 * tt_board.h: what the example application asks of a board; one library a kind of board gives it
 * (tt_board_qemu, tt_board_arduino). An application of your own needs none of it.
 */
#ifndef TT_BOARD_H
#define TT_BOARD_H

#include <stdint.h>

#include "tt_storage.h"

#ifdef __cplusplus
extern "C" {
#endif

/* First of all. */
void tt_board_open(void);

/* Bytes that have arrived on the line, up to `capacity`; 0 where there are none. Never waits. */
uint32_t tt_board_read(uint8_t *bytes, uint32_t capacity);

/* Send bytes (a tt_wire_write). */
void tt_board_write(void *context, const uint8_t *bytes, uint32_t count);

/* Bytes that the line keeps, or holds back, while nobody reads. */
uint32_t tt_board_receive_bytes(void);

/* A clock that counts up and wraps around, and its rate. */
uint32_t tt_board_ticks(void);
uint32_t tt_board_ticks_hz(void);

/* A storage for two states of `state_bytes` bytes, or NULL where the board has none. */
const tt_storage *tt_board_storage(uint32_t state_bytes);

#ifdef __cplusplus
}
#endif

#endif
