#include "tt_storage.h"

#include <string.h>

static int read_ram(const tt_storage *storage, uint32_t offset, void *buffer, uint32_t bytes)
{
    memcpy(buffer, (const uint8_t *)storage->context + offset, bytes);
    return 0;
}

static int erase_ram(const tt_storage *storage, uint32_t offset)
{
    memset((uint8_t *)storage->context + offset, 0xff, storage->erase_bytes);
    return 0;
}

/* As flash does it: programming clears bits. */
static int program_ram(const tt_storage *storage, uint32_t offset, const void *data, uint32_t bytes)
{
    uint8_t *to = (uint8_t *)storage->context + offset;
    const uint8_t *from = data;
    for (uint32_t i = 0; i < bytes; i++) {
        to[i] = (uint8_t)(to[i] & from[i]);
    }
    return 0;
}

void tt_storage_ram(tt_storage *storage, void *memory, uint32_t bytes, uint32_t erase_bytes)
{
    *storage = (tt_storage){read_ram, erase_ram, program_ram, memory, bytes, erase_bytes, 1u};
    memset(memory, 0xff, bytes);
}
