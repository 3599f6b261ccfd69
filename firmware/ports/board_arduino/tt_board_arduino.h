/*
 * tt_board.h for Arduino cores.
 *
 * Line: Serial at TT_BOARD_BAUD. Clock: the core's cycle counter (DWT) from Cortex-M3 up,
 * micros() on Cortex-M0+.
 *
 * Storage: no two cores have the same call for internal flash, so the application says which:
 *
 *     const tt_storage *tt_board_flash(uint32_t state_bytes);   // in C, or extern "C"
 *
 * gives a tt_storage whose read, erase and program call the core's or the vendor's functions
 * (STM32: HAL_FLASH_Program, HAL_FLASHEx_Erase; RP2040: flash_range_program, flash_range_erase;
 * nRF52840 and Portenta: mbed::FlashIAP; SAMD51: the NVM controller; Teensy: its EEPROM area).
 * Without it there are two choices: nothing can be saved (the default: a save answers with an
 * error), or, with -DTT_BOARD_RAM_STORAGE_BYTES=n, a storage in n bytes of RAM, which a reset of
 * the model survives and a power cut does not.
 */
#ifndef TT_BOARD_ARDUINO_H
#define TT_BOARD_ARDUINO_H

#include "tt_board.h"

#ifndef TT_BOARD_BAUD
#define TT_BOARD_BAUD 115200
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Of the application: see main.c. */
void tt_app_start(void);
void tt_app_turn(void);

/* Of yours, or the empty one of this library. */
const tt_storage *tt_board_flash(uint32_t state_bytes);

#ifdef __cplusplus
}
#endif

#endif
