/* Flash at a part's addresses, on this machine: see flash_models.cpp. */
#ifndef FLASH_MODELS_H
#define FLASH_MODELS_H

#include <stdint.h>

/* Make [begin, end) an erased flash; work outside of it ends the program with a message. */
void model_open(uint32_t begin, uint32_t end);

/* Ends the program where a cache may hold what was there before. */
void model_check_caches();

extern uint32_t model_erases;

#endif
