#include "tt_bytes.h"

#if TT_DSP

void tt_copy_bytes(int8_t *to, const int8_t *from, size_t count)
{
    const int8_t *const end16 = from + (count & ~(size_t)15);
    const int8_t *const end4 = from + (count & ~(size_t)3);
    const int8_t *const end = from + count;
    if ((((uintptr_t)from | (uintptr_t)to) & 3u) == 0u) {
        if (from != end16) {
            __asm__ volatile("1:\n"
                             "ldmia %[from]!, {r4, r5, r6, r8}\n"
                             "stmia %[to]!, {r4, r5, r6, r8}\n"
                             "cmp %[from], %[end]\n"
                             "bne 1b\n"
                             : [from] "+r"(from), [to] "+r"(to)
                             : [end] "r"(end16)
                             : "r4", "r5", "r6", "r8", "cc", "memory");
        }
    } else if (from != end16) {
        __asm__ volatile("1:\n"
                         "ldr r4, [%[from]], #4\n"
                         "ldr r5, [%[from]], #4\n"
                         "ldr r6, [%[from]], #4\n"
                         "ldr r8, [%[from]], #4\n"
                         "str r4, [%[to]], #4\n"
                         "str r5, [%[to]], #4\n"
                         "str r6, [%[to]], #4\n"
                         "str r8, [%[to]], #4\n"
                         "cmp %[from], %[end]\n"
                         "bne 1b\n"
                         : [from] "+r"(from), [to] "+r"(to)
                         : [end] "r"(end16)
                         : "r4", "r5", "r6", "r8", "cc", "memory");
    }
    while (from != end4) {
        __asm__ volatile("ldr r4, [%[from]], #4\n"
                         "str r4, [%[to]], #4\n"
                         : [from] "+r"(from), [to] "+r"(to)
                         :
                         : "r4", "memory");
    }
    while (from != end) {
        __asm__ volatile("ldrb r4, [%[from]], #1\n"
                         "strb r4, [%[to]], #1\n"
                         : [from] "+r"(from), [to] "+r"(to)
                         :
                         : "r4", "memory");
    }
}

void tt_fill_bytes(int8_t *to, int8_t value, size_t count)
{
    const uint32_t word = (uint32_t)(uint8_t)value * 0x01010101u;
    int8_t *const end = to + count;
    while (end - to >= 16) {
        __asm__ volatile("str %[word], [%[to]], #4\n"
                         "str %[word], [%[to]], #4\n"
                         "str %[word], [%[to]], #4\n"
                         "str %[word], [%[to]], #4\n"
                         : [to] "+r"(to)
                         : [word] "r"(word)
                         : "memory");
    }
    while (to != end) {
        __asm__ volatile("strb %[word], [%[to]], #1\n"
                         : [to] "+r"(to)
                         : [word] "r"(word)
                         : "memory");
    }
}

#endif
