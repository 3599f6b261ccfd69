/*
 * Start-up for ARMv6-M, v7-M and v8-M: vector table, stack painting, FPU, .data and .bss, main,
 * and a fault handler that reports instead of hanging.
 *
 * The stack lies at the bottom of RAM. A stack that grows too deep then leaves RAM and faults; it
 * cannot overwrite the variables.
 */
#include "tt_port_startup.h"
#include "tt_port.h"

#define TT_STRING_(x) #x
#define TT_STRING(x) TT_STRING_(x)

/* The mainline profiles (v7-M, v8-M mainline) have fault status registers, the others have not. */
#if defined(__ARM_ARCH_ISA_THUMB) && __ARM_ARCH_ISA_THUMB >= 2
#define TT_PORT_CFSR (*(volatile const uint32_t *)0xe000ed28u)
#define TT_PORT_HFSR (*(volatile const uint32_t *)0xe000ed2cu)
#define TT_PORT_BFAR (*(volatile const uint32_t *)0xe000ed38u)
#endif

int main(void);

void tt_port_reset(void);
void tt_port_start(void);
void tt_port_fault(void);
void tt_port_fault_report(const uint32_t *frame, uint32_t exception);

/*
 * Reset in assembly, because none of it may rely on what it sets up: the stack is painted from its
 * bottom up to the stack pointer, and the FPU is on before the compiler's first use of it.
 * Thumb-1 instructions only, for the M0+.
 */
__attribute__((naked, noreturn)) void tt_port_reset(void)
{
    __asm__ volatile(".syntax unified\n"
                     "ldr r0, =tt_link_stack_bottom\n"
                     "ldr r1, =" TT_STRING(
                         TT_PORT_STACK_PAINT) "\n"
                                              "mov r2, sp\n"
                                              "1:\n"
                                              "cmp r0, r2\n"
                                              "bhs 2f\n"
                                              "stmia r0!, {r1}\n"
                                              "b 1b\n"
                                              "2:\n"
#if defined(__ARM_FP) || defined(__ARM_FEATURE_MVE)
                                              /* CPACR: full access to coprocessors 10 and 11. */
                                              "ldr r0, =0xe000ed88\n"
                                              "ldr r1, [r0]\n"
                                              "ldr r2, =0x00f00000\n"
                                              "orrs r1, r2\n"
                                              "str r1, [r0]\n"
                                              "dsb\n"
                                              "isb\n"
#endif
                                              "bl tt_port_start\n"
                                              ".ltorg\n");
}

__attribute__((used, noreturn)) void tt_port_start(void)
{
    const uint32_t *from = tt_link_data_load;
    for (uint32_t *to = tt_link_data_start; to < tt_link_data_end; ++to) {
        *to = *from;
        ++from;
    }
    for (uint32_t *to = tt_link_bss_start; to < tt_link_bss_end; ++to) {
        *to = 0u;
    }
    for (const tt_port_function *function = tt_link_init_start; function < tt_link_init_end;
         ++function) {
        (*function)(); /* constructors, where an application is in C++ */
    }
    tt_port_counter_start();
    tt_port_exit(main());
}

/*
 * Every fault and every unexpected exception. If the stack pointer has left the stack, there is no
 * exception frame to read and no room to work in: start again at the top, and report without one.
 */
__attribute__((naked)) void tt_port_fault(void)
{
    __asm__ volatile(".syntax unified\n"
                     "mrs r1, ipsr\n"
                     "mov r0, sp\n"
                     "ldr r2, =tt_link_stack_bottom\n"
                     "adds r2, #255\n" /* what the report itself may need */
                     "cmp r0, r2\n"
                     "bhs 1f\n"
                     "ldr r2, =tt_link_stack_top\n"
                     "mov sp, r2\n"
                     "movs r0, #0\n"
                     "1:\n"
                     "bl tt_port_fault_report\n"
                     ".ltorg\n");
}

static void tt_port_print_field(const char *name, uint32_t value)
{
    tt_port_print(name);
    tt_port_print_hex32(value);
}

__attribute__((used, noreturn)) void tt_port_fault_report(const uint32_t *frame, uint32_t exception)
{
    tt_port_print("\nfault: exception ");
    tt_port_print_u64(exception);
    if (frame == (const uint32_t *)0) {
        tt_port_print(", stack overflow");
    } else {
        /* The frame the processor pushes: r0-r3, r12, lr, pc, xpsr. */
        tt_port_print_field(", pc 0x", frame[6]);
        tt_port_print_field(", lr 0x", frame[5]);
    }
#if defined(TT_PORT_CFSR)
    tt_port_print_field(", cfsr 0x", TT_PORT_CFSR);
    tt_port_print_field(", hfsr 0x", TT_PORT_HFSR);
    tt_port_print_field(", bfar 0x", TT_PORT_BFAR);
#endif
    tt_port_print("\n");
    tt_port_exit(TT_PORT_EXIT_FAULT);
}

typedef union {
    void (*handler)(void);
    const uint32_t *stack;
} tt_port_vector;

/* The sixteen system exceptions. Device interrupts are never enabled by this port. */
__attribute__((used, section(".vectors"))) const tt_port_vector tt_port_vectors[16] = {
    [0] = {.stack = tt_link_stack_top},
    [1] = {.handler = tt_port_reset},
    [2] = {.handler = tt_port_fault},  /* NMI */
    [3] = {.handler = tt_port_fault},  /* HardFault */
    [4] = {.handler = tt_port_fault},  /* MemManage */
    [5] = {.handler = tt_port_fault},  /* BusFault */
    [6] = {.handler = tt_port_fault},  /* UsageFault */
    [7] = {.handler = tt_port_fault},  /* SecureFault (v8-M) */
    [8] = {.handler = tt_port_fault},  /* reserved */
    [9] = {.handler = tt_port_fault},  /* reserved */
    [10] = {.handler = tt_port_fault}, /* reserved */
    [11] = {.handler = tt_port_fault}, /* SVCall */
    [12] = {.handler = tt_port_fault}, /* DebugMonitor */
    [13] = {.handler = tt_port_fault}, /* reserved */
    [14] = {.handler = tt_port_fault}, /* PendSV */
    [15] = {.handler = tt_port_systick_handler},
};
