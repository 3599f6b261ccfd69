/*
 * tt_flash.h: where in a part's internal flash the two slots of the state store lie, and which of
 * the files beside this one drives it. Not for applications.
 *
 * The storage ends at the end of flash (TT_FLASH_END, if it is to end elsewhere) and takes whole
 * erase blocks; where it would reach into the program there is none.
 */
#ifndef TT_FLASH_H
#define TT_FLASH_H

#include "tt_store.h"

#if defined(TT_BOARD_NO_FLASH) || defined(TT_BOARD_RAM_STORAGE_BYTES)
/* by the application's choice */
#elif defined(ARDUINO_ARCH_MBED)
#define TT_FLASH_MBED 1
#elif defined(ARDUINO_ARCH_STM32) &&                                                               \
    (defined(STM32F4xx) || defined(STM32H7xx) || defined(STM32L4xx) || defined(STM32F745xx) ||     \
     defined(STM32F746xx) || defined(STM32F750xx) || defined(STM32F756xx))
#define TT_FLASH_STM32 1
#elif defined(ARDUINO_ARCH_RP2040)
#define TT_FLASH_RP2040 1
#elif defined(__IMXRT1062__)
#define TT_FLASH_TEENSY4 1
#elif defined(__SAMD51__)
#define TT_FLASH_SAMD51 1
#endif

#if defined(TT_FLASH_MBED) || defined(TT_FLASH_STM32) || defined(TT_FLASH_RP2040) ||               \
    defined(TT_FLASH_TEENSY4) || defined(TT_FLASH_SAMD51)
#define TT_HAS_FLASH 1
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The storage in internal flash; NULL where it does not fit behind the program. */
const tt_storage *tt_core_flash(uint32_t state_bytes);

#ifdef __cplusplus
}

#include <string.h>

/* The address of an offset; `context` holds that of the storage's begin. */
static inline uint32_t tt_flash_address(const tt_storage *storage, uint32_t offset)
{
    return (uint32_t)(uintptr_t)storage->context + offset;
}

/* `read` of a flash that lies in the address space. */
static inline int tt_flash_read(const tt_storage *storage, uint32_t offset, void *buffer,
                                uint32_t bytes)
{
    memcpy(buffer, (const void *)(uintptr_t)tt_flash_address(storage, offset), bytes);
    return 0;
}

/*
 * Complete a storage whose calls and units are set, so that it ends at `end`.
 * begin: the first address that may be used; the program's end, rounded up by this call.
 */
static inline const tt_storage *tt_flash_place(tt_storage *storage, uint32_t state_bytes,
                                               uint32_t begin, uint32_t end)
{
    storage->bytes = TT_STORE_BYTES(state_bytes, storage->erase_bytes, storage->program_bytes);
    const uint32_t first = TT_STORE_ROUND_UP(begin, storage->erase_bytes);
    if (first > end || storage->bytes > end - first) {
        return nullptr;
    }
    storage->context = (void *)(uintptr_t)(end - storage->bytes);
    return storage;
}
#endif

#endif
