/* A stand-in for the Pico SDK's hardware/flash.h. */
#ifndef HARDWARE_FLASH_STAND_IN_H
#define HARDWARE_FLASH_STAND_IN_H

#include <stddef.h>
#include <stdint.h>

#define XIP_BASE 0x10000000u
#define FLASH_PAGE_SIZE (1u << 8)
#define FLASH_SECTOR_SIZE (1u << 12)

extern "C" {
void flash_range_erase(uint32_t offset, size_t bytes);
void flash_range_program(uint32_t offset, const uint8_t *data, size_t bytes);
}

#endif
