/*
 * tt_storage.h: memory that keeps its content without power, as the state store sees it.
 *
 * The model is NOR flash: it is erased in blocks, to 0xff, and programmed in units, each once after
 * an erase. EEPROM, FRAM or a file fit in by an `erase` that fills with 0xff.
 */
#ifndef TT_STORAGE_H
#define TT_STORAGE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Largest unit of programming; the store keeps one such unit on the stack. */
#define TT_STORAGE_PROGRAM_MAX 256u

/*
 * Offsets count from the begin of the storage. Each call returns 0, or anything else for failure,
 * and returns only when the work is done. `erase` gets a multiple of erase_bytes and erases one
 * block; `program` gets a multiple of program_bytes, as offset and as count.
 */
typedef struct tt_storage tt_storage;

struct tt_storage {
    int (*read)(const tt_storage *storage, uint32_t offset, void *buffer, uint32_t bytes);
    int (*erase)(const tt_storage *storage, uint32_t offset);
    int (*program)(const tt_storage *storage, uint32_t offset, const void *data, uint32_t bytes);
    void *context;          /* whatever the calls need */
    uint32_t bytes;         /* size; at least two blocks */
    uint32_t erase_bytes;   /* size of a block; the storage is a whole number of blocks */
    uint32_t program_bytes; /* 1 to TT_STORAGE_PROGRAM_MAX; a block is a whole number of them */
};

/*
 * Storage in RAM: it keeps nothing without power. For tests, and for boards whose flash nobody has
 * connected: a state then survives a reset of the model, not of the board.
 * memory: `bytes` bytes, a whole number of blocks; erased by this call.
 */
void tt_storage_ram(tt_storage *storage, void *memory, uint32_t bytes, uint32_t erase_bytes);

#ifdef __cplusplus
}
#endif

#endif
