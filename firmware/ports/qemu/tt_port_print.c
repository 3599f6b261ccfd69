/* Numbers as text, so that no printf (some 20 KB of library, and a heap) is linked. */
#include "tt_port.h"

#define TT_DECIMAL_DIGITS 20 /* of UINT64_MAX */

void tt_port_print_u64(uint64_t value)
{
    char text[TT_DECIMAL_DIGITS + 1];
    uint32_t at = TT_DECIMAL_DIGITS;
    text[at] = '\0';
    do {
        text[--at] = (char)('0' + (char)(value % 10u));
        value /= 10u;
    } while (value != 0u);
    tt_port_print(&text[at]);
}

void tt_port_print_i32(int32_t value)
{
    if (value < 0) {
        tt_port_print("-");
        tt_port_print_u64((uint64_t)(-(int64_t)value));
    } else {
        tt_port_print_u64((uint64_t)value);
    }
}

void tt_port_print_hex32(uint32_t value)
{
    static const char digits[] = "0123456789abcdef";
    char text[9];
    for (uint32_t i = 0u; i < 8u; ++i) {
        text[i] = digits[(value >> (28u - 4u * i)) & 0xfu];
    }
    text[8] = '\0';
    tt_port_print(text);
}
