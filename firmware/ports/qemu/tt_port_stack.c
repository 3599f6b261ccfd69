/* Stack use, measured by the pattern that start-up painted over the free stack. */
#include "tt_port.h"
#include "tt_port_startup.h"

uint32_t tt_port_stack_bytes(void)
{
    const volatile uint32_t *word = tt_link_stack_bottom;
    const volatile uint32_t *const top = tt_link_stack_top;
    while (word < top && *word == TT_PORT_STACK_PAINT) {
        ++word;
    }
    return (uint32_t)((uintptr_t)top - (uintptr_t)word);
}

void tt_port_stack_repaint(void)
{
    uintptr_t stack_pointer;
    __asm__ volatile("mov %0, sp" : "=r"(stack_pointer));
    /* Volatile keeps the compiler from calling a fill routine, which would need stack itself. */
    for (volatile uint32_t *word = tt_link_stack_bottom; (uintptr_t)word < stack_pointer; ++word) {
        *word = TT_PORT_STACK_PAINT;
    }
}
