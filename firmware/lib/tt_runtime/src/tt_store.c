#include "tt_store.h"

#include <string.h>

#include "tt_crc32.h"

#define MAGIC 0x32535454u      /* "TTS2" */
#define HEAD_MAGIC 0x31455454u /* "TTE1" */
#define SLOTS 2u

typedef struct record {
    uint32_t magic, sequence, fingerprint;
    uint32_t state_bytes, state_crc;
    uint32_t step_index, seed;
    uint32_t crc; /* of all the above */
} record;

typedef struct head {
    uint32_t magic, wear, crc;
} head;

_Static_assert(sizeof(head) == TT_STORE_HEAD_BYTES, "layout of the head");
_Static_assert(sizeof(record) == TT_STORE_RECORD_BYTES, "layout of the record");

typedef struct slot {
    record record;
    uint32_t wear; /* erase cycles; 0 where the head is not whole */
    bool known;    /* the record is whole */
    bool good;     /* and so is the state */
} slot;

/* The unit in which data moves: a multiple of every unit of programming that is possible. */
typedef union chunk {
    uint64_t alignment;
    uint8_t bytes[TT_STORAGE_PROGRAM_MAX];
} chunk;

static uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

static uint32_t slot_bytes(const tt_storage *storage)
{
    return storage->bytes / SLOTS / storage->erase_bytes * storage->erase_bytes;
}

static uint32_t record_offset(const tt_storage *storage, uint32_t index)
{
    return index * slot_bytes(storage) +
           TT_STORE_ROUND_UP(TT_STORE_HEAD_BYTES, storage->program_bytes);
}

static uint32_t state_offset(const tt_storage *storage, uint32_t index)
{
    return record_offset(storage, index) +
           TT_STORE_ROUND_UP(TT_STORE_RECORD_BYTES, storage->program_bytes);
}

static bool fits(const tt_storage *storage, uint32_t state_bytes)
{
    const uint32_t before = state_offset(storage, 0);
    const uint32_t slot = slot_bytes(storage);
    return before <= slot &&
           state_bytes <= (slot - before) / storage->program_bytes * storage->program_bytes;
}

static bool is_usable(const tt_storage *storage)
{
    return storage->read != NULL && storage->erase != NULL && storage->program != NULL &&
           storage->program_bytes != 0u && storage->program_bytes <= TT_STORAGE_PROGRAM_MAX &&
           storage->erase_bytes != 0u && storage->erase_bytes % storage->program_bytes == 0u &&
           slot_bytes(storage) != 0u;
}

/* Read a state, to `state` unless that is NULL; returns 0 where the storage could be read. */
static int read_state(const tt_storage *storage, uint32_t index, uint8_t *state, uint32_t bytes,
                      uint32_t *crc)
{
    const uint32_t begin = state_offset(storage, index);
    chunk part;
    *crc = 0u;
    for (uint32_t at = 0; at < bytes; at += (uint32_t)sizeof part) {
        const uint32_t count = smaller((uint32_t)sizeof part, bytes - at);
        if (storage->read(storage, begin + at, part.bytes, count) != 0) {
            return -1;
        }
        *crc = tt_crc32(*crc, part.bytes, count);
        if (state != NULL) {
            memcpy(state + at, part.bytes, count);
        }
    }
    return 0;
}

static int examine(const tt_storage *storage, uint32_t index, slot *found)
{
    record *const r = &found->record;
    head h;
    uint32_t crc = 0u;
    found->known = found->good = false;
    found->wear = 0u;
    if (storage->read(storage, index * slot_bytes(storage), &h, (uint32_t)sizeof h) != 0 ||
        storage->read(storage, record_offset(storage, index), r, (uint32_t)sizeof *r) != 0) {
        return -1;
    }
    if (h.magic == HEAD_MAGIC && h.crc == tt_crc32(0u, &h, sizeof h - sizeof h.crc)) {
        found->wear = h.wear;
    }
    found->known = r->magic == MAGIC && r->crc == tt_crc32(0u, r, sizeof *r - sizeof r->crc) &&
                   fits(storage, r->state_bytes);
    if (!found->known) {
        return 0;
    }
    if (read_state(storage, index, NULL, r->state_bytes, &crc) != 0) {
        return -1;
    }
    found->good = crc == r->state_crc;
    return 0;
}

/* Sequence numbers may wrap around. */
static bool is_newer(uint32_t a, uint32_t b) { return (int32_t)(a - b) > 0; }

static bool belongs(const record *r, const tt_program *program)
{
    return r->fingerprint == program->fingerprint && r->state_bytes == program->state_bytes;
}

/* The slot to load: the newest whole one, those of the program before others; -1 if none is. */
static int choose(const slot *slots, const tt_program *program)
{
    int best = -1;
    for (int i = 0; i < (int)SLOTS; i++) {
        if (!slots[i].good) {
            continue;
        }
        const bool own = belongs(&slots[i].record, program);
        const bool best_own = best >= 0 && belongs(&slots[best].record, program);
        const bool newer =
            best < 0 || is_newer(slots[i].record.sequence, slots[best].record.sequence);
        if (own == best_own ? newer : own || best < 0) {
            best = i;
        }
    }
    return best;
}

/* Erase cycles of a slot so far. Slot 0 comes first and they take turns, so a count that was cut
   off with its erase follows from the other one's. */
static uint32_t wear_of(const slot *slots, uint32_t index)
{
    const uint32_t own = slots[index].wear, other = slots[1u - index].wear;
    return own != 0u ? own : other != 0u ? other - index : 0u;
}

