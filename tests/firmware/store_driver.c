/*
 * The state store against a simulated NOR flash whose power is cut at will.
 *
 * A cut can fall before, into or after every unit of work: the programming of one unit, the erasing
 * of one block. What a cut falls into is left half done at random. Each function returns 0, or the
 * number of the first check that failed, and a detail in `detail`.
 */
#include <string.h>

#include "tt_store.h"

#define FLASH_BYTES 8192u
#define STATE_MAX 1500u

enum {
    CHECK_SETUP = 1,     /* saving without a cut failed */
    CHECK_LOST = 2,      /* the last committed state was not loaded */
    CHECK_HALF = 3,      /* what was loaded was never saved */
    CHECK_REFUSED = 4,   /* a state of another model was not refused */
    CHECK_UNPROGRAM = 5, /* a unit was programmed twice, or work left the storage */
    CHECK_CHANGED = 6,   /* the model changed though loading failed */
    CHECK_WEAR = 7,      /* wear is not counted */
};

typedef struct flash {
    uint8_t bytes[FLASH_BYTES];
    uint8_t programmed[FLASH_BYTES]; /* by byte: since the last erase */
    uint32_t erases[2];              /* of the first block of each slot */
    int64_t budget;                  /* units of work until the power is cut; < 0: never */
    uint64_t work;                   /* units done */
    uint32_t random;
    int dead;
    int violation;
} flash;

int32_t store_all_cuts(uint32_t state_bytes, uint32_t erase_bytes, uint32_t program_bytes,
                       uint64_t *detail);
int32_t store_schedules(uint32_t seed, uint32_t count, uint64_t *detail);

static uint32_t next(uint32_t *random)
{
    *random ^= *random << 13;
    *random ^= *random >> 17;
    *random ^= *random << 5;
    return *random;
}

/* Whether the power holds for one more unit of work. */
static int spend(flash *f)
{
    if (f->dead) {
        return 0;
    }
    if (f->budget == 0) {
        f->dead = 1;
        return 0;
    }
    f->budget -= f->budget > 0 ? 1 : 0;
    f->work++;
    return 1;
}

static int read_flash(const tt_storage *s, uint32_t offset, void *buffer, uint32_t bytes)
{
    flash *f = s->context;
    if (offset + bytes > s->bytes) {
        f->violation = 1;
        return -1;
    }
    memcpy(buffer, f->bytes + offset, bytes);
    return f->dead ? -1 : 0;
}

static int erase_flash(const tt_storage *s, uint32_t offset)
{
    flash *f = s->context;
    if (offset % s->erase_bytes != 0u || offset + s->erase_bytes > s->bytes) {
        f->violation = 1;
        return -1;
    }
    const int was_dead = f->dead;
    const int whole = spend(f);
    if (was_dead) {
        return -1;
    }
    if (whole && offset % (s->bytes / 2u) == 0u) {
        f->erases[offset / (s->bytes / 2u)]++;
    }
    const uint32_t kind = next(&f->random) % 3u; /* of a cut: nothing, some bytes, some bits */
    for (uint32_t i = offset; i < offset + s->erase_bytes; i++) {
        const uint32_t r = next(&f->random);
        if (whole || (kind == 1u && (r & 1u) != 0u)) {
            f->bytes[i] = 0xff;
            f->programmed[i] = 0;
        } else if (kind == 2u) {
            f->bytes[i] = (uint8_t)(f->bytes[i] | (r >> 8));
        }
    }
    return whole ? 0 : -1;
}

static int program_flash(const tt_storage *s, uint32_t offset, const void *data, uint32_t bytes)
{
    flash *f = s->context;
    if (offset % s->program_bytes != 0u || bytes % s->program_bytes != 0u ||
        offset + bytes > s->bytes) {
        f->violation = 1;
        return -1;
    }
    const uint8_t *from = data;
    for (uint32_t unit = 0; unit < bytes; unit += s->program_bytes) {
        if (f->dead) {
            return -1;
        }
        const int whole = spend(f);
        const uint32_t mask = whole ? 0u : next(&f->random);
        for (uint32_t i = unit; i < unit + s->program_bytes; i++) {
            const uint32_t keep = whole ? 0u : (mask & 1u) != 0u ? next(&f->random) : 0xffu;
            f->violation |= f->programmed[offset + i];
            f->bytes[offset + i] =
                (uint8_t)(f->bytes[offset + i] & (uint8_t)(from[i] | (uint8_t)keep));
            f->programmed[offset + i] = 1;
        }
        if (!whole) {
            return -1;
        }
    }
    return 0;
}

typedef struct bench {
    flash flash;
    tt_storage storage;
    tt_program program;
    tt_model model;
    uint32_t memory[STATE_MAX / 4u + 2u];
} bench;

