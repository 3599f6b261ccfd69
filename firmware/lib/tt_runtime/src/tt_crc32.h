/* CRC-32 as in Ethernet, zip and PNG (polynomial 0x04c11db7 reflected, start and end inverted). */
#ifndef TT_CRC32_H
#define TT_CRC32_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* CRC of `bytes` bytes; `crc` is 0, or the CRC of what precedes them. */
uint32_t tt_crc32(uint32_t crc, const void *data, uint32_t bytes);

#ifdef __cplusplus
}
#endif

#endif
