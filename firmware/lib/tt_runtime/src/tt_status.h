/* What the calls of the runtime return: 0 or a negative error. */
#ifndef TT_STATUS_H
#define TT_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

/* name, value, text */
#define TT_STATUS_LIST(X)                                                                          \
    X(TT_OK, 0, "ok")                                                                              \
    X(TT_ERROR_ARGUMENT, -1, "an argument is NULL or outside of its range")                        \
    X(TT_ERROR_ABI, -2, "the program was generated for another version of the runtime")            \
    X(TT_ERROR_MEMORY, -3, "the memory is too small or not aligned")                               \
    X(TT_ERROR_TARGET, -4, "the target is missing or not one of the classes")                      \
    X(TT_ERROR_NO_TRAINING, -5, "the program can only infer")                                      \
    X(TT_ERROR_NO_BATCH, -6, "the program updates after each sample and has no batch")             \
    X(TT_ERROR_STORAGE, -7, "the storage failed, is too small or is not there")                    \
    X(TT_ERROR_NO_STATE, -8, "no whole state is saved")                                            \
    X(TT_ERROR_OTHER_MODEL, -9, "the saved state belongs to another model or scheme")              \
    X(TT_ERROR_REQUEST, -10, "the request is unknown or has the wrong size")                       \
    X(TT_ERROR_HALF_STATE, -11, "a state is half written: finish it, load one, or reset")

#define TT_STATUS_ENTRY(name, value, text) name = (value),
typedef enum tt_status { TT_STATUS_LIST(TT_STATUS_ENTRY) } tt_status;
#undef TT_STATUS_ENTRY

#if defined(__GNUC__)
#define TT_MUST_USE __attribute__((warn_unused_result))
#else
#define TT_MUST_USE
#endif

/* The text of a status, in English; never NULL, also for values that are not in the list. */
const char *tt_status_text(tt_status status);

#ifdef __cplusplus
}
#endif

#endif
