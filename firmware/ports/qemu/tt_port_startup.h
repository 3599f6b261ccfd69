/* tt_port_startup.h: what start-up shares with the rest of the port. Not for applications. */
#ifndef TT_PORT_STARTUP_H
#define TT_PORT_STARTUP_H

#include <stdint.h>

typedef void (*tt_port_function)(void);

/* Limits set by the linker script. They are addresses: take `&symbol[0]`, never the value. */
extern uint32_t tt_link_stack_bottom[];
extern uint32_t tt_link_stack_top[];
extern uint32_t tt_link_data_load[];
extern uint32_t tt_link_data_start[];
extern uint32_t tt_link_data_end[];
extern uint32_t tt_link_bss_start[];
extern uint32_t tt_link_bss_end[];
extern const tt_port_function tt_link_init_start[];
extern const tt_port_function tt_link_init_end[];

/* Free stack is filled with this. No single byte repeated, so a cleared buffer never looks free. */
#define TT_PORT_STACK_PAINT 0x7474a5c3

void tt_port_counter_start(void);
void tt_port_systick_handler(void);

#endif /* TT_PORT_STARTUP_H */
