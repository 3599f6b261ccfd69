/*
 * tt_store.h: keep a trained state where a power cut cannot take it away.
 *
 * The storage is split into two slots that are written in turn. A slot is the state, and in front
 * of it, little-endian and each padded to a unit of programming,
 *
 *     head    uint32 magic "TTE1", erase cycles of the slot, CRC-32 of these: programmed first
 *     record  uint32 magic "TTS2", sequence number, fingerprint of the program, bytes and CRC-32 of
 *             the state, step index, seed, CRC-32 of the record so far: programmed last
 *
 * Since the head comes right after the erase, saves that were cut count as wear too. While one slot
 * is erased and written the other one holds the last state, so whatever moment the power is cut at,
 * the last state that was saved to the end is loaded. A slot whose CRCs do not agree counts as
 * empty.
 *
 * Gradients of a batch under way are not saved; learning rate and batch size are the application's.
 */
#ifndef TT_STORE_H
#define TT_STORE_H

#include "tt_runtime.h"
#include "tt_storage.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of the head of a slot, and of the record in front of a state. */
#define TT_STORE_HEAD_BYTES 12u
#define TT_STORE_RECORD_BYTES 32u

/* Bytes of storage for states of `state_bytes` bytes. */
#define TT_STORE_ROUND_UP(bytes, unit) (((bytes) + (unit) - 1u) / (unit) * (unit))
#define TT_STORE_BYTES(state_bytes, erase_bytes, program_bytes)                                    \
    (2u * TT_STORE_ROUND_UP(TT_STORE_ROUND_UP(TT_STORE_HEAD_BYTES, program_bytes) +                \
                                TT_STORE_ROUND_UP(TT_STORE_RECORD_BYTES, program_bytes) +          \
                                TT_STORE_ROUND_UP(state_bytes, program_bytes),                     \
                            erase_bytes))

/* What a storage holds. */
typedef struct tt_store_info {
    uint32_t sequence;   /* of the state that tt_load takes; saves count up from 1 */
    uint32_t step_index; /* of that state */
    uint32_t wear;       /* erase cycles of the slot that was erased more often, those of saves that
                            were cut included; an erase that was cut itself may be missing */
} tt_store_info;

/*
 * Save the state, the step index and the seed. The result was read back before this returns TT_OK.
 * Errors: TT_ERROR_ARGUMENT; TT_ERROR_STORAGE (the state saved before is still there).
 */
tt_status tt_save(const tt_model *model, const tt_storage *storage) TT_MUST_USE;

/*
 * Load the last state that was saved to the end; step index and seed come with it, a batch under
 * way is dropped. Errors: TT_ERROR_ARGUMENT, TT_ERROR_STORAGE, TT_ERROR_NO_STATE,
 * TT_ERROR_OTHER_MODEL. The model stays as it was, except where the storage gives other bytes when
 * it is read for the second time: then the model is reset.
 */
tt_status tt_load(tt_model *model, const tt_storage *storage) TT_MUST_USE;

/* What tt_load would load; errors as there. `wear` is set in any case. */
tt_status tt_store_look(const tt_storage *storage, const tt_program *program,
                        tt_store_info *info) TT_MUST_USE;

#ifdef __cplusplus
}
#endif

#endif
