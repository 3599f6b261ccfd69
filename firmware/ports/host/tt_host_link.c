/*
 * The device's end of a link, in this process: bytes in, bytes out. Used together with tt_host.c.
 *
 * The storage is RAM of the caller and outlives the link, as flash outlives a power cut.
 */
#include "tt_link.h"

#include <string.h>

#define TT_HOST_PAYLOAD 1024u
#define TT_HOST_ERASE_BYTES 256u

typedef struct tt_host_link {
    tt_link link;
    tt_storage storage;
    tt_link_about about;
    uint8_t *out;
    uint32_t count, capacity;
    uint32_t buffer[TT_LINK_BUFFER_WORDS(TT_HOST_PAYLOAD)];
} tt_host_link;

uint32_t tt_host_link_bytes(void);
uint32_t tt_host_link_erase_bytes(void);
int32_t tt_host_link_open(tt_host_link *host, tt_model *model, const tt_link_about *about,
                          uint8_t *flash, uint32_t flash_bytes, int32_t is_fresh);
uint32_t tt_host_link_receive(tt_host_link *host, const uint8_t *bytes, uint32_t count,
                              uint8_t *out, uint32_t capacity);

uint32_t tt_host_link_bytes(void) { return (uint32_t)sizeof(tt_host_link); }

uint32_t tt_host_link_erase_bytes(void) { return TT_HOST_ERASE_BYTES; }

static void write_out(void *context, const uint8_t *bytes, uint32_t count)
{
    tt_host_link *host = context;
    const uint32_t room = host->capacity - host->count;
    const uint32_t taken = count < room ? count : room; /* the rest is lost, as on a line */
    memcpy(host->out + host->count, bytes, taken);
    host->count += taken;
}

/* about->scheme must stay where it is; the rest is copied. */
int32_t tt_host_link_open(tt_host_link *host, tt_model *model, const tt_link_about *about,
                          uint8_t *flash, uint32_t flash_bytes, int32_t is_fresh)
{
    tt_storage fresh;
    tt_storage_ram(&fresh, flash, is_fresh != 0 ? flash_bytes : 0u, TT_HOST_ERASE_BYTES);
    fresh.bytes = flash_bytes;
    host->storage = fresh;
    host->about = *about;
    const tt_link_config config = {
        .model = model,
        .about = &host->about,
        .storage = flash_bytes != 0u ? &host->storage : NULL,
        .write = write_out,
        .context = host,
        .buffer = host->buffer,
        .buffer_words = (uint32_t)(sizeof host->buffer / sizeof host->buffer[0]),
        .receive_bytes = 8192u,
    };
    return (int32_t)tt_link_open(&host->link, &config);
}

uint32_t tt_host_link_receive(tt_host_link *host, const uint8_t *bytes, uint32_t count,
                              uint8_t *out, uint32_t capacity)
{
    host->out = out;
    host->count = 0u;
    host->capacity = capacity;
    tt_link_receive(&host->link, bytes, count);
    return host->count;
}
