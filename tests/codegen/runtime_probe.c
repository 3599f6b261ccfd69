/* The runtime's promises, checked on two models in one program: returns the line that failed. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "other.h"
#include "tiny.h"

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("line %d: %s\n", __LINE__, #condition);                                         \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

TT_MEMORY(tiny_memory, TINY_MEMORY_BYTES);
TT_MEMORY(other_memory, OTHER_MEMORY_BYTES);
static tt_model tiny, other;
static int8_t image[TINY_INPUT_BYTES];
static tt_output output;
static tt_step_report report;

static int check_init(void)
{
    static uint8_t unaligned[TINY_MEMORY_BYTES + 8u];
    tt_program foreign = tiny_program;
    foreign.abi++;
    CHECK(tt_init(NULL, &tiny_program, tiny_memory, sizeof tiny_memory) == TT_ERROR_ARGUMENT);
    CHECK(tt_init(&tiny, NULL, tiny_memory, sizeof tiny_memory) == TT_ERROR_ARGUMENT);
    CHECK(tt_init(&tiny, &tiny_program, NULL, sizeof tiny_memory) == TT_ERROR_ARGUMENT);
    CHECK(tt_init(&tiny, &foreign, tiny_memory, sizeof tiny_memory) == TT_ERROR_ABI);
    CHECK(tt_init(&tiny, &tiny_program, tiny_memory, TINY_MEMORY_BYTES - 1u) == TT_ERROR_MEMORY);
    uint8_t *odd = unaligned + ((uintptr_t)unaligned % 2u == 0u ? 1u : 0u);
    CHECK(tt_init(&tiny, &tiny_program, odd, TINY_MEMORY_BYTES) == TT_ERROR_MEMORY);
    CHECK(tt_init(&tiny, &tiny_program, tiny_memory, sizeof tiny_memory) == TT_OK);
    CHECK(tt_init(&other, &other_program, other_memory, sizeof other_memory) == TT_OK);
    return 0;
}

static int check_refusals(void)
{
    uint8_t before[TINY_STATE_BYTES];
    memcpy(before, tt_state(&tiny), sizeof before);
    const tt_target good = tt_class_target(0);
    CHECK(tt_infer(NULL, image, &output) == TT_ERROR_ARGUMENT);
    CHECK(tt_infer(&tiny, NULL, &output) == TT_ERROR_ARGUMENT);
    CHECK(tt_infer(&tiny, image, NULL) == TT_ERROR_ARGUMENT);
    CHECK(tt_train_step(NULL, image, good, NULL) == TT_ERROR_ARGUMENT);
    CHECK(tt_train_step(&tiny, NULL, good, NULL) == TT_ERROR_ARGUMENT);
    CHECK(tt_train_step(&tiny, image, tt_class_target(-1), NULL) == TT_ERROR_TARGET);
    CHECK(tt_train_step(&tiny, image, tt_class_target(5), NULL) == TT_ERROR_TARGET);
    CHECK(tt_train_step(&other, image, good, NULL) == TT_ERROR_NO_TRAINING);
    CHECK(tt_calibrate_step(&other, image, good, NULL) == TT_ERROR_NO_TRAINING);
    CHECK(tt_set_learning_rate(&tiny, -0.5f) == TT_ERROR_ARGUMENT);
    CHECK(tt_set_learning_rate(&tiny, NAN) == TT_ERROR_ARGUMENT);
    CHECK(tt_set_learning_rate(&tiny, INFINITY) == TT_ERROR_ARGUMENT);
    CHECK(tt_set_batch(&tiny, 0) == TT_ERROR_ARGUMENT);
    CHECK(tt_set_batch(&tiny, 257) == TT_ERROR_ARGUMENT);
    CHECK(tt_set_batch(&other, 2) == TT_ERROR_NO_BATCH);
    CHECK(tt_set_state(&tiny, before, sizeof before - 1u) == TT_ERROR_ARGUMENT);
    CHECK(tt_set_state(&tiny, NULL, sizeof before) == TT_ERROR_ARGUMENT);
    CHECK(tt_step_index(&tiny) == 0u);
    CHECK(memcmp(before, tt_state(&tiny), sizeof before) == 0);
    return 0;
}

static int check_batch(void)
{
    uint8_t before[TINY_STATE_BYTES];
    CHECK(tt_set_learning_rate(&tiny, 0.05f) == TT_OK);
    CHECK(tt_set_batch(&tiny, 3) == TT_OK);
    for (uint32_t i = 0; i < 6u; i++) {
        CHECK(tt_train_step(&tiny, image, tt_class_target(2), &report) == TT_OK);
        CHECK(report.applied == (i % 3u == 2u));
        CHECK(report.step_index == i);
        CHECK(report.loss >= 0.0f && report.loss < 100.0f);
        CHECK(report.best >= 0 && report.best < 5);
    }
    /* a calibration step is no part of a batch */
    CHECK(tt_train_step(&tiny, image, tt_class_target(2), &report) == TT_OK);
    CHECK(tt_calibrate_step(&tiny, image, tt_class_target(2), &report) == TT_OK);
    CHECK(!report.applied && report.step_index == 7u);
    CHECK(tt_train_step(&tiny, image, tt_class_target(2), &report) == TT_OK && !report.applied);
    CHECK(tt_train_step(&tiny, image, tt_class_target(2), &report) == TT_OK && report.applied);
    /* what is taken up again is what was there */
    memcpy(before, tt_state(&tiny), sizeof before);
    tt_reset(&tiny);
    CHECK(tt_step_index(&tiny) == 0u);
    CHECK(memcmp(before, tt_state(&tiny), sizeof before) != 0);
    CHECK(tt_set_state(&tiny, before, sizeof before) == TT_OK);
    CHECK(memcmp(before, tt_state(&tiny), sizeof before) == 0);
    return 0;
}

static int check_outputs(void)
{
    tt_reset(&tiny);
    CHECK(tt_infer(&tiny, image, &output) == TT_OK);
    CHECK(output.scores != NULL && output.values == NULL && output.count == 5u);
    float sum = 0.0f;
    float first[5];
    for (uint32_t i = 0; i < 5u; i++) {
        first[i] = output.scores[i];
        sum += first[i];
    }
    for (uint32_t i = 0; i < 5u; i++) {
        CHECK(first[i] <= first[output.best]);
    }
    CHECK(sum > 0.999f && sum < 1.001f);
    /* the input may be written in place */
    memcpy(tt_input(&tiny), image, sizeof image);
    CHECK(tt_infer(&tiny, tt_input(&tiny), &output) == TT_OK);
    CHECK(memcmp(first, output.scores, sizeof first) == 0);
    CHECK(tt_infer(&other, image, &output) == TT_OK);
    CHECK(output.scores == NULL && output.values != NULL && output.count == 5u);
    for (uint32_t i = 0; i < 5u; i++) {
        CHECK(output.values[i] <= output.values[output.best]);
    }
    return 0;
}

int main(void)
{
    for (uint32_t i = 0; i < sizeof image; i++) {
        image[i] = (int8_t)((int32_t)(i * 37u % 256u) - 128);
    }
    CHECK(strcmp(tt_status_text(TT_OK), "ok") == 0);
    CHECK(tt_status_text((tt_status)-100) != NULL);
    if (check_init() != 0 || check_refusals() != 0 || check_batch() != 0) {
        return 1;
    }
    return check_outputs();
}
