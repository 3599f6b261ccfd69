// Internal flash of the mbed cores (Nano 33 BLE, Portenta H7, Raspberry Pi Pico): mbed::FlashIAP.
#include <Arduino.h>

#include "tt_flash.h"

#if defined(TT_FLASH_MBED)

#include <FlashIAP.h>

namespace
{

mbed::FlashIAP flash;

int read_block(const tt_storage *storage, uint32_t offset, void *buffer, uint32_t bytes)
{
    return flash.read(buffer, tt_flash_address(storage, offset), bytes);
}

int erase_block(const tt_storage *storage, uint32_t offset)
{
    return flash.erase(tt_flash_address(storage, offset), storage->erase_bytes);
}

int program_units(const tt_storage *storage, uint32_t offset, const void *data, uint32_t bytes)
{
    return flash.program(data, tt_flash_address(storage, offset), bytes);
}

} // namespace

const tt_storage *tt_core_flash(uint32_t state_bytes)
{
    static tt_storage storage = {read_block, erase_block, program_units, nullptr, 0u, 0u, 0u};
    if (flash.init() != 0 || flash.get_erase_value() != 0xffu) {
        return nullptr;
    }
#if defined(TT_FLASH_END)
    const uint32_t end = TT_FLASH_END;
#else
    const uint32_t end = flash.get_flash_start() + flash.get_flash_size();
#endif
    const uint32_t page = flash.get_page_size();
    storage.erase_bytes = flash.get_sector_size(end - 1u);
    storage.program_bytes = page > 4u ? page : 4u;
    if (storage.program_bytes > TT_STORAGE_PROGRAM_MAX || storage.erase_bytes == 0u ||
        storage.erase_bytes % storage.program_bytes != 0u) {
        return nullptr;
    }
    const tt_storage *placed =
        tt_flash_place(&storage, state_bytes, (uint32_t)(FLASHIAP_APP_ROM_END_ADDR), end);
    // All blocks must be of the last one's size.
    return placed != nullptr &&
                   flash.get_sector_size(tt_flash_address(placed, 0u)) == placed->erase_bytes
               ? placed
               : nullptr;
}

#endif
