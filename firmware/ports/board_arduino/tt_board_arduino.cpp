#if defined(ARDUINO)

#include <Arduino.h>

#include "tt_board_arduino.h"
#include "tt_flash.h"

// The counter stands at the same place in every core from v7-M on; no vendor header is needed.
#if defined(__ARM_ARCH) && __ARM_ARCH >= 7
#define TT_HAS_CYCLES 1
#define TT_DEMCR (*(volatile uint32_t *)0xe000edfcu)
#define TT_DWT_CTRL (*(volatile uint32_t *)0xe0001000u)
#define TT_DWT_CYCCNT (*(volatile uint32_t *)0xe0001004u)
#define TT_DWT_LAR (*(volatile uint32_t *)0xe0001fb0u)
#else
#define TT_HAS_CYCLES 0
#endif

extern "C" {

void tt_board_open(void)
{
    Serial.begin(TT_BOARD_BAUD);
#if TT_HAS_CYCLES
    TT_DEMCR = TT_DEMCR | (1u << 24); // trace on
    TT_DWT_LAR = 0xc5acce55u;         // Cortex-M7 keeps the unit locked
    TT_DWT_CTRL = TT_DWT_CTRL | 1u;
#endif
}

uint32_t tt_board_read(uint8_t *bytes, uint32_t capacity)
{
    uint32_t count = 0;
    while (count < capacity && Serial.available() > 0) {
        bytes[count++] = (uint8_t)Serial.read();
    }
    return count;
}

void tt_board_write(void *context, const uint8_t *bytes, uint32_t count)
{
    (void)context;
    if (count != 0u) {
        Serial.write(bytes, count);
    }
}

// What the core keeps while the model computes. USB holds back what nobody fetches, where the core
// lets it: such a board says so by a flag. A UART's buffer is a ring that overflows; 64 is common.
uint32_t tt_board_receive_bytes(void)
{
#if defined(TT_BOARD_RECEIVE_BYTES)
    return TT_BOARD_RECEIVE_BYTES;
#elif defined(SERIAL_RX_BUFFER_SIZE)
    return SERIAL_RX_BUFFER_SIZE;
#else
    return 64u;
#endif
}

#if TT_HAS_CYCLES
uint32_t tt_board_ticks(void) { return TT_DWT_CYCCNT; }
uint32_t tt_board_ticks_hz(void) { return (uint32_t)F_CPU; }
#else
uint32_t tt_board_ticks(void) { return (uint32_t)micros(); }
uint32_t tt_board_ticks_hz(void) { return 1000000u; }
#endif

__attribute__((weak)) const tt_storage *tt_board_flash(uint32_t state_bytes)
{
    (void)state_bytes;
#if defined(TT_HAS_FLASH)
    return tt_core_flash(state_bytes);
#elif defined(TT_BOARD_RAM_STORAGE_BYTES)
    static uint32_t memory[TT_BOARD_RAM_STORAGE_BYTES / 4u];
    static tt_storage storage;
    tt_storage_ram(&storage, memory, sizeof memory, 64u);
    return &storage;
#else
    return nullptr;
#endif
}

const tt_storage *tt_board_storage(uint32_t state_bytes) { return tt_board_flash(state_bytes); }

} // extern "C"

void setup() { tt_app_start(); }

void loop() { tt_app_turn(); }

#endif