static uint8_t content(uint32_t id, uint32_t i)
{
    return (uint8_t)((id * 2654435761u + i * 40503u) >> 13);
}

static void fill(bench *b, uint32_t id)
{
    for (uint32_t i = 0; i < b->program.state_bytes; i++) {
        b->model.state[i] = content(id, i);
    }
    b->model.step_index = id;
    b->model.seed = ~id;
}

static int holds(const bench *b, uint32_t id)
{
    for (uint32_t i = 0; i < b->program.state_bytes; i++) {
        if (b->model.state[i] != content(id, i)) {
            return 0;
        }
    }
    return b->model.step_index == id && b->model.seed == ~id;
}

static int open_bench(bench *b, uint32_t state_bytes, uint32_t erase_bytes, uint32_t program_bytes)
{
    memset(b, 0, sizeof *b);
    memset(b->flash.bytes, 0xff, sizeof b->flash.bytes);
    b->flash.budget = -1;
    b->flash.random = 1u + state_bytes;
    const uint32_t bytes = TT_STORE_BYTES(state_bytes, erase_bytes, program_bytes);
    b->storage = (tt_storage){read_flash, erase_flash, program_flash, &b->flash,
                              bytes,      erase_bytes, program_bytes};
    b->program.abi = TT_RUNTIME_ABI;
    b->program.fingerprint = 0xfeed0000u + state_bytes;
    b->program.state_bytes = state_bytes;
    return bytes <= FLASH_BYTES &&
           tt_init(&b->model, &b->program, b->memory, sizeof b->memory) == TT_OK;
}

static void power_on(bench *b, int64_t budget)
{
    b->flash.dead = 0;
    b->flash.budget = budget;
}

/* Loads; returns a check's number. `last` was committed; `next_id` may have been, 0: no other. */
static int32_t expect(bench *b, uint32_t last, uint32_t next_id)
{
    fill(b, 0xdeadu);
    const tt_status status = tt_load(&b->model, &b->storage);
    if (b->flash.violation) {
        return CHECK_UNPROGRAM;
    }
    if (status != TT_OK) {
        if (!holds(b, 0xdeadu)) {
            return CHECK_CHANGED;
        }
        return last != 0u ? CHECK_LOST : 0;
    }
    if (last != 0u && holds(b, last)) {
        return 0;
    }
    return next_id != 0u && holds(b, next_id) ? 0 : CHECK_HALF;
}

/* Whether a slot's wear is that of the flash after a save that was cut after `done` units of work
   and a whole one. An erase is not counted where the cut came before the head that counts it. */
static int counts_wear(const bench *b, uint32_t slot, uint64_t done)
{
    tt_store_info info;
    const uint32_t unit = b->storage.program_bytes;
    const uint32_t used = TT_STORE_ROUND_UP(TT_STORE_HEAD_BYTES, unit) +
                          TT_STORE_ROUND_UP(TT_STORE_RECORD_BYTES, unit) + b->program.state_bytes;
    const uint64_t blocks = (used + b->storage.erase_bytes - 1u) / b->storage.erase_bytes;
    const uint64_t heads = (TT_STORE_HEAD_BYTES + unit - 1u) / unit;
    const uint32_t lost = done >= 1u && done < blocks + heads ? 1u : 0u;
    return tt_store_look(&b->storage, &b->program, &info) == TT_OK &&
           info.wear == b->flash.erases[slot] - lost;
}

/* Every cut point of a save, after none to three saves, several ways of being half done. */
int32_t store_all_cuts(uint32_t state_bytes, uint32_t erase_bytes, uint32_t program_bytes,
                       uint64_t *detail)
{
    static bench start, b;
    if (!open_bench(&start, state_bytes, erase_bytes, program_bytes)) {
        return CHECK_SETUP;
    }
    for (uint32_t saved = 0; saved < 4u; saved++) {
        b = start;
        b.storage.context = &b.flash;
        b.model.state = (uint8_t *)b.memory;
        b.flash.work = 0;
        fill(&b, saved + 1u);
        if (tt_save(&b.model, &b.storage) != TT_OK || expect(&b, saved + 1u, 0u) != 0) {
            return CHECK_SETUP;
        }
        const uint64_t total = b.flash.work;
        const bench after = b;
        for (uint64_t at = 0; at < total * 8u; at++) {
            *detail = at + (uint64_t)saved * 1000000u;
            b = start;
            b.storage.context = &b.flash;
            b.model.state = (uint8_t *)b.memory;
            b.flash.random = 77u + (uint32_t)at;
            power_on(&b, (int64_t)(at % total));
            fill(&b, saved + 1u);
            if (tt_save(&b.model, &b.storage) == TT_OK) {
                return CHECK_SETUP;
            }
            power_on(&b, -1);
            const int32_t check = expect(&b, saved, saved + 1u);
            if (check != 0) {
                return check;
            }
            fill(&b, 500u); /* and the store goes on working */
            if (tt_save(&b.model, &b.storage) != TT_OK || expect(&b, 500u, 0u) != 0) {
                return CHECK_LOST;
            }
            if (!counts_wear(&b, saved & 1u, at % total)) {
                return CHECK_WEAR;
            }
        }
        start = after;
        start.storage.context = &start.flash;
        start.model.state = (uint8_t *)start.memory;
        tt_store_info info;
        if (tt_store_look(&start.storage, &start.program, &info) != TT_OK ||
            info.sequence != saved + 1u || info.step_index != saved + 1u ||
            info.wear != saved / 2u + 1u) {
            return CHECK_WEAR;
        }
    }
    start.program.fingerprint ^= 1u;
    fill(&start, 0xdeadu);
    const tt_status status = tt_load(&start.model, &start.storage);
    return status == TT_ERROR_OTHER_MODEL && holds(&start, 0xdeadu) ? 0 : CHECK_REFUSED;
}

