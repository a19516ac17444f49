// SPDX-License-Identifier: Apache-2.0
// Without a job: prints the addresses of the functions in the table. Else maps the image in the file "job" at the address that the file says, calls its entry on the arrays of
// the file, and writes all arrays to the file "result".
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef struct {
  void *data;
  const int64_t *shape;
  int32_t rank;
  int32_t dtype;
} tensor;

extern const struct {
  const char *name;
  void (*function)(void);
} functions[];

static FILE *job;

static void fail(const char *what) {
  perror(what);
  exit(2);
}

static void take(void *to, size_t size) {
  if (size != 0 && fread(to, 1, size, job) != size) fail("job");
}

static int64_t number(void) {
  int64_t value;
  take(&value, sizeof value);
  return value;
}

int main(int count_of_arguments, char **texts) {
  if (count_of_arguments == 2 && strcmp(texts[1], "addresses") == 0) {
    for (int i = 0; functions[i].name != NULL; i++) printf("%s %#lx\n", functions[i].name, (unsigned long)(uintptr_t)functions[i].function);
    return 0;
  }
  job = fopen("job", "rb");
  if (job == NULL) fail("job");
  char *base = (char *)(uintptr_t)number();
  size_t size = (size_t)number();
  uintptr_t entry = (uintptr_t)number();
  int64_t count = number(), segments = number();
  if (mmap(base, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != base) fail("mmap");
  take(base, size);
  for (int64_t i = 0; i < segments; i++) {
    int64_t start = number(), end = number(), rights = number();
    if (end > start && mprotect(base + start, (size_t)(end - start), (int)rights) != 0) fail("mprotect");
  }
  __builtin___clear_cache(base, base + size);
  tensor *arguments = calloc((size_t)count, sizeof *arguments);
  size_t *sizes = calloc((size_t)count, sizeof *sizes);
  for (int64_t i = 0; i < count; i++) {
    arguments[i].dtype = (int32_t)number();
    sizes[i] = (size_t)number();
    arguments[i].rank = (int32_t)number();
    int64_t *shape = calloc((size_t)arguments[i].rank + 1, sizeof *shape);
    for (int32_t d = 0; d < arguments[i].rank; d++) shape[d] = number();
    arguments[i].shape = shape;
    arguments[i].data = aligned_alloc(64, (sizes[i] + 64) & ~(size_t)63);
    take(arguments[i].data, sizes[i]);
  }
  int32_t status = ((int32_t (*)(const tensor *, int32_t))entry)(arguments, (int32_t)count);
  if (status != 0) {
    printf("status %d\n", (int)status);
    return 1;
  }
  FILE *result = fopen("result", "wb");
  if (result == NULL) fail("result");
  for (int64_t i = 0; i < count; i++) fwrite(arguments[i].data, 1, sizes[i], result);
  return fclose(result) != 0;
}
