/*
 * The port of a program on this machine, in place of ports/qemu: files by stdio, the command line
 * from the environment variable TT_PORT_COMMAND_LINE. Instructions and stack are not measured.
 */
#include "tt_port.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TT_HOST_FILES 4

static FILE *files[TT_HOST_FILES];

uint64_t tt_port_instructions(void) { return 0; }

uint32_t tt_port_stack_bytes(void) { return 0; }

void tt_port_stack_repaint(void) {}

int32_t tt_port_open(const char *path, tt_port_mode mode)
{
    for (int32_t handle = 0; handle < TT_HOST_FILES; handle++) {
        if (files[handle] == NULL) {
            static const char *const modes[] = {"rb", "wb", "r+b"};
            files[handle] = fopen(path, modes[mode]);
            return files[handle] != NULL ? handle : -1;
        }
    }
    return -1;
}

int32_t tt_port_read(int32_t handle, void *buffer, uint32_t bytes)
{
    const size_t got = fread(buffer, 1, bytes, files[handle]);
    return ferror(files[handle]) != 0 ? -1 : (int32_t)got;
}

int32_t tt_port_write(int32_t handle, const void *buffer, uint32_t bytes)
{
    const size_t put = fwrite(buffer, 1, bytes, files[handle]);
    return put == bytes ? (int32_t)put : -1;
}

int32_t tt_port_seek(int32_t handle, uint32_t offset)
{
    return fseek(files[handle], (long)offset, SEEK_SET) == 0 ? 0 : -1;
}

int32_t tt_port_close(int32_t handle)
{
    FILE *file = files[handle];
    files[handle] = NULL;
    return fclose(file) == 0 ? 0 : -1;
}

int32_t tt_port_command_line(char *buffer, uint32_t capacity)
{
    const char *line = getenv("TT_PORT_COMMAND_LINE");
    if (line == NULL || strlen(line) >= capacity) {
        return -1;
    }
    memcpy(buffer, line, strlen(line) + 1u);
    return (int32_t)strlen(line);
}

void tt_port_print(const char *text) { fputs(text, stdout); }

void tt_port_print_u64(uint64_t value) { printf("%llu", (unsigned long long)value); }

void tt_port_print_i32(int32_t value) { printf("%ld", (long)value); }

void tt_port_print_hex32(uint32_t value) { printf("%08lx", (unsigned long)value); }

void tt_port_exit(int code) { exit(code); }
