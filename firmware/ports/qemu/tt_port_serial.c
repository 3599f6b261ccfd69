/*
 * The first serial port, without interrupts: the line holds back what nobody fetches.
 *
 * Two kinds: the UART of Arm's CMSDK (the MPS machines), and the USART of an STM32F4.
 */
#include "tt_port.h"

#ifndef TT_PORT_UART_BASE
#error "TT_PORT_UART_BASE is missing: it comes from the board's PlatformIO manifest"
#endif

#define TT_REGISTER(offset) (*(volatile uint32_t *)(TT_PORT_UART_BASE + (offset)))

#if defined(TT_PORT_UART_STM32)

#define TT_UART_STATUS TT_REGISTER(0x00u)
#define TT_UART_DATA TT_REGISTER(0x04u)
#define TT_UART_RATE TT_REGISTER(0x08u)
#define TT_UART_CONTROL TT_REGISTER(0x0cu)

#define TT_UART_CONTROL_ON 0x200cu /* enable, transmitter, receiver */
#define TT_UART_RATE_115200 0x8bu  /* of the 16 MHz that the clock has after reset */

/* RCC of the STM32F4: clock of USART1. */
#define TT_RCC_APB2ENR (*(volatile uint32_t *)0x40023844u)
#define TT_RCC_APB2ENR_USART1 (1u << 4)

void tt_port_serial_open(void)
{
    TT_RCC_APB2ENR = TT_RCC_APB2ENR | TT_RCC_APB2ENR_USART1;
    TT_UART_RATE = TT_UART_RATE_115200;
    TT_UART_CONTROL = TT_UART_CONTROL_ON;
}

static int tt_has_byte(void) { return (TT_UART_STATUS & (1u << 5)) != 0u; }
static int tt_is_full(void) { return (TT_UART_STATUS & (1u << 7)) == 0u; }

#else

#define TT_UART_DATA TT_REGISTER(0x00u)
#define TT_UART_STATE TT_REGISTER(0x04u)
#define TT_UART_CONTROL TT_REGISTER(0x08u)
#define TT_UART_DIVIDER TT_REGISTER(0x10u)

void tt_port_serial_open(void)
{
    TT_UART_DIVIDER = 16u; /* the fastest; QEMU needs it set and does not look at the rate */
    TT_UART_CONTROL = 3u;  /* transmitter, receiver */
}

static int tt_has_byte(void) { return (TT_UART_STATE & 2u) != 0u; }
static int tt_is_full(void) { return (TT_UART_STATE & 1u) != 0u; }

#endif

uint32_t tt_port_serial_read(uint8_t *bytes, uint32_t capacity)
{
    uint32_t count = 0;
    while (count < capacity && tt_has_byte()) {
        bytes[count++] = (uint8_t)TT_UART_DATA;
    }
    return count;
}

void tt_port_serial_write(const uint8_t *bytes, uint32_t count)
{
    for (uint32_t i = 0; i < count; ++i) {
        while (tt_is_full()) {
        }
        TT_UART_DATA = bytes[i];
    }
}
