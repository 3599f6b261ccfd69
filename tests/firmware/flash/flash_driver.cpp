// The state store over a core's flash driver: saves, loads, and says where the storage lies.
// Arguments: bytes of the state. Prints: begin, end, erase and program bytes (0 0 0 0: no storage).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flash_models.h"
#include "tt_flash.h"

static void fill(tt_model *model, uint32_t id)
{
    for (uint32_t i = 0; i < model->program->state_bytes; i++) {
        model->state[i] = (uint8_t)((id * 2654435761u + i * 40503u) >> 13);
    }
    model->step_index = id;
}

int main(int count, char **words)
{
    const uint32_t state_bytes = count > 1 ? (uint32_t)strtoul(words[1], nullptr, 10) : 4u;
    const tt_storage *storage = tt_core_flash(state_bytes);
    if (storage == nullptr) {
        puts("0 0 0 0");
        return 0;
    }
    const uint32_t begin = tt_flash_address(storage, 0u);
    model_open(begin, begin + storage->bytes);

    tt_program program;
    memset(&program, 0, sizeof program);
    program.abi = TT_RUNTIME_ABI;
    program.fingerprint = 0x1234u;
    program.state_bytes = state_bytes;
    uint8_t *memory = (uint8_t *)calloc(state_bytes + 8u, 1u);
    uint8_t *wanted = (uint8_t *)calloc(state_bytes, 1u);
    tt_model model;
    if (tt_init(&model, &program, memory, state_bytes + 8u) != TT_OK ||
        tt_load(&model, storage) != TT_ERROR_NO_STATE) {
        return 2;
    }
    for (uint32_t id = 1; id <= 5u; id++) {
        fill(&model, id);
        memcpy(wanted, model.state, state_bytes);
        if (tt_save(&model, storage) != TT_OK) {
            return 3;
        }
        model_check_caches();
        fill(&model, 77u);
        if (tt_load(&model, storage) != TT_OK || model.step_index != id ||
            memcmp(model.state, wanted, state_bytes) != 0) {
            return 4;
        }
    }
    tt_store_info info;
    if (tt_store_look(storage, &program, &info) != TT_OK || info.sequence != 5u ||
        model_erases == 0u) {
        return 5;
    }
    printf("%u %u %u %u\n", begin, begin + storage->bytes, storage->erase_bytes,
           storage->program_bytes);
    free(memory);
    free(wanted);
    return 0;
}
