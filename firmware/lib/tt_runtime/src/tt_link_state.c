/* Requests about the state as a whole: save and load, read and write, set up and count. */
#include "tt_link_requests.h"

#include <string.h>

#include "tt_crc32.h"
#include "tt_store.h"

typedef struct save_answer {
    int32_t status;
    uint32_t sequence, wear, step_index;
} save_answer;

typedef struct statistics_answer {
    int32_t status;
    uint32_t step_index, trained, frames, damaged, repeated;
    uint32_t ticks, ticks_hz, saved_sequence, saved_step_index, wear;
} statistics_answer;

_Static_assert(sizeof(save_answer) <= TT_LINK_KEPT_BYTES, "answers of saving are kept");

static uint32_t save(tt_link *link, uint8_t *payload, bool load)
{
    const tt_storage *storage = link->config.storage;
    tt_model *model = link->config.model;
    tt_store_info info = {0};
    tt_status status = storage != NULL ? TT_OK : TT_ERROR_STORAGE;
    if (status == TT_OK && load) {
        status = tt_load(model, storage);
        link->half_state = link->half_state && status != TT_OK;
    } else if (status == TT_OK) {
        status = link->half_state ? TT_ERROR_HALF_STATE : tt_save(model, storage);
    }
    if (status == TT_OK) {
        status = tt_store_look(storage, model->program, &info);
    }
    const save_answer answer = {(int32_t)status, info.sequence, info.wear, model->step_index};
    return tt_link_give(payload, &answer, sizeof answer);
}

static uint32_t read_state(const tt_link *link, uint8_t *payload, uint32_t bytes)
{
    const tt_model *model = link->config.model;
    const uint32_t all = model->program->state_bytes;
    uint32_t range[2]; /* offset, count */
    if (bytes != sizeof range) {
        return tt_link_give_status(payload, TT_ERROR_REQUEST);
    }
    if (link->half_state) {
        return tt_link_give_status(payload, TT_ERROR_HALF_STATE);
    }
    memcpy(range, payload, sizeof range);
    if (range[0] > all || range[1] > all - range[0] ||
        range[1] > tt_link_payload_bytes(link) - (uint32_t)sizeof(int32_t)) {
        return tt_link_give_status(payload, TT_ERROR_ARGUMENT);
    }
    memcpy(payload + sizeof(int32_t), model->state + range[0], range[1]);
    return tt_link_give_status(payload, TT_OK) + range[1];
}

/* From the first piece to the commit the model is nobody's: half of it is another's. */
static tt_status write_state(tt_link *link, const uint8_t *payload, uint32_t bytes)
{
    tt_model *model = link->config.model;
    uint32_t offset;
    if (bytes < sizeof offset) {
        return TT_ERROR_REQUEST;
    }
    memcpy(&offset, payload, sizeof offset);
    const uint32_t count = bytes - (uint32_t)sizeof offset;
    const bool follows = offset == 0u || (link->half_state && offset == link->written_bytes);
    if (!follows || count > model->program->state_bytes - offset) {
        return TT_ERROR_ARGUMENT;
    }
    link->half_state = true;
    memcpy(model->state + offset, payload + sizeof offset, count);
    link->written_bytes = offset + count;
    return TT_OK;
}

static tt_status commit_state(tt_link *link, const uint8_t *payload, uint32_t bytes)
{
    tt_model *model = link->config.model;
    const uint32_t all = model->program->state_bytes;
    uint32_t fields[3]; /* CRC-32 of the state, step index, seed */
    if (bytes != sizeof fields) {
        return TT_ERROR_REQUEST;
    }
    memcpy(fields, payload, sizeof fields);
    if (!link->half_state || link->written_bytes != all ||
        tt_crc32(0u, model->state, all) != fields[0]) {
        return TT_ERROR_HALF_STATE;
    }
    link->half_state = false;
    tt_set_step_index(model, fields[1]);
    tt_set_seed(model, fields[2]);
    return tt_set_state(model, model->state, all);
}

static tt_status configure(tt_link *link, const uint8_t *payload, uint32_t bytes)
{
    tt_model *model = link->config.model;
    uint32_t fields[3]; /* seed, step index, batch (0: leave it) */
    if (bytes != sizeof fields) {
        return TT_ERROR_REQUEST;
    }
    memcpy(fields, payload, sizeof fields);
    if (fields[2] > TT_BATCH_MAX) {
        return TT_ERROR_ARGUMENT;
    }
    const tt_status status = fields[2] == 0u ? TT_OK : tt_set_batch(model, (uint16_t)fields[2]);
    if (status == TT_OK) {
        tt_set_seed(model, fields[0]);
        tt_set_step_index(model, fields[1]);
    }
    return status;
}

static tt_status reset(tt_link *link)
{
    tt_reset(link->config.model);
    link->half_state = false;
    link->put_bytes = 0u;
    return TT_OK;
}

static uint32_t statistics(const tt_link *link, uint8_t *payload)
{
    const tt_link_config *config = &link->config;
    tt_store_info info = {0};
    if (config->storage != NULL) {
        const tt_status status = tt_store_look(config->storage, config->model->program, &info);
        (void)status; /* what is not there counts 0 */
    }
    const statistics_answer answer = {
        .status = (int32_t)TT_OK,
        .step_index = config->model->step_index,
        .trained = link->trained,
        .frames = link->frames,
        .damaged = link->damaged,
        .repeated = link->repeated,
        .ticks = link->ticks,
        .ticks_hz = config->ticks != NULL ? config->ticks_hz : 0u,
        .saved_sequence = info.sequence,
        .saved_step_index = info.step_index,
        .wear = info.wear,
    };
    return tt_link_give(payload, &answer, sizeof answer);
}

uint32_t tt_link_do_state(tt_link *link, uint8_t kind, uint8_t *payload, uint32_t bytes)
{
    switch (kind) {
    case TT_LINK_SAVE:
    case TT_LINK_LOAD:
        return save(link, payload, kind == (uint8_t)TT_LINK_LOAD);
    case TT_LINK_READ_STATE:
        return read_state(link, payload, bytes);
    case TT_LINK_WRITE_STATE:
        return tt_link_give_status(payload, write_state(link, payload, bytes));
    case TT_LINK_COMMIT_STATE:
        return tt_link_give_status(payload, commit_state(link, payload, bytes));
    case TT_LINK_STATISTICS:
        return statistics(link, payload);
    case TT_LINK_RESET:
        return tt_link_give_status(payload, reset(link));
    case TT_LINK_CONFIGURE:
        return tt_link_give_status(payload, configure(link, payload, bytes));
    default:
        return tt_link_give_status(payload, TT_ERROR_REQUEST);
    }
}
