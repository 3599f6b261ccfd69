/* Firmware of the toolchain's tests: does what its command line says. */
#include <stddef.h>

#include "tt_port.h"

#ifndef PROBE_PLATFORM
#define PROBE_PLATFORM 0
#endif

#define CHUNK_BYTES 1000u

static int32_t initialised = 42;
static int32_t cleared;

static int equal(const char *a, const char *b)
{
    while (*a != '\0' && *a == *b) {
        ++a;
        ++b;
    }
    return *a == *b;
}

static uint32_t number(const char *text)
{
    uint32_t value = 0u;
    while (*text >= '0' && *text <= '9') {
        value = value * 10u + (uint32_t)(*text - '0');
        ++text;
    }
    return value;
}

/* Two instructions a turn. */
static void loop(uint32_t turns)
{
    __asm__ volatile(".syntax unified\n1: subs %0, #1\n bne 1b\n" : "+l"(turns) : : "cc");
}

static int count(uint32_t turns)
{
    const uint64_t before = tt_port_instructions();
    loop(turns);
    tt_port_print_u64(tt_port_instructions() - before);
    return 0;
}

/* Read the counter many times: the smallest and largest step between neighbours. */
static int steps(uint32_t readings)
{
    uint64_t smallest = UINT64_MAX;
    uint64_t largest = 0u;
    uint64_t last = tt_port_instructions();
    for (uint32_t i = 0u; i < readings; ++i) {
        const uint64_t now = tt_port_instructions();
        const uint64_t step = now - last;
        smallest = step < smallest ? step : smallest;
        largest = step > largest ? step : largest;
        last = now;
    }
    tt_port_print_u64(smallest);
    tt_port_print(" ");
    tt_port_print_u64(largest);
    return 0;
}

static __attribute__((noinline)) void use_stack(void)
{
    volatile uint8_t local[2048];
    for (uint32_t i = 0u; i < sizeof local; ++i) {
        local[i] = (uint8_t)i;
    }
}

static int stack(void)
{
    tt_port_stack_repaint();
    const uint32_t before = tt_port_stack_bytes();
    use_stack();
    const uint32_t after = tt_port_stack_bytes();
    tt_port_stack_repaint();
    tt_port_print_u64(before);
    tt_port_print(" ");
    tt_port_print_u64(after);
    tt_port_print(" ");
    tt_port_print_u64(tt_port_stack_bytes());
    return 0;
}

static __attribute__((noinline)) uint32_t descend(uint32_t depth)
{
    volatile uint32_t frame[64];
    frame[depth % 64u] = depth;
    return depth == 0u ? 0u : descend(depth - 1u) + frame[depth % 64u];
}

static __attribute__((noinline)) float multiply_add(float a, float b, float c) { return a * b + c; }

static int contraction(void)
{
    /* (1 + 2^-12)^2 - (1 + 2^-11): 0 in two roundings, 2^-24 in one. */
    volatile float factor = 1.000244140625f;
    volatile float addend = -1.00048828125f;
    union {
        float value;
        uint32_t bits;
    } result = {.value = multiply_add(factor, factor, addend)};
    tt_port_print_hex32(result.bits);
    return 0;
}

static int copy(const char *from, const char *to)
{
    static uint8_t chunk[CHUNK_BYTES];
    const int32_t source = tt_port_open(from, TT_PORT_OPEN_READ);
    if (source < 0) {
        tt_port_print("no file");
        return 2;
    }
    const int32_t target = tt_port_open(to, TT_PORT_OPEN_WRITE);
    int32_t got = tt_port_read(source, chunk, CHUNK_BYTES);
    while (got > 0) {
        if (tt_port_write(target, chunk, (uint32_t)got) != got) {
            return 3;
        }
        got = tt_port_read(source, chunk, CHUNK_BYTES);
    }
    return tt_port_close(source) == 0 && tt_port_close(target) == 0 ? 0 : 4;
}

static int greet(void)
{
    tt_port_print("platform ");
    tt_port_print_i32(PROBE_PLATFORM);
    tt_port_print(", data ");
    tt_port_print_i32(initialised);
    tt_port_print(", bss ");
    tt_port_print_i32(cleared);
    tt_port_print(", negative ");
    tt_port_print_i32(INT32_MIN);
    tt_port_print("\n");
    initialised = 0;
    cleared = 1;
    return 0;
}

int main(void)
{
    static char line[200];
    char tiny[4];
    const char *words[4] = {"", "", "", ""};
    if (tt_port_command_line(tiny, sizeof tiny) != -1) {
        return 90; /* it does not fit */
    }
    if (tt_port_command_line(line, sizeof line) < 0) {
        return 91;
    }
    uint32_t n = 0u;
    for (char *at = line; *at != '\0' && n < 4u; ++n) {
        words[n] = at;
        while (*at != '\0' && *at != ' ') {
            ++at;
        }
        if (*at == ' ') {
            *at = '\0';
            ++at;
        }
    }
    if (equal(words[1], "exit")) {
        return (int)number(words[2]);
    }
    if (equal(words[1], "count")) {
        return count(number(words[2]));
    }
    if (equal(words[1], "steps")) {
        return steps(number(words[2]));
    }
    if (equal(words[1], "stack")) {
        return stack();
    }
    if (equal(words[1], "overflow")) {
        return (int)descend(100000u);
    }
    if (equal(words[1], "fault")) {
        return *(volatile int *)0xf0000000u;
    }
    if (equal(words[1], "contraction")) {
        return contraction();
    }
    if (equal(words[1], "copy")) {
        return copy(words[2], words[3]);
    }
    if (equal(words[1], "spin")) {
        for (;;) {
        }
    }
    return greet();
}
