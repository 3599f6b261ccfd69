// Internal flash of STM32F4, F74x, H7 and L4 through ST's HAL, which the core brings along.
#include <Arduino.h>

#include "tt_flash.h"

#if defined(TT_FLASH_STM32)

extern "C" uint8_t _sidata, _sdata, _edata; // of the core's linker script

namespace
{

// Blocks of one size reach from FIRST to the end of flash.
#if defined(STM32F4xx)
constexpr uint32_t FIRST = FLASH_BASE + 0x20000u, FIRST_SECTOR = 5u, ERASE_BYTES = 0x20000u;
constexpr uint32_t LAST = FLASH_BASE + 0x100000u; // a second bank begins with small sectors again
constexpr uint32_t PROGRAM_BYTES = 4u;
#elif defined(STM32H7xx)
constexpr uint32_t FIRST = FLASH_BASE, ERASE_BYTES = 0x20000u;
constexpr uint32_t PROGRAM_BYTES = 32u;
#elif defined(STM32L4xx)
constexpr uint32_t FIRST = FLASH_BASE, ERASE_BYTES = FLASH_PAGE_SIZE;
constexpr uint32_t PROGRAM_BYTES = 8u;
#else // F74x, F750, F756
constexpr uint32_t FIRST = FLASH_BASE + 0x40000u, FIRST_SECTOR = 5u, ERASE_BYTES = 0x40000u;
constexpr uint32_t PROGRAM_BYTES = 32u; // eight words: a line of the data cache
#endif

#if defined(TT_FLASH_END)
const uint32_t END = TT_FLASH_END;
#elif defined(STM32F4xx)
const uint32_t END = (uint32_t)FLASH_END + 1u < LAST ? (uint32_t)FLASH_END + 1u : LAST;
#else
const uint32_t END = (uint32_t)FLASH_END + 1u;
#endif

// What an earlier error left would stop the next command.
void clear_errors()
{
#if defined(STM32H7xx)
    __HAL_FLASH_CLEAR_FLAG_BANK1(FLASH_FLAG_ALL_ERRORS_BANK1);
    __HAL_FLASH_CLEAR_FLAG_BANK2(FLASH_FLAG_ALL_ERRORS_BANK2);
#elif defined(STM32L4xx)
    __HAL_FLASH_CLEAR_FLAG(FLASH_FLAG_ALL_ERRORS);
#elif defined(STM32F4xx)
    __HAL_FLASH_CLEAR_FLAG(FLASH_FLAG_OPERR | FLASH_FLAG_WRPERR | FLASH_FLAG_PGAERR |
                           FLASH_FLAG_PGPERR | FLASH_FLAG_PGSERR);
#else
    __HAL_FLASH_CLEAR_FLAG(FLASH_FLAG_OPERR | FLASH_FLAG_WRPERR | FLASH_FLAG_PGAERR |
                           FLASH_FLAG_PGPERR | FLASH_FLAG_ERSERR);
#endif
}

// Caches still hold what was there before.
void forget(uint32_t address, uint32_t bytes)
{
#if defined(STM32F4xx) || defined(STM32L4xx)
    (void)address;
    (void)bytes;
    __HAL_FLASH_DATA_CACHE_DISABLE();
    __HAL_FLASH_DATA_CACHE_RESET();
    __HAL_FLASH_DATA_CACHE_ENABLE();
#else
    SCB_InvalidateDCache_by_Addr((uint32_t *)(uintptr_t)address, (int32_t)bytes);
#endif
}

int erase_block(const tt_storage *storage, uint32_t offset)
{
    const uint32_t address = tt_flash_address(storage, offset);
    FLASH_EraseInitTypeDef what = {};
    uint32_t failed = 0;
    what.TypeErase = FLASH_TYPEERASE_SECTORS;
#if defined(STM32H7xx)
    what.Banks = address < FLASH_BANK2_BASE ? FLASH_BANK_1 : FLASH_BANK_2;
    what.Sector = (address - FLASH_BASE) % (FLASH_BANK2_BASE - FLASH_BASE) / ERASE_BYTES;
    what.NbSectors = 1u;
    what.VoltageRange = FLASH_VOLTAGE_RANGE_3;
#elif defined(STM32L4xx)
    what.TypeErase = FLASH_TYPEERASE_PAGES;
    what.Banks = address < FLASH_BASE + FLASH_BANK_SIZE ? FLASH_BANK_1 : FLASH_BANK_2;
    what.Page = (address - FLASH_BASE) % FLASH_BANK_SIZE / ERASE_BYTES;
    what.NbPages = 1u;
#else
    what.Sector = FIRST_SECTOR + (address - FIRST) / ERASE_BYTES;
    what.NbSectors = 1u;
    what.VoltageRange = FLASH_VOLTAGE_RANGE_3;
#endif
    HAL_FLASH_Unlock();
    clear_errors();
    const bool done = HAL_FLASHEx_Erase(&what, &failed) == HAL_OK;
    HAL_FLASH_Lock();
    forget(address, ERASE_BYTES);
    return done ? 0 : -1;
}

// One unit of programming, from data that is aligned for anything.
bool program_unit(uint32_t address, const uint64_t *unit)
{
#if defined(STM32H7xx)
    return HAL_FLASH_Program(FLASH_TYPEPROGRAM_FLASHWORD, address, (uint32_t)(uintptr_t)unit) ==
           HAL_OK;
#elif defined(STM32L4xx)
    return HAL_FLASH_Program(FLASH_TYPEPROGRAM_DOUBLEWORD, address, *unit) == HAL_OK;
#else
    const uint32_t *words = (const uint32_t *)(const void *)unit;
    for (uint32_t i = 0; i < PROGRAM_BYTES / 4u; i++) {
        if (HAL_FLASH_Program(FLASH_TYPEPROGRAM_WORD, address + 4u * i, words[i]) != HAL_OK) {
            return false;
        }
    }
    return true;
#endif
}

int program_units(const tt_storage *storage, uint32_t offset, const void *data, uint32_t bytes)
{
    static uint64_t unit[(PROGRAM_BYTES + 7u) / 8u]; // not on the stack: the HAL takes its address
    const uint32_t address = tt_flash_address(storage, offset);
    bool done = true;
    HAL_FLASH_Unlock();
    clear_errors();
    for (uint32_t at = 0; done && at < bytes; at += PROGRAM_BYTES) {
        memcpy(unit, (const uint8_t *)data + at, PROGRAM_BYTES);
        done = program_unit(address + at, unit);
    }
    HAL_FLASH_Lock();
    forget(address, bytes);
    return done ? 0 : -1;
}

#if defined(STM32H7xx)
// A unit whose programming was cut may have two wrong bits, and reading it is a bus fault: it is
// ignored here, and the record's CRC tells.
int read_block(const tt_storage *storage, uint32_t offset, void *buffer, uint32_t bytes)
{
    const uint32_t masked = __get_FAULTMASK();
    const uint32_t control = SCB->CCR;
    SCB->CCR = control | SCB_CCR_BFHFNMIGN_Msk;
    __set_FAULTMASK(1u);
    __DSB();
    const int result = tt_flash_read(storage, offset, buffer, bytes);
    __DSB();
    __set_FAULTMASK(masked);
    SCB->CCR = control;
    return result;
}
#else
constexpr auto read_block = tt_flash_read;
#endif

} // namespace

#if defined(STM32L4xx) && !defined(TT_FLASH_NO_NMI)
// Likewise: here reading such a unit is an NMI, which would otherwise never end.
extern "C" void NMI_Handler(void) { FLASH->ECCR = FLASH->ECCR | FLASH_ECCR_ECCD; }
#endif

const tt_storage *tt_core_flash(uint32_t state_bytes)
{
    static tt_storage storage = {read_block, erase_block, program_units, nullptr,
                                 0u,         ERASE_BYTES, PROGRAM_BYTES};
    const uint32_t image_end = (uint32_t)((uintptr_t)&_sidata + (uintptr_t)(&_edata - &_sdata));
    return tt_flash_place(&storage, state_bytes, image_end > FIRST ? image_end : FIRST, END);
}

#endif
