#include "tt_board_qemu.h"

#include <stddef.h>

#include "tt_port.h"
#include "tt_store.h"

#define ERASE_BYTES 256u
#define PROGRAM_BYTES 4u
#define RECEIVE_BYTES 16384u /* the emulator takes a byte when the last one was fetched */
#define INSTRUCTIONS_A_MICROSECOND 1000u

void tt_board_open(void) { tt_port_serial_open(); }

uint32_t tt_board_read(uint8_t *bytes, uint32_t capacity)
{
    return tt_port_serial_read(bytes, capacity);
}

void tt_board_write(void *context, const uint8_t *bytes, uint32_t count)
{
    (void)context;
    tt_port_serial_write(bytes, count);
}

uint32_t tt_board_receive_bytes(void) { return RECEIVE_BYTES; }

/* Instructions under `-icount shift=0`, else nanoseconds of the host by and large; in thousands. */
uint32_t tt_board_ticks(void)
{
    return (uint32_t)(tt_port_instructions() / INSTRUCTIONS_A_MICROSECOND);
}

uint32_t tt_board_ticks_hz(void) { return 1000000u; }

/* ---- storage: a file of the host ---- */

static int32_t handle_of(const tt_storage *storage) { return *(const int32_t *)storage->context; }

static int read_file(const tt_storage *storage, uint32_t offset, void *buffer, uint32_t bytes)
{
    const int32_t handle = handle_of(storage);
    return tt_port_seek(handle, offset) == 0 &&
                   tt_port_read(handle, buffer, bytes) == (int32_t)bytes
               ? 0
               : -1;
}

static int program_file(const tt_storage *storage, uint32_t offset, const void *data,
                        uint32_t bytes)
{
    const int32_t handle = handle_of(storage);
    return tt_port_seek(handle, offset) == 0 && tt_port_write(handle, data, bytes) == (int32_t)bytes
               ? 0
               : -1;
}

static int erase_file(const tt_storage *storage, uint32_t offset)
{
    static const uint32_t erased[8] = {~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u};
    for (uint32_t at = 0; at < storage->erase_bytes; at += (uint32_t)sizeof erased) {
        if (program_file(storage, offset + at, erased, (uint32_t)sizeof erased) != 0) {
            return -1;
        }
    }
    return 0;
}

/* The second word of the command line (the first is the firmware's name); NULL if there is none. */
static const char *file_name(char *line, uint32_t capacity)
{
    if (tt_port_command_line(line, capacity) < 0) {
        return NULL;
    }
    char *name = line;
    while (*name != '\0' && *name != ' ') {
        name++;
    }
    if (*name == '\0') {
        return NULL;
    }
    char *end = ++name;
    while (*end != '\0' && *end != ' ') {
        end++;
    }
    *end = '\0';
    return name;
}

/* An erased file of the storage's size. */
static int create(const tt_storage *storage, const char *name)
{
    const int32_t file = tt_port_open(name, TT_PORT_OPEN_WRITE);
    if (file < 0 || tt_port_close(file) != 0) {
        return -1;
    }
    *(int32_t *)storage->context = tt_port_open(name, TT_PORT_OPEN_UPDATE);
    if (handle_of(storage) < 0) {
        return -1;
    }
    for (uint32_t at = 0; at < storage->bytes; at += storage->erase_bytes) {
        if (erase_file(storage, at) != 0) {
            return -1;
        }
    }
    return 0;
}

const tt_storage *tt_board_storage(uint32_t state_bytes)
{
    static tt_storage storage;
    static int32_t handle;
    char line[128];
    uint8_t last;
    const char *name = file_name(line, (uint32_t)sizeof line);
    if (name == NULL || *name == '\0') {
        return NULL;
    }
    storage = (tt_storage){read_file,
                           erase_file,
                           program_file,
                           &handle,
                           TT_STORE_BYTES(state_bytes, ERASE_BYTES, PROGRAM_BYTES),
                           ERASE_BYTES,
                           PROGRAM_BYTES};
    handle = tt_port_open(name, TT_PORT_OPEN_UPDATE);
    const int whole = handle >= 0 && read_file(&storage, storage.bytes - 1u, &last, 1u) == 0;
    return whole || create(&storage, name) == 0 ? &storage : NULL;
}
