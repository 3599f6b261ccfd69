/* A stand-in for mbed's FlashIAP.h: the class as the flash driver uses it. */
#ifndef FLASH_IAP_STAND_IN_H
#define FLASH_IAP_STAND_IN_H

#include <stdint.h>

namespace mbed
{
class FlashIAP
{
  public:
    int init();
    int deinit();
    int read(void *buffer, uint32_t address, uint32_t bytes);
    int program(const void *buffer, uint32_t address, uint32_t bytes);
    int erase(uint32_t address, uint32_t bytes);
    uint32_t get_page_size() const;
    uint32_t get_sector_size(uint32_t address) const;
    uint32_t get_flash_start() const;
    uint32_t get_flash_size() const;
    uint8_t get_erase_value() const;
};
} // namespace mbed

extern uint32_t __etext, __data_start__, __data_end__;
#define FLASHIAP_APP_ROM_END_ADDR                                                                  \
    (((uint32_t)(uintptr_t)&__etext) + ((uint32_t)(uintptr_t)&__data_end__) -                      \
     ((uint32_t)(uintptr_t)&__data_start__))

#endif
