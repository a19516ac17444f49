// SPDX-License-Identifier: Apache-2.0
/* Drives the thread pool in a parallel kernel's object: every iteration runs exactly once, from any caller. */
#include "axpy.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST 3000
#define CALLERS 4

int32_t vdla_parallel(void (*body)(void *, int64_t, int64_t), void *closure, int64_t extent);

static void require(int holds, const char *what, long detail) {
    if (holds) return;
    printf("%s: %ld\n", what, detail);
    fflush(stdout);
    _exit(1);
}

static void count(void *closure, int64_t begin, int64_t end) {
    int *counts = closure;
    for (int64_t i = begin; i < end; ++i) __atomic_fetch_add(&counts[i], 1, __ATOMIC_RELAXED);
}

static void run_once(int64_t extent) {
    int *counts = calloc(MOST, sizeof *counts);
    require(vdla_parallel(count, counts, extent) == 0, "result", extent);
    for (int64_t i = 0; i < MOST; ++i) require(counts[i] == (i < extent), "index", (long)i);
    free(counts);
}

static void nested(void *closure, int64_t begin, int64_t end) {
    int(*rows)[50] = closure;
    for (int64_t i = begin; i < end; ++i) vdla_parallel(count, rows[i], 50);
}

static void check_nested(void) {
    int rows[20][50] = {{0}};
    vdla_parallel(nested, rows, 20);
    for (int i = 0; i < 20 * 50; ++i) require(rows[i / 50][i % 50] == 1, "nested index", i);
}

static void *caller(void *unused) {
    for (int i = 0; i < 200; ++i) run_once(1 + i % 40);
    return unused;
}

static void check_callers(void) {
    pthread_t threads[CALLERS];
    for (int i = 0; i < CALLERS; ++i) require(!pthread_create(&threads[i], NULL, caller, NULL), "thread", i);
    for (int i = 0; i < CALLERS; ++i) pthread_join(threads[i], NULL);
}

static void check_fork(int depth) {
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 50; ++i) run_once(1 + i);
        if (depth > 0) check_fork(depth - 1);
        _exit(7);
    }
    int status = 0;
    require(waitpid(child, &status, 0) == child, "child", depth);
    require(WIFEXITED(status) && WEXITSTATUS(status) == 7, "status of the child", status);
}

static void *forker(void *unused) {
    for (int i = 0; i < 5; ++i) check_fork(0);
    return unused;
}

/* Forks while other threads are inside parallel regions, so the child's copy of the pool is in an intermediate state. */
static void check_fork_beside_callers(void) {
    pthread_t thread;
    require(!pthread_create(&thread, NULL, forker, NULL), "thread", 0);
    check_callers();
    pthread_join(thread, NULL);
}

int main(int count_of_words, char **words) {
    const int limits[] = {1, 2, 3, 8, 0, 2};
    for (unsigned k = 0; k < sizeof limits / sizeof *limits; ++k) {
        vdla_set_threads(limits[k]);
        require(limits[k] == 0 || vdla_threads() == limits[k], "limit", limits[k]);
        for (int64_t extent = -40; extent < 40; ++extent) run_once(extent);
        run_once(MOST - 1);
        check_nested();
        check_callers();
    }
    vdla_set_threads(3);
    if (count_of_words > 1) { /* QEMU's user mode does not support fork with threads */
        require(words[1][0] == 'f', "forks", 0);
        check_fork(1);
        check_fork_beside_callers();
    }
    usleep(20000); /* until the workers sleep */
    run_once(MOST);
    puts("fine");
    return axpy(NULL, 0) != VDLA_ERROR_COUNT;
}
