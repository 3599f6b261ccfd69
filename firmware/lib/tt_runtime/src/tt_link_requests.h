/* What the requests of a link do. Not for applications. */
#ifndef TT_LINK_REQUESTS_H
#define TT_LINK_REQUESTS_H

#include "tt_link.h"

/* Do a request; its payload gives way to the answer's. Returns the answer's bytes. */
uint32_t tt_link_do(tt_link *link, uint8_t kind, uint8_t *payload, uint32_t bytes);

/* The same for requests about the state as a whole; others are refused. */
uint32_t tt_link_do_state(tt_link *link, uint8_t kind, uint8_t *payload, uint32_t bytes);

/* Put an answer, or a status alone, into the payload; return its bytes. */
uint32_t tt_link_give(uint8_t *payload, const void *answer, size_t bytes);
uint32_t tt_link_give_status(uint8_t *payload, tt_status status);

/* Whether a request can be done again, for its answer's sake, with no effect. */
bool tt_link_is_pure(const tt_link *link, uint8_t kind, uint32_t bytes);

/* Longest payload. */
uint32_t tt_link_payload_bytes(const tt_link *link);

#endif
