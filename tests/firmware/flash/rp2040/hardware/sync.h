/* A stand-in for the Pico SDK's hardware/sync.h. */
#ifndef HARDWARE_SYNC_STAND_IN_H
#define HARDWARE_SYNC_STAND_IN_H

#include <stdint.h>

uint32_t save_and_disable_interrupts(void);
void restore_interrupts(uint32_t status);

#endif