static int erase_slot(const tt_storage *storage, uint32_t index, uint32_t bytes)
{
    const uint32_t begin = index * slot_bytes(storage);
    for (uint32_t at = 0; at < bytes; at += storage->erase_bytes) {
        if (storage->erase(storage, begin + at) != 0) {
            return -1;
        }
    }
    return 0;
}

/* Program any number of bytes: whole units, the rest of the last one as after an erase. */
static int program_bytes(const tt_storage *storage, uint32_t offset, const void *data,
                         uint32_t bytes)
{
    const uint32_t unit = storage->program_bytes;
    const uint32_t most = (uint32_t)sizeof(chunk) / unit * unit;
    chunk part;
    for (uint32_t at = 0; at < bytes; at += most) {
        const uint32_t count = smaller(most, bytes - at);
        const uint32_t padded = TT_STORE_ROUND_UP(count, unit);
        memset(part.bytes, 0xff, sizeof part.bytes);
        memcpy(part.bytes, (const uint8_t *)data + at, count);
        if (storage->program(storage, offset + at, part.bytes, padded) != 0) {
            return -1;
        }
    }
    return 0;
}

static int write_slot(const tt_storage *storage, uint32_t index, uint32_t wear,
                      const uint8_t *state, const record *r)
{
    const uint32_t begin = index * slot_bytes(storage), state_at = state_offset(storage, index);
    head h = {HEAD_MAGIC, wear, 0u};
    h.crc = tt_crc32(0u, &h, sizeof h - sizeof h.crc);
    if (erase_slot(storage, index, state_at - begin + r->state_bytes) != 0 ||
        program_bytes(storage, begin, &h, (uint32_t)sizeof h) != 0 ||
        program_bytes(storage, state_at, state, r->state_bytes) != 0) {
        return -1;
    }
    return program_bytes(storage, record_offset(storage, index), r, (uint32_t)sizeof *r);
}

tt_status tt_save(const tt_model *model, const tt_storage *storage)
{
    if (model == NULL || storage == NULL) {
        return TT_ERROR_ARGUMENT;
    }
    const tt_program *program = model->program;
    slot slots[SLOTS];
    if (!is_usable(storage) || !fits(storage, program->state_bytes) ||
        examine(storage, 0, &slots[0]) != 0 || examine(storage, 1, &slots[1]) != 0) {
        return TT_ERROR_STORAGE;
    }
    uint32_t last = 0u;
    for (uint32_t i = 0; i < SLOTS; i++) {
        if (slots[i].known && (last == 0u || is_newer(slots[i].record.sequence, last))) {
            last = slots[i].record.sequence;
        }
    }
    const uint32_t index = choose(slots, program) == 0 ? 1u : 0u;
    record r = {
        .magic = MAGIC,
        .sequence = last + 1u == 0u ? 1u : last + 1u,
        .fingerprint = program->fingerprint,
        .state_bytes = program->state_bytes,
        .state_crc = tt_crc32(0u, model->state, program->state_bytes),
        .step_index = model->step_index,
        .seed = model->seed,
    };
    r.crc = tt_crc32(0u, &r, sizeof r - sizeof r.crc);
    slot written;
    if (write_slot(storage, index, wear_of(slots, index) + 1u, model->state, &r) != 0 ||
        examine(storage, index, &written) != 0 || !written.good || written.record.crc != r.crc) {
        return TT_ERROR_STORAGE;
    }
    return TT_OK;
}

/* The slot to load, or an error. */
static tt_status find(const tt_storage *storage, const tt_program *program, slot *slots, int *best)
{
    if (!is_usable(storage)) {
        return TT_ERROR_STORAGE;
    }
    int failures = 0;
    for (uint32_t i = 0; i < SLOTS; i++) {
        failures += examine(storage, i, &slots[i]) != 0 ? 1 : 0;
    }
    *best = choose(slots, program);
    if (*best < 0) {
        return failures != 0 ? TT_ERROR_STORAGE : TT_ERROR_NO_STATE;
    }
    return belongs(&slots[*best].record, program) ? TT_OK : TT_ERROR_OTHER_MODEL;
}

tt_status tt_load(tt_model *model, const tt_storage *storage)
{
    if (model == NULL || storage == NULL) {
        return TT_ERROR_ARGUMENT;
    }
    slot slots[SLOTS];
    int best = -1;
    const tt_status status = find(storage, model->program, slots, &best);
    if (status != TT_OK) {
        return status;
    }
    const record *const r = &slots[best].record;
    uint32_t crc = 0u;
    if (read_state(storage, (uint32_t)best, model->state, r->state_bytes, &crc) != 0 ||
        crc != r->state_crc) {
        tt_reset(model);
        return TT_ERROR_STORAGE;
    }
    memset(model->buffers, 0, model->program->buffer_bytes);
    model->samples = 0;
    model->step_index = r->step_index;
    model->seed = r->seed;
    return TT_OK;
}

tt_status tt_store_look(const tt_storage *storage, const tt_program *program, tt_store_info *info)
{
    if (storage == NULL || program == NULL || info == NULL) {
        return TT_ERROR_ARGUMENT;
    }
    slot slots[SLOTS];
    int best = -1;
    memset(slots, 0, sizeof slots); /* an error may come before they are looked at */
    *info = (tt_store_info){0};
    const tt_status status = find(storage, program, slots, &best);
    for (uint32_t i = 0; i < SLOTS; i++) {
        info->wear = slots[i].wear > info->wear ? slots[i].wear : info->wear;
    }
    if (status == TT_OK) {
        info->sequence = slots[best].record.sequence;
        info->step_index = slots[best].record.step_index;
    }
    return status;
}
