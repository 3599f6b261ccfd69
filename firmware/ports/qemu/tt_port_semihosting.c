/*
 * Files, command line and exit through Arm semihosting (Arm IHI 0069, "Semihosting for AArch32 and
 * AArch64"): the program stops at BKPT 0xAB with an operation in r0 and its arguments' address in
 * r1; the host does the work and puts the result into r0.
 */
#include "tt_port.h"

#define TT_SYS_OPEN 0x01u
#define TT_SYS_CLOSE 0x02u
#define TT_SYS_WRITE 0x05u
#define TT_SYS_READ 0x06u
#define TT_SYS_SEEK 0x0au
#define TT_SYS_GET_CMDLINE 0x15u
#define TT_SYS_EXIT 0x18u
#define TT_SYS_EXIT_EXTENDED 0x20u

#define TT_STOPPED_APPLICATION_EXIT 0x20026u

#define TT_OPEN_READ_BINARY 1u
#define TT_OPEN_UPDATE_BINARY 3u
#define TT_OPEN_WRITE_BINARY 5u

static int32_t tt_semihost(uint32_t operation, uintptr_t argument)
{
    register uint32_t r0 __asm__("r0") = operation;
    register uintptr_t r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return (int32_t)r0;
}

static uint32_t tt_length(const char *text)
{
    uint32_t length = 0u;
    while (text[length] != '\0') {
        ++length;
    }
    return length;
}

static int32_t tt_open(const char *path, uint32_t mode)
{
    const uintptr_t block[3] = {(uintptr_t)path, mode, tt_length(path)};
    return tt_semihost(TT_SYS_OPEN, (uintptr_t)block);
}

int32_t tt_port_open(const char *path, tt_port_mode mode)
{
    static const uint32_t modes[] = {TT_OPEN_READ_BINARY, TT_OPEN_WRITE_BINARY,
                                     TT_OPEN_UPDATE_BINARY};
    return tt_open(path, modes[mode]);
}

/* Both transfers return the number of bytes that were *not* moved. */
static int32_t tt_transfer(uint32_t operation, int32_t handle, uintptr_t buffer, uint32_t bytes)
{
    const uintptr_t block[3] = {(uintptr_t)handle, buffer, bytes};
    const int32_t left = tt_semihost(operation, (uintptr_t)block);
    if (left < 0 || (uint32_t)left > bytes) {
        return -1;
    }
    return (int32_t)(bytes - (uint32_t)left);
}

int32_t tt_port_read(int32_t handle, void *buffer, uint32_t bytes)
{
    return tt_transfer(TT_SYS_READ, handle, (uintptr_t)buffer, bytes);
}

int32_t tt_port_write(int32_t handle, const void *buffer, uint32_t bytes)
{
    return tt_transfer(TT_SYS_WRITE, handle, (uintptr_t)buffer, bytes);
}

int32_t tt_port_seek(int32_t handle, uint32_t offset)
{
    const uintptr_t block[2] = {(uintptr_t)handle, offset};
    return tt_semihost(TT_SYS_SEEK, (uintptr_t)block) == 0 ? 0 : -1;
}

int32_t tt_port_close(int32_t handle)
{
    const uintptr_t block[1] = {(uintptr_t)handle};
    return tt_semihost(TT_SYS_CLOSE, (uintptr_t)block) == 0 ? 0 : -1;
}

int32_t tt_port_command_line(char *buffer, uint32_t capacity)
{
    uintptr_t block[2] = {(uintptr_t)buffer, capacity}; /* the host writes the length back */
    if (tt_semihost(TT_SYS_GET_CMDLINE, (uintptr_t)block) != 0) {
        return -1;
    }
    return (int32_t)tt_length(buffer);
}

void tt_port_print(const char *text)
{
    /* ":tt" opened for writing is the terminal's output (the emulator's stdout). */
    static int32_t terminal = -1;
    if (terminal < 0) {
        terminal = tt_open(":tt", TT_OPEN_WRITE_BINARY);
    }
    (void)tt_port_write(terminal, text, tt_length(text));
}

void tt_port_exit(int code)
{
    const uintptr_t block[2] = {TT_STOPPED_APPLICATION_EXIT, (uintptr_t)code};
    (void)tt_semihost(TT_SYS_EXIT_EXTENDED, (uintptr_t)block);
    /* Hosts that do not know the extended call know this one, which can only say "ended". */
    (void)tt_semihost(TT_SYS_EXIT, TT_STOPPED_APPLICATION_EXIT);
    for (;;) {
    }
}
