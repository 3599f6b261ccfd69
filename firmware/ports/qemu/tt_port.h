/*
 * tt_port.h: what an application asks of the place it runs in.
 *
 * This port is for Cortex-M machines emulated by QEMU (or any debugger that answers Arm
 * semihosting). Files and the terminal are those of the host; a program that runs without a
 * semihosting host stops in a fault at the first call that needs one.
 *
 * The board comes in through defines, set by the board's PlatformIO manifest:
 *   TT_PORT_SYSTICK_HZ   rate at which SysTick counts the processor clock
 *   TT_PORT_UART_BASE    address of the board's first serial port
 *   TT_PORT_UART_STM32   defined where that is an STM32 USART, not Arm's CMSDK UART
 */
#ifndef TT_PORT_H
#define TT_PORT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Exit code of a program that ended in a fault (bus, usage, memory, stack overflow). */
#define TT_PORT_EXIT_FAULT 125

typedef enum {
    TT_PORT_OPEN_READ,   /* an existing file */
    TT_PORT_OPEN_WRITE,  /* a new file, or an existing one emptied */
    TT_PORT_OPEN_UPDATE, /* an existing file, to read and to write */
} tt_port_mode;

/* ---- measuring ------------------------------------------------------------------------- */

/*
 * Instructions executed since reset.
 *
 * Under `-icount shift=0` QEMU advances its virtual clock by 1 ns for each instruction, so SysTick,
 * which counts that clock, counts instructions: at 25 MHz one tick is 40 of them. The value is a
 * whole number of ticks, so the difference of two readings is within one tick (40 instructions)
 * of the truth, and includes the reading itself (50 to 150, by core). Equal runs give equal values.
 * SysTick's 24 bits run out every 671 million instructions; its interrupt counts that, and costs
 * some twenty instructions each time. Interrupts must not stay masked longer than one such period.
 * Instructions are exact; they are not cycles. Without `-icount` the value means nothing.
 */
uint64_t tt_port_instructions(void);

/*
 * Deepest use of the stack, in bytes, since reset or since tt_port_stack_repaint().
 *
 * Start-up fills the free stack with a pattern; this looks for the deepest word that differs. It
 * includes the caller's own frames, and the frame of any interrupt taken (32 bytes, or 104 once
 * the FPU is in use). Memory that was reserved but never written is not seen.
 */
uint32_t tt_port_stack_bytes(void);

/* Fill the free stack again, to measure the next phase alone. */
void tt_port_stack_repaint(void);

/* ---- files of the host ----------------------------------------------------------------- */

/* Open `path`, relative to the emulator's working directory. Returns a handle, or -1. */
int32_t tt_port_open(const char *path, tt_port_mode mode);

/* Read up to `bytes`. Returns how many were read (fewer, or 0, at the file's end), or -1. */
int32_t tt_port_read(int32_t handle, void *buffer, uint32_t bytes);

/* Write `bytes`. Returns how many were written, or -1. */
int32_t tt_port_write(int32_t handle, const void *buffer, uint32_t bytes);

/* Go on at `offset` from the begin of the file. Returns 0, or -1. */
int32_t tt_port_seek(int32_t handle, uint32_t offset);

/* Returns 0, or -1. */
int32_t tt_port_close(int32_t handle);

/*
 * Copy the command line into `buffer` as one string: the arguments, joined by single blanks.
 * Returns its length, or -1 if it does not fit into `capacity` bytes (with its final zero).
 */
int32_t tt_port_command_line(char *buffer, uint32_t capacity);

/* ---- serial port ----------------------------------------------------------------------- */

void tt_port_serial_open(void);

/* What has arrived, up to `capacity` bytes; 0 where nothing has. Never waits. */
uint32_t tt_port_serial_read(uint8_t *bytes, uint32_t capacity);

/* Returns when the port has taken all bytes. */
void tt_port_serial_write(const uint8_t *bytes, uint32_t count);

/* ---- terminal and end ------------------------------------------------------------------ */

void tt_port_print(const char *text);
void tt_port_print_u64(uint64_t value);   /* decimal */
void tt_port_print_i32(int32_t value);    /* decimal */
void tt_port_print_hex32(uint32_t value); /* eight digits, no prefix */

/* End the program; `code` (0 to 255) becomes the emulator's exit code. */
void tt_port_exit(int code) __attribute__((noreturn));

#ifdef __cplusplus
}
#endif

#endif /* TT_PORT_H */
