/*
 * tt_board.h for Arduino cores.
 *
 * Line: Serial at TT_BOARD_BAUD. Clock: the core's cycle counter (DWT) from Cortex-M3 up,
 * micros() on Cortex-M0+.
 *
 * Storage: internal flash, by the driver for the core that this is compiled for (tt_flash_*.cpp):
 *
 *     STM32F4, F74x, H7, L4   ST's HAL             mbed cores   mbed::FlashIAP
 *     RP2040 (Pico SDK)       flash_range_*        Teensy 4     below its EEPROM emulation
 *     SAMD51                  NVMCTRL
 *
 * The state lies at the end of flash; -DTT_FLASH_END=address moves it. There is no storage where it
 * would reach into the program, nor on other cores, and a save then answers with an error.
 * -DTT_BOARD_RAM_STORAGE_BYTES=n takes n bytes of RAM instead, which a reset of the model survives
 * and a power cut does not; -DTT_BOARD_NO_FLASH takes neither. For storage of your own (an EEPROM,
 * an FRAM) define, in C or extern "C":
 *
 *     const tt_storage *tt_board_flash(uint32_t state_bytes);
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

/* Of yours, or the one of this library. */
const tt_storage *tt_board_flash(uint32_t state_bytes);

#ifdef __cplusplus
}
#endif

#endif
