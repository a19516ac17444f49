// SPDX-License-Identifier: Apache-2.0
/* Calls `grow` (native_modules.py) correctly and with every kind of wrong argument; prints each status. */
#include "grow.h"
#include <stdio.h>
#include <string.h>

#define ROWS 3

static float memory[3][4 * (ROWS + 1)];
static const int64_t small[] = {ROWS, 4}, large[] = {ROWS + 1, 4}, none[] = {0, 4}, minus[] = {-1, 4};
static const int64_t huge[] = {INT64_C(1) << 40, 4}, wide[] = {ROWS, 5};
static vdla_tensor arguments[3];

static void reset(void) {
    for (int k = 0; k < 3; ++k) {
        vdla_tensor fresh = {memory[k], k < 2 ? small : large, 2, VDLA_FLOAT32};
        arguments[k] = fresh;
    }
}

static void call(const char *what, const vdla_tensor *given, int32_t count) {
    int32_t code = grow(given, count);
    printf("%s: %d %d %s\n", what, (int)(code & 0xff), (int)vdla_error_argument(code), vdla_error_text(code));
    reset();
}

int main(void) {
    for (int i = 0; i < 4 * ROWS; ++i) {
        memory[0][i] = (float)i;
        memory[1][i] = 0.5f;
    }
    reset();
    call("good", arguments, 3);
    for (int i = 0; i < 4 * ROWS; ++i) {
        if (memory[2][i] != 2.0f * (float)i + 0.5f) return 1;
    }
    memset(memory[2], 0, sizeof memory[2]);
    call("few", arguments, 2);
    call("minus", arguments, -3);
    call("many", arguments, 4);
    call("no array", NULL, 3);
    arguments[1].data = NULL;
    call("no data", arguments, 3);
    arguments[2].shape = NULL;
    call("no shape", arguments, 3);
    arguments[1].rank = 1;
    call("rank", arguments, 3);
    arguments[0].rank = -2;
    call("negative rank", arguments, 3);
    arguments[2].dtype = VDLA_INT32;
    call("dtype", arguments, 3);
    arguments[0].dtype = 0;
    call("no dtype", arguments, 3);
    arguments[0].shape = arguments[1].shape = none;
    call("empty", arguments, 3);
    arguments[0].shape = arguments[1].shape = minus;
    call("negative extent", arguments, 3);
    arguments[0].shape = arguments[1].shape = huge;
    call("huge", arguments, 3);
    arguments[1].shape = wide;
    call("shape", arguments, 3);
    arguments[2].shape = small;
    call("shape of the output", arguments, 3);
    arguments[1].shape = large;
    call("symbol", arguments, 3);
    arguments[1].data = (char *)memory[1] + 2;
    call("alignment", arguments, 3);
    arguments[2].data = memory[0];
    call("in place", arguments, 3);
    arguments[2].data = &memory[1][4 * ROWS - 1];
    call("overlap by one", arguments, 3);
    arguments[1].data = memory[0];
    call("shared inputs", arguments, 3);
    for (int i = 0; i < 4 * ROWS; ++i) {
        if (memory[2][i] != 3.0f * (float)i) return 2;
    }
    arguments[0].data = &memory[1][4];
    call("overlapping inputs", arguments, 3);
    return 0;
}
