// Program flash of a Teensy 4.1 or 4.0, right below the core's EEPROM emulation, through the calls
// that this emulation and LittleFS_Program are built on. An application that uses LittleFS_Program
// too must move one of them (TT_FLASH_END).
#include <Arduino.h>

#include "tt_flash.h"

#if defined(TT_FLASH_TEENSY4)

extern "C" {
void eepromemu_flash_write(void *address, const void *data, uint32_t bytes);
void eepromemu_flash_erase_sector(void *address);
extern unsigned long _flashimagelen; // its address is the length of the program
}

namespace
{

constexpr uint32_t BASE = 0x60000000u, ERASE_BYTES = 4096u, PROGRAM_BYTES = 256u;
#if defined(TT_FLASH_END)
constexpr uint32_t END = TT_FLASH_END;
#elif defined(ARDUINO_TEENSY40)
constexpr uint32_t END = 0x601f0000u;
#else
constexpr uint32_t END = 0x607c0000u;
#endif

int erase_block(const tt_storage *storage, uint32_t offset)
{
    eepromemu_flash_erase_sector((void *)(uintptr_t)tt_flash_address(storage, offset));
    return 0;
}

// A page at a time: the chip's address wraps around within one.
int program_units(const tt_storage *storage, uint32_t offset, const void *data, uint32_t bytes)
{
    for (uint32_t at = 0; at < bytes; at += PROGRAM_BYTES) {
        eepromemu_flash_write((void *)(uintptr_t)tt_flash_address(storage, offset + at),
                              (const uint8_t *)data + at, PROGRAM_BYTES);
    }
    return 0;
}

} // namespace

const tt_storage *tt_core_flash(uint32_t state_bytes)
{
    static tt_storage storage = {tt_flash_read, erase_block,  program_units, nullptr, 0u,
                                 ERASE_BYTES,   PROGRAM_BYTES};
    return tt_flash_place(&storage, state_bytes, BASE + (uint32_t)(uintptr_t)&_flashimagelen, END);
}

#endif
