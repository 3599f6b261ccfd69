// Flash of an RP2040 under a core that is built on the Pico SDK (not the mbed one). The storage
// ends where the core's file system and EEPROM emulation begin.
#include <Arduino.h>

#include "tt_flash.h"

#if defined(TT_FLASH_RP2040)

#include <hardware/flash.h>
#include <hardware/sync.h>

extern "C" uint8_t __flash_binary_end, _FS_start; // of the core's linker script

namespace
{

// Nothing may run from flash meanwhile: neither interrupts nor the other core.
template <typename Work> void alone(Work work)
{
    rp2040.idleOtherCore();
    const uint32_t interrupts = save_and_disable_interrupts();
    work();
    restore_interrupts(interrupts);
    rp2040.resumeOtherCore();
}

int erase_block(const tt_storage *storage, uint32_t offset)
{
    const uint32_t at = tt_flash_address(storage, offset) - (uint32_t)XIP_BASE;
    alone([at] { flash_range_erase(at, FLASH_SECTOR_SIZE); });
    return 0;
}

int program_units(const tt_storage *storage, uint32_t offset, const void *data, uint32_t bytes)
{
    const uint32_t at = tt_flash_address(storage, offset) - (uint32_t)XIP_BASE;
    alone([at, data, bytes] { flash_range_program(at, (const uint8_t *)data, bytes); });
    return 0;
}

} // namespace

const tt_storage *tt_core_flash(uint32_t state_bytes)
{
    static tt_storage storage = {tt_flash_read,     erase_block,    program_units, nullptr, 0u,
                                 FLASH_SECTOR_SIZE, FLASH_PAGE_SIZE};
#if defined(TT_FLASH_END)
    const uint32_t end = TT_FLASH_END;
#else
    const uint32_t end = (uint32_t)(uintptr_t)&_FS_start;
#endif
    return tt_flash_place(&storage, state_bytes, (uint32_t)(uintptr_t)&__flash_binary_end, end);
}

#endif
