// What the vendors' calls do, played on this machine over memory at the part's own addresses. Each
// call checks that it may be made: blocks and units whole, within the storage, each unit once.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <Arduino.h>

#include "flash_models.h"

namespace
{

constexpr uint32_t SPAN = 0x200000u; // the most that any storage takes

uint32_t model_begin, model_end;
uint8_t programmed[SPAN];
bool unlocked = true; // until a part says otherwise

void demand(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "not allowed: %s\n", what);
        exit(1);
    }
}

uint8_t *at(uint32_t address) { return (uint8_t *)(uintptr_t)address; }

void erase(uint32_t address, uint32_t bytes)
{
    demand(unlocked, "erasing while locked");
    demand(address >= model_begin && address + bytes <= model_end,
           "erasing outside of the storage");
    memset(at(address), 0xff, bytes);
    memset(programmed + (address - model_begin), 0, bytes);
    model_erases++;
}

void program(uint32_t address, const void *data, uint32_t bytes)
{
    demand(unlocked, "programming while locked");
    demand(address % bytes == 0u, "programming a part of a unit");
    demand(address >= model_begin && address + bytes <= model_end, "programming outside");
    for (uint32_t i = 0; i < bytes; i++) {
        demand(programmed[address - model_begin + i] == 0u, "programming twice");
        programmed[address - model_begin + i] = 1u;
        at(address)[i] = (uint8_t)(at(address)[i] & ((const uint8_t *)data)[i]);
    }
}

} // namespace

uint32_t model_erases;

