/* Instruction counter on SysTick; tt_port.h says how exact it is. */
#include "tt_port.h"
#include "tt_port_startup.h"

#ifndef TT_PORT_SYSTICK_HZ
#error "TT_PORT_SYSTICK_HZ is missing: it comes from the board's PlatformIO manifest"
#endif

/* SysTick counts 24 bits. A smaller value makes it overflow more often (tests do that). */
#ifndef TT_PORT_SYSTICK_RELOAD
#define TT_PORT_SYSTICK_RELOAD 0xffffffu
#endif

#define TT_SYST_CSR (*(volatile uint32_t *)0xe000e010u)
#define TT_SYST_RVR (*(volatile uint32_t *)0xe000e014u)
#define TT_SYST_CVR (*(volatile uint32_t *)0xe000e018u)
#define TT_SCB_ICSR (*(volatile uint32_t *)0xe000ed04u)

#define TT_SYST_CSR_ENABLE_INTERRUPT_CPU_CLOCK 7u
#define TT_SYST_MASK 0xffffffu
#define TT_SCB_ICSR_PENDSTSET (1u << 26)

#define TT_PERIOD_TICKS ((uint64_t)TT_PORT_SYSTICK_RELOAD + 1u)
/* Under `-icount shift=0` one instruction takes 1 ns of virtual time. */
#define TT_INSTRUCTIONS_PER_SECOND 1000000000u

static volatile uint32_t tt_periods;

void tt_port_counter_start(void)
{
    tt_periods = 0u;
    TT_SYST_RVR = TT_PORT_SYSTICK_RELOAD;
    TT_SYST_CVR = 0u; /* any write clears; the first tick then loads RVR */
    TT_SYST_CSR = TT_SYST_CSR_ENABLE_INTERRUPT_CPU_CLOCK;
}

void tt_port_systick_handler(void) { tt_periods = tt_periods + 1u; }

uint64_t tt_port_instructions(void)
{
    uint32_t periods;
    uint32_t left;
    uint32_t pending;
    do {
        periods = tt_periods;
        left = TT_SYST_CVR & TT_SYST_MASK;
        pending = TT_SCB_ICSR & TT_SCB_ICSR_PENDSTSET;
    } while (periods != tt_periods);

    /* The interrupt comes when the count arrives at 0, the reload one tick later: a period begins
       at 0, and 0 means that none of it has passed. */
    const uint32_t passed = (left == 0u) ? 0u : TT_PORT_SYSTICK_RELOAD + 1u - left;
    uint64_t ticks = (uint64_t)periods * TT_PERIOD_TICKS + passed;
    if (pending != 0u && passed < TT_PORT_SYSTICK_RELOAD / 2u) {
        ticks += TT_PERIOD_TICKS; /* the period ended, its interrupt has not run yet */
    }
#if TT_INSTRUCTIONS_PER_SECOND % TT_PORT_SYSTICK_HZ == 0
    return ticks * (TT_INSTRUCTIONS_PER_SECOND / TT_PORT_SYSTICK_HZ);
#else
    const uint64_t hz = TT_PORT_SYSTICK_HZ;
    return ticks / hz * TT_INSTRUCTIONS_PER_SECOND + ticks % hz * TT_INSTRUCTIONS_PER_SECOND / hz;
#endif
}
