#include "tt_link.h"

#include <string.h>

#include "tt_link_requests.h"

typedef struct header {
    uint8_t version, kind;
    uint16_t session;
    uint32_t sequence;
} header;

_Static_assert(sizeof(header) == TT_LINK_HEADER_BYTES, "layout of the header");

static uint8_t *body_of(const tt_link *link) { return (uint8_t *)link->config.buffer; }

tt_status tt_link_open(tt_link *link, const tt_link_config *config)
{
    if (link == NULL || config == NULL || config->model == NULL || config->about == NULL ||
        config->write == NULL || config->buffer == NULL) {
        return TT_ERROR_ARGUMENT;
    }
    if (config->buffer_words < TT_LINK_BUFFER_WORDS(TT_LINK_PAYLOAD_MIN)) {
        return TT_ERROR_MEMORY;
    }
    memset(link, 0, sizeof *link);
    link->config = *config;
    tt_wire_open(&link->reader, config->buffer, config->buffer_words * 4u);
    return TT_OK;
}

bool tt_link_is_busy(const tt_link *link) { return link->half_state || link->put_bytes != 0u; }

/* Send what stands behind the header in the buffer. */
static void send(tt_link *link, uint8_t kind, uint16_t session, uint32_t sequence, uint32_t bytes)
{
    const header head = {TT_LINK_VERSION, kind, session, sequence};
    memcpy(body_of(link), &head, sizeof head);
    tt_wire_send(body_of(link), (uint32_t)sizeof head + bytes, link->config.write,
                 link->config.context);
}

static void refuse(tt_link *link, uint16_t session, uint32_t sequence, tt_link_reason reason)
{
    body_of(link)[sizeof(header)] = (uint8_t)reason;
    send(link, (uint8_t)TT_LINK_REFUSAL, session, sequence, 1u);
}

static void keep(tt_link *link, uint32_t sequence, uint8_t kind, uint32_t bytes)
{
    tt_link_kept *kept = &link->kept[sequence % TT_LINK_WINDOW];
    kept->sequence = 0;
    if (bytes <= TT_LINK_KEPT_BYTES) {
        kept->sequence = sequence;
        kept->kind = kind;
        kept->bytes = (uint8_t)bytes;
        memcpy(kept->payload, body_of(link) + sizeof(header), bytes);
    }
}

/* Do a request and answer it. */
static void answer(tt_link *link, const header *head, uint32_t bytes, bool fresh)
{
    const uint8_t kind = (uint8_t)(head->kind | (uint8_t)TT_LINK_ANSWER);
    const uint32_t count = tt_link_do(link, head->kind, body_of(link) + sizeof(header), bytes);
    if (fresh) {
        keep(link, head->sequence, kind, count);
        link->expected++;
    }
    send(link, kind, head->session, head->sequence, count);
}

/* A request that was done before: give its answer again. */
static void repeat(tt_link *link, const header *head, uint32_t bytes)
{
    const tt_link_kept *kept = &link->kept[head->sequence % TT_LINK_WINDOW];
    link->repeated++;
    if (kept->sequence == head->sequence && head->sequence != 0u) {
        memcpy(body_of(link) + sizeof(header), kept->payload, kept->bytes);
        send(link, kept->kind, head->session, head->sequence, kept->bytes);
    } else if (tt_link_is_pure(link, head->kind, bytes) &&
               link->expected - head->sequence <= TT_LINK_WINDOW) {
        answer(link, head, bytes, false);
    } else {
        refuse(link, head->session, head->sequence, TT_LINK_FORGOTTEN);
    }
}

static void greet(tt_link *link, const header *head, uint32_t bytes)
{
    if (link->expected == 0u || head->session != link->session) {
        link->session = head->session;
        link->expected = 1u;
        link->refused = 0u;
        link->put_bytes = 0u;
        memset(link->kept, 0, sizeof link->kept);
    }
    answer(link, head, bytes, false);
}

static void take_frame(tt_link *link)
{
    if (link->reader.count < sizeof(header)) {
        link->damaged++;
        return;
    }
    header head;
    memcpy(&head, body_of(link), sizeof head);
    const uint32_t bytes = link->reader.count - (uint32_t)sizeof head;
    link->frames++;
    if (head.version != TT_LINK_VERSION) {
        refuse(link, head.session, head.sequence, TT_LINK_PROTOCOL);
    } else if (head.kind == (uint8_t)TT_LINK_HELLO) {
        greet(link, &head, bytes);
    } else if (link->expected == 0u || head.session != link->session) {
        refuse(link, head.session, head.sequence, TT_LINK_SESSION);
    } else if (head.sequence == link->expected) {
        answer(link, &head, bytes, true);
    } else if ((int32_t)(head.sequence - link->expected) < 0) {
        repeat(link, &head, bytes);
    } else if (link->refused != link->expected) {
        /* One report a gap: the frames behind it are on their way, and all say the same. */
        link->refused = link->expected;
        refuse(link, link->session, link->expected, TT_LINK_GAP);
    }
}

void tt_link_receive(tt_link *link, const uint8_t *bytes, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const tt_wire_event event = tt_wire_take(&link->reader, bytes[i]);
        if (event == TT_WIRE_FRAME) {
            take_frame(link);
        } else if (event == TT_WIRE_DAMAGED) {
            link->damaged++;
            if (link->expected != 0u) {
                link->refused = link->expected;
                refuse(link, link->session, link->expected, TT_LINK_DAMAGED);
            }
        }
    }
}