void model_open(uint32_t begin, uint32_t end)
{
    model_begin = begin;
    model_end = end;
    void *memory = mmap(at(begin), end - begin, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    demand(memory == (void *)at(begin) && end - begin <= SPAN, "the memory of this machine");
    memset(memory, 0xff, end - begin);
}

#if defined(ARDUINO_ARCH_MBED)

#include <FlashIAP.h>

namespace mbed
{
int FlashIAP::init() { return 0; }
int FlashIAP::deinit() { return 0; }

int FlashIAP::read(void *buffer, uint32_t address, uint32_t bytes)
{
    memcpy(buffer, at(address), bytes);
    return 0;
}

int FlashIAP::program(const void *buffer, uint32_t address, uint32_t bytes)
{
    const uint32_t unit = MODEL_UNIT; // what the part can do, whatever the driver says
    demand(bytes % unit == 0u, "programming a part of a unit");
    for (uint32_t done = 0; done < bytes; done += unit) {
        ::program(address + done, (const uint8_t *)buffer + done, unit);
    }
    return 0;
}

int FlashIAP::erase(uint32_t address, uint32_t bytes)
{
    demand(address % MODEL_SECTOR == 0u && bytes == MODEL_SECTOR, "erasing a part of a sector");
    ::erase(address, bytes);
    return 0;
}

uint32_t FlashIAP::get_page_size() const { return MODEL_PAGE; }
uint32_t FlashIAP::get_sector_size(uint32_t) const { return MODEL_SECTOR; }
uint32_t FlashIAP::get_flash_start() const { return MODEL_START; }
uint32_t FlashIAP::get_flash_size() const { return MODEL_SIZE; }
uint8_t FlashIAP::get_erase_value() const { return 0xffu; }
} // namespace mbed

#elif defined(ARDUINO_ARCH_STM32)

SCB_Type tt_stand_in_scb;
FLASH_TypeDef tt_stand_in_flash;

namespace
{
bool stale; // a cache may hold what was there before
uint32_t fault_mask;

struct Locked {
    Locked() { unlocked = false; }
} locked_after_reset;
} // namespace

void model_check_caches() { demand(!stale && fault_mask == 0u, "reading through a stale cache"); }

extern "C" {

HAL_StatusTypeDef HAL_FLASH_Unlock(void)
{
    unlocked = true;
    return HAL_OK;
}

HAL_StatusTypeDef HAL_FLASH_Lock(void)
{
    unlocked = false;
    return HAL_OK;
}

// Address and size of a block, as the reference manuals list them.
HAL_StatusTypeDef HAL_FLASHEx_Erase(FLASH_EraseInitTypeDef *what, uint32_t *)
{
#if defined(STM32L4xx)
    demand(what->TypeErase == FLASH_TYPEERASE_PAGES && what->NbPages == 1u, "the kind of erasing");
    demand(what->Page < 256u && what->Banks - 1u < 2u, "the page or bank");
    erase(0x08000000u + (what->Banks == FLASH_BANK_2 ? 0x80000u : 0u) + what->Page * 2048u, 2048u);
#else
    demand(what->TypeErase == FLASH_TYPEERASE_SECTORS && what->NbSectors == 1u,
           "the kind of erasing");
#if defined(STM32H7xx)
    demand(what->Sector < 8u && what->Banks - 1u < 2u, "the sector or bank");
    erase((what->Banks == FLASH_BANK_2 ? 0x08100000u : 0x08000000u) + what->Sector * 0x20000u,
          0x20000u);
#elif defined(STM32F4xx)
    static const uint32_t begins[] = {0x00000u, 0x04000u, 0x08000u, 0x0c000u,
                                      0x10000u, 0x20000u, 0x40000u, 0x60000u};
    demand(what->Sector >= 5u && what->Sector < 8u, "the sector");
    erase(0x08000000u + begins[what->Sector], 0x20000u);
#else
    static const uint32_t begins[] = {0x00000u, 0x08000u, 0x10000u, 0x18000u,
                                      0x20000u, 0x40000u, 0x80000u, 0xc0000u};
    demand(what->Sector >= 5u && what->Sector < 8u, "the sector");
    erase(0x08000000u + begins[what->Sector], 0x40000u);
#endif
#endif
    stale = true;
    return HAL_OK;
}

#if defined(STM32H7xx)
HAL_StatusTypeDef HAL_FLASH_Program(uint32_t type, uint32_t address, uint32_t data)
{
    demand(type == FLASH_TYPEPROGRAM_FLASHWORD, "the kind of programming");
    program(address, at(data), 32u);
#else
HAL_StatusTypeDef HAL_FLASH_Program(uint32_t type, uint32_t address, uint64_t data)
{
#if defined(STM32L4xx)
    demand(type == FLASH_TYPEPROGRAM_DOUBLEWORD, "the kind of programming");
    program(address, &data, 8u);
#else
    demand(type == FLASH_TYPEPROGRAM_WORD, "the kind of programming");
    program(address, &data, 4u);
#endif
#endif
    stale = true;
    return HAL_OK;
}

void tt_stand_in_clear(uint32_t) {}
void tt_stand_in_cache(void) { stale = false; }
void SCB_InvalidateDCache_by_Addr(void *address, int32_t bytes)
{
    demand((uint32_t)(uintptr_t)address % 32u == 0u && bytes % 32 == 0, "a part of a cache line");
    stale = false;
}
uint32_t __get_FAULTMASK(void) { return fault_mask; }
void __set_FAULTMASK(uint32_t mask) { fault_mask = mask; }
void __DSB(void) {}

} // extern "C"

#elif defined(ARDUINO_ARCH_RP2040)

#include <hardware/flash.h>
#include <hardware/sync.h>

RP2040 rp2040;

namespace
{
bool other_idles, interrupts_off;
} // namespace

void RP2040::idleOtherCore() { other_idles = true; }
void RP2040::resumeOtherCore() { other_idles = false; }

uint32_t save_and_disable_interrupts(void)
{
    interrupts_off = true;
    return 1u;
}

void restore_interrupts(uint32_t status) { interrupts_off = status != 1u; }

void flash_range_erase(uint32_t offset, size_t bytes)
{
    demand(other_idles && interrupts_off, "flash while something may run from it");
    demand(offset % 4096u == 0u && bytes % 4096u == 0u, "erasing a part of a sector");
    erase(XIP_BASE + offset, (uint32_t)bytes);
}

void flash_range_program(uint32_t offset, const uint8_t *data, size_t bytes)
{
    demand(other_idles && interrupts_off, "flash while something may run from it");
    for (uint32_t done = 0; done < bytes; done += 256u) {
        program(XIP_BASE + offset + done, data + done, 256u);
    }
}

#elif defined(__IMXRT1062__)

extern "C" {

void eepromemu_flash_erase_sector(void *address) { erase((uint32_t)(uintptr_t)address, 4096u); }

void eepromemu_flash_write(void *address, const void *data, uint32_t bytes)
{
    demand((uint32_t)(uintptr_t)address % 256u + bytes <= 256u, "programming across pages");
    program((uint32_t)(uintptr_t)address, data, bytes);
}

} // extern "C"

#elif defined(__SAMD51__)

Nvmctrl tt_stand_in_nvmctrl = {{0x0004u}, {}, {0u}, {{0xffu}}, {{1u}}};
Cmcc tt_stand_in_cmcc;

namespace
{
uint8_t content[SPAN]; // of the flash; the driver's stores go to the page buffer, not there
bool is_open;
} // namespace

// The memory that the driver sees is restored from `content` by each command.
void tt_stand_in_command(uint16_t command)
{
    const uint32_t address = NVMCTRL->ADDR.reg;
    demand((command & 0xff00u) == NVMCTRL_CTRLB_CMDEX_KEY, "the key");
    demand((NVMCTRL->CTRLA.reg & 0xc030u) == 0xc000u && CMCC->CTRL.reg == 0u, "modes and caches");
    if (!is_open) {
        memset(content, 0xff, sizeof content);
        is_open = true;
    }
    uint8_t buffer[16];
    memcpy(buffer, at(address / 16u * 16u), sizeof buffer);
    memcpy(at(model_begin), content, model_end - model_begin);
    if ((command & 0xffu) == NVMCTRL_CTRLB_CMD_EB) {
        demand(address % 8192u == 0u, "erasing a part of a block");
        erase(address, 8192u);
    } else if ((command & 0xffu) == NVMCTRL_CTRLB_CMD_WQW) {
        program(address, buffer, 16u);
    } else {
        demand((command & 0xffu) == NVMCTRL_CTRLB_CMD_PBC, "the command");
    }
    memcpy(content, at(model_begin), model_end - model_begin);
}

#endif

#if !defined(ARDUINO_ARCH_STM32)
void model_check_caches() {}
#endif
