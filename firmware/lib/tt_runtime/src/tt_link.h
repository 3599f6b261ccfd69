/*
 * tt_link.h: a model at the end of a serial line. docs/link.md has the protocol.
 *
 *     static uint32_t buffer[TT_LINK_BUFFER_WORDS(1024)];
 *     static tt_link link;
 *
 *     tt_link_open(&link, &config);
 *     for (;;) {
 *         count = ... bytes that have arrived, any number of them ...
 *         tt_link_receive(&link, bytes, count);   // does what they ask for, and answers
 *     }
 *
 * It never waits for bytes, and a frame that is not whole changes nothing but a counter.
 */
#ifndef TT_LINK_H
#define TT_LINK_H

#include "tt_runtime.h"
#include "tt_storage.h"
#include "tt_wire.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TT_LINK_VERSION 1u
#define TT_LINK_HEADER_BYTES 8u
#define TT_LINK_WINDOW 8u        /* requests that may be unanswered */
#define TT_LINK_KEPT_BYTES 24u   /* answers up to this size are kept, to be given again */
#define TT_LINK_PAYLOAD_MIN 192u /* so that the answer to a hello fits */

/* Words of a buffer for payloads of up to `payload` bytes. */
#define TT_LINK_BUFFER_WORDS(payload)                                                              \
    (((payload) + TT_LINK_HEADER_BYTES + TT_WIRE_CRC_BYTES + 3u) / 4u)

typedef enum tt_link_kind {
    TT_LINK_HELLO = 1,
    TT_LINK_INFER = 2,
    TT_LINK_TRAIN = 3,
    TT_LINK_EVALUATE = 4,
    TT_LINK_SAVE = 5,
    TT_LINK_LOAD = 6,
    TT_LINK_READ_STATE = 7,
    TT_LINK_WRITE_STATE = 8,
    TT_LINK_COMMIT_STATE = 9,
    TT_LINK_STATISTICS = 10,
    TT_LINK_RESET = 11,
    TT_LINK_CONFIGURE = 12,
    TT_LINK_PUT_INPUT = 13,
    TT_LINK_ANSWER = 0x80,  /* added to the request's kind */
    TT_LINK_REFUSAL = 0xff, /* the frame was not taken; payload: a tt_link_reason */
} tt_link_kind;

typedef enum tt_link_reason {
    TT_LINK_DAMAGED = 1,   /* send again from the sequence number of this refusal on */
    TT_LINK_GAP = 2,       /* a frame before this one is missing; as above */
    TT_LINK_SESSION = 3,   /* no such session: the device has restarted, or serves somebody else */
    TT_LINK_PROTOCOL = 4,  /* another version of this protocol */
    TT_LINK_FORGOTTEN = 5, /* done long ago; the answer is not kept */
} tt_link_reason;

/* What the other end wants to know of the model beyond its program. */
typedef struct tt_link_about {
    const char *scheme; /* what is trained, in words */
    float input_scale;
    int32_t input_zero_point;
    float output_scale; /* 0 where the output is scores */
    int32_t output_zero_point;
} tt_link_about;

typedef struct tt_link_config {
    tt_model *model;
    const tt_link_about *about;
    const tt_storage *storage; /* NULL: nothing can be saved */
    tt_wire_write write;       /* sends bytes; returns when they are taken */
    uint32_t (*ticks)(void);   /* counts up, and wraps around; NULL: time is not measured */
    uint32_t ticks_hz;
    void *context; /* of `write` */
    uint32_t *buffer;
    uint32_t buffer_words;  /* TT_LINK_BUFFER_WORDS(at least TT_LINK_PAYLOAD_MIN) */
    uint32_t receive_bytes; /* that the line keeps while a request is worked on */
} tt_link_config;

/* An answer that can be given again. */
typedef struct tt_link_kept {
    uint32_t sequence; /* 0: none */
    uint8_t kind, bytes;
    uint8_t payload[TT_LINK_KEPT_BYTES];
} tt_link_kept;

/* One end of a link; the fields are private. */
typedef struct tt_link {
    tt_link_config config;
    tt_wire_reader reader;
    tt_link_kept kept[TT_LINK_WINDOW];
    uint32_t expected; /* sequence number of the next request; 0: no session */
    uint32_t refused;  /* the last one whose absence was reported */
    uint32_t put_bytes, written_bytes;
    uint32_t trained, frames, damaged, repeated, ticks;
    uint16_t session;
    bool half_state;
} tt_link;

/* Errors: TT_ERROR_ARGUMENT, TT_ERROR_MEMORY (the buffer is too small). */
tt_status tt_link_open(tt_link *link, const tt_link_config *config) TT_MUST_USE;

/* Take bytes from the line; work and answers happen within the call. */
void tt_link_receive(tt_link *link, const uint8_t *bytes, uint32_t count);

/*
 * Whether the model is not free for the application's own calls: an input or a state is on its way
 * in pieces. Between requests the application may otherwise train and infer as it likes.
 */
bool tt_link_is_busy(const tt_link *link);

#ifdef __cplusplus
}
#endif

#endif