/* The slot that holds `id`, found by its content; -1 if none does. */
static int32_t slot_of(const bench *b, uint32_t id)
{
    const uint32_t slot = b->storage.bytes / 2u;
    const uint32_t before = TT_STORE_ROUND_UP(TT_STORE_HEAD_BYTES, b->storage.program_bytes) +
                            TT_STORE_ROUND_UP(TT_STORE_RECORD_BYTES, b->storage.program_bytes);
    for (uint32_t s = 0; s < 2u; s++) {
        uint32_t i = 0;
        while (i < b->program.state_bytes &&
               b->flash.bytes[s * slot + before + i] == content(id, i)) {
            i++;
        }
        if (i == b->program.state_bytes) {
            return (int32_t)s;
        }
    }
    return -1;
}

static void rot(bench *b, uint32_t slot, uint32_t *random)
{
    const uint32_t half = b->storage.bytes / 2u;
    const uint32_t flips = 1u + next(random) % 40u;
    for (uint32_t i = 0; i < flips; i++) {
        const uint32_t at = slot * half + next(random) % half;
        b->flash.bytes[at] = (uint8_t)(b->flash.bytes[at] ^ (1u << (next(random) & 7u)));
    }
}

static int32_t run_schedule(bench *b, uint32_t *random)
{
    uint32_t last = 0, id = 0;
    for (uint32_t turn = 0; turn < 12u; turn++) {
        const uint32_t kind = next(random) % 4u;
        if (kind == 0u && last != 0u) { /* the other slot's bits rot: pages torn or worn out */
            const int32_t used = slot_of(b, last);
            if (used < 0) {
                return CHECK_LOST;
            }
            rot(b, (uint32_t)(1 - used), random);
            const int32_t check = expect(b, last, 0u);
            if (check != 0) {
                return check;
            }
            continue;
        }
        fill(b, ++id);
        power_on(b, kind == 1u ? -1 : (int64_t)(next(random) % 700u));
        const tt_status status = tt_save(&b->model, &b->storage);
        power_on(b, -1);
        const int32_t check = expect(b, status == TT_OK ? id : last, status == TT_OK ? 0u : id);
        if (check != 0) {
            return check;
        }
        last = status == TT_OK || b->model.step_index == id ? id : last;
    }
    if (last != 0u) { /* even the good slot rots: an older state or none, never a wrong one */
        const int32_t used = slot_of(b, last);
        rot(b, used < 0 ? 0u : (uint32_t)used, random);
        fill(b, 0xdeadu);
        if (tt_load(&b->model, &b->storage) == TT_OK) {
            return b->model.step_index <= id && holds(b, b->model.step_index) ? 0 : CHECK_HALF;
        }
        return holds(b, 0xdeadu) ? 0 : CHECK_CHANGED;
    }
    return 0;
}

int32_t store_schedules(uint32_t seed, uint32_t count, uint64_t *detail)
{
    static const uint32_t units[] = {1u, 4u, 8u, 32u, 256u};
    static bench b;
    uint32_t random = seed | 1u;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t unit = units[next(&random) % 5u];
        const uint32_t block = unit * (1u + next(&random) % 4u) * (unit < 32u ? 16u : 1u);
        const uint32_t state = 4u + next(&random) % (STATE_MAX - 4u);
        *detail = i;
        if (!open_bench(&b, state, block, unit)) {
            return CHECK_SETUP;
        }
        b.flash.random = next(&random);
        const int32_t check = run_schedule(&b, &random);
        if (check != 0) {
            return check;
        }
    }
    return 0;
}
