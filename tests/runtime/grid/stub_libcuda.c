// SPDX-License-Identifier: Apache-2.0
// A CUDA driver without a device, for tests: the memory is the host's, and what goes into a stream
// waits there until something waits for the stream. Handles, sizes, contexts and launches are checked.
//
// A kernel is run by a function that the test registers. Parameters are copied when a kernel is
// launched, by the types that the text of the module declares. Functions of the test begin with stub_.

#include <ctype.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101,
  INVALID_CONTEXT = 201, INVALID_PTX = 218, INVALID_HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600,
  ILLEGAL_ADDRESS = 700, LAUNCH_FAILED = 719
};
enum { MOST_OBJECTS = 4096, MOST_PARAMETERS = 64, MOST_CONTEXTS = 16, MOST_DEVICES = 4, ATTRIBUTES = 128 };
enum { LOG_BYTES = 1 << 20 };

typedef enum { DEVICE_MEMORY, HOST_MEMORY, STREAM, EVENT, MODULE, KINDS } Kind;
static const char *const KIND_NAMES[KINDS] = {"device memory", "host memory", "stream", "event", "module"};

typedef struct {
  Kind kind;
  void *handle;
  size_t size;
} Object;

typedef struct Function {
  struct Function *next;
  char name[128];
  int is_address[MOST_PARAMETERS], parameters, dynamic_shared;
  unsigned threads[3];
} Function;

typedef struct { Function *functions; } Module;
typedef struct { int recorded, reached; double at_ms; void *stream; } Event;

typedef enum { COPY, RUN, RECORD, WAIT } Work;
typedef struct Task {
  struct Task *next;
  Work work;
  void *stream, *to, *from;
  size_t size;
  Function *function;
  unsigned dims[6];
  uint64_t values[MOST_PARAMETERS];
  Event *event;
} Task;

typedef int (*Runner)(const char *name, const unsigned *dims, const uint64_t *values, int count);

static Object objects[MOST_OBJECTS];
static int object_count, initialised, retained, calls, fail_at, fail_code, sticky;
static int device_count, version, attributes[ATTRIBUTES];
static size_t memory_left;
static _Thread_local void *context_stack[MOST_CONTEXTS];
static _Thread_local int context_depth;
static Task *tasks;
static double clock_ms;
static Runner runner;
static char text_log[LOG_BYTES];
static size_t log_size;
static char context_of_device;

// --- for tests ----------------------------------------------------------------------------------

void stub_reset(void) {
  object_count = initialised = retained = calls = fail_at = fail_code = sticky = context_depth = 0;
  tasks = NULL;
  clock_ms = 0;
  runner = NULL;
  log_size = 0;
  text_log[0] = 0;
  device_count = 1;
  version = 12040;
  memory_left = 64 << 20;
  memset(attributes, 0, sizeof attributes);
  int given[][2] = {{1, 1024}, {2, 1024}, {3, 1024}, {4, 64}, {5, 2147483647}, {6, 65535}, {7, 65535},
                    {8, 49152}, {10, 32}, {75, 8}, {76, 6}, {97, 101376}};
  for (size_t i = 0; i < sizeof given / sizeof given[0]; ++i) attributes[given[i][0]] = given[i][1];
}
void stub_fail(int call, int code) { calls = 0; fail_at = call; fail_code = code; }
int stub_calls(void) { return calls; }
void stub_set_attribute(int attribute, int value) { attributes[attribute] = value; }
void stub_set_devices(int count) { device_count = count; }
void stub_set_memory(size_t bytes) { memory_left = bytes; }
void stub_set_runner(Runner given) { runner = given; }
const char *stub_log(void) { return text_log; }
int stub_live(int kind) {
  int found = 0;
  if (kind == KINDS) return retained + context_depth;
  for (int i = 0; i < object_count; ++i) found += objects[i].kind == (Kind)kind;
  return found;
}
int stub_kinds(void) { return KINDS; }
const char *stub_kind(int kind) { return kind < KINDS ? KIND_NAMES[kind] : "context"; }

// --- what all functions do ----------------------------------------------------------------------

static void say(const char *form, ...) {
  va_list arguments;
  va_start(arguments, form);
  log_size += vsnprintf(text_log + log_size, LOG_BYTES - log_size, form, arguments);
  va_end(arguments);
}
static int planned_failure(void) { return ++calls == fail_at ? fail_code : OK; }
static Object *object(Kind kind, void *handle) {
  for (int i = 0; i < object_count; ++i)
    if (objects[i].kind == kind && objects[i].handle == handle) return &objects[i];
  return NULL;
}
static void *add(Kind kind, void *handle, size_t size) {
  if (object_count == MOST_OBJECTS) abort();
  objects[object_count++] = (Object){kind, handle, size};
  return handle;
}
static void drop(Object *found) { *found = objects[--object_count]; }
static int lies_in(Kind kind, const void *address, size_t size) {
  for (int i = 0; i < object_count; ++i) {
    const char *start = objects[i].handle;
    if (objects[i].kind == kind && (const char *)address >= start &&
        (const char *)address + size <= start + objects[i].size)
      return 1;
  }
  return 0;
}
// The planned failure of a call, else whether a context is current and no kernel has failed.
#define BEGIN(...)                                     \
  do {                                                 \
    say(__VA_ARGS__);                                  \
    int failure = planned_failure();                   \
    if (failure) return failure;                       \
    if (!initialised) return NOT_INITIALIZED;          \
  } while (0)
#define BEGIN_IN_CONTEXT(...)                          \
  do {                                                 \
    BEGIN(__VA_ARGS__);                                \
    if (!context_depth) return INVALID_CONTEXT;        \
    if (sticky) return sticky;                         \
  } while (0)

// --- the work of streams ------------------------------------------------------------------------

static void run_stream(void *stream);
static void run_task(Task *task) {
  switch (task->work) {
    case COPY:
      memcpy(task->to, task->from, task->size);
      break;
    case RUN:
      clock_ms += 1;
      for (int i = 0; i < task->function->parameters && !sticky; ++i)
        if (task->function->is_address[i] && !lies_in(DEVICE_MEMORY, (void *)(uintptr_t)task->values[i], 1))
          sticky = ILLEGAL_ADDRESS;
      if (!sticky && runner)
        sticky = runner(task->function->name, task->dims, task->values, task->function->parameters);
      break;
    case RECORD:
      task->event->reached = 1;
      task->event->at_ms = clock_ms;
      break;
    case WAIT:
      if (!task->event->reached) run_stream(task->event->stream);
  }
}
static void run_stream(void *stream) {
  for (;;) {
    Task **place = &tasks;
    while (*place && (*place)->stream != stream) place = &(*place)->next;
    Task *task = *place;
    if (!task) return;
    *place = task->next;
    run_task(task);
    free(task);
  }
}
static void run_all(void) {
  while (tasks) run_stream(tasks->stream);
}
static Task *queue(Work work, void *stream) {
  Task *task = calloc(1, sizeof *task), **place = &tasks;
  task->work = work;
  task->stream = stream;
  while (*place) place = &(*place)->next;
  return *place = task;
}

// --- errors, devices, contexts ------------------------------------------------------------------

static const struct { int code; const char *name, *text; } ERRORS[] = {
  {OK, "CUDA_SUCCESS", "no error"},
  {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
  {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
  {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
  {NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
  {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
  {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
  {INVALID_PTX, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
  {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
  {NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
  {NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
  {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
  {LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
};
static int describe(int code, const char **out, int text) {
  for (size_t i = 0; i < sizeof ERRORS / sizeof ERRORS[0]; ++i)
    if (ERRORS[i].code == code) {
      *out = text ? ERRORS[i].text : ERRORS[i].name;
      return OK;
    }
  *out = NULL;
  return INVALID_VALUE;
}
int cuGetErrorName(int code, const char **out) { return describe(code, out, 0); }
int cuGetErrorString(int code, const char **out) { return describe(code, out, 1); }

int cuInit(unsigned flags) {
  say("cuInit\n");
  int failure = planned_failure();
  if (failure || flags) return failure ? failure : INVALID_VALUE;
  initialised = 1;
  return OK;
}
int cuDriverGetVersion(int *out) { BEGIN("cuDriverGetVersion\n"); *out = version; return OK; }
int cuDeviceGetCount(int *out) { BEGIN("cuDeviceGetCount\n"); *out = device_count; return OK; }
int cuDeviceGet(int *out, int ordinal) {
  BEGIN("cuDeviceGet %d\n", ordinal);
  if (ordinal < 0 || ordinal >= device_count) return INVALID_DEVICE;
  *out = ordinal + 10;  // a handle, no ordinal
  return OK;
}
static int is_device(int device) { return device >= 10 && device < 10 + device_count; }
int cuDeviceGetName(char *out, int size, int device) {
  BEGIN("cuDeviceGetName\n");
  if (!is_device(device)) return INVALID_DEVICE;
  snprintf(out, size, "Stub GPU %d", device - 10);
  return OK;
}
int cuDeviceGetAttribute(int *out, int attribute, int device) {
  BEGIN("cuDeviceGetAttribute %d\n", attribute);
  if (!is_device(device)) return INVALID_DEVICE;
  if (attribute < 1 || attribute >= ATTRIBUTES) return INVALID_VALUE;
  *out = attributes[attribute];
  return OK;
}
int cuDevicePrimaryCtxRetain(void **out, int device) {
  BEGIN("cuDevicePrimaryCtxRetain\n");
  if (!is_device(device)) return INVALID_DEVICE;
  ++retained;
  *out = &context_of_device;
  return OK;
}
int cuDevicePrimaryCtxRelease_v2(int device) {
  BEGIN("cuDevicePrimaryCtxRelease\n");
  if (!is_device(device)) return INVALID_DEVICE;
  if (!retained || object_count) return INVALID_CONTEXT;  // what lives in it must go first
  --retained;
  return OK;
}
int cuCtxPushCurrent_v2(void *context) {
  BEGIN("cuCtxPushCurrent\n");
  if (context != &context_of_device || !retained || context_depth == MOST_CONTEXTS) return INVALID_CONTEXT;
  context_stack[context_depth++] = context;
  return OK;
}
int cuCtxPopCurrent_v2(void **out) {  // a failure leaves the stack as it should be
  say("cuCtxPopCurrent\n");
  int failure = planned_failure();
  if (!context_depth) return INVALID_CONTEXT;
  *out = context_stack[--context_depth];
  return failure;
}
int cuCtxSynchronize(void) {  // a planned failure waits, too
  say("cuCtxSynchronize\n");
  int failure = planned_failure();
  if (!context_depth) return INVALID_CONTEXT;
  run_all();
  return failure ? failure : sticky;
}

// --- memory -------------------------------------------------------------------------------------

int cuMemAlloc_v2(uint64_t *out, size_t size) {
  BEGIN_IN_CONTEXT("cuMemAlloc %zu\n", size);
  if (!size) return INVALID_VALUE;
  if (size > memory_left) return OUT_OF_MEMORY;
  memory_left -= size;
  void *memory = aligned_alloc(256, (size + 255) / 256 * 256);
  memset(memory, 0xA5, size);
  *out = (uint64_t)(uintptr_t)add(DEVICE_MEMORY, memory, size);
  return OK;
}
static int release(Kind kind, void *handle, const char *name) {  // a planned failure releases, too
  say("%s\n", name);
  int failure = planned_failure();
  if (!context_depth) return INVALID_CONTEXT;
  Object *found = object(kind, handle);
  if (!found) return INVALID_HANDLE;
  if (kind == DEVICE_MEMORY || kind == HOST_MEMORY) {
    run_all();  // it waits
    if (kind == DEVICE_MEMORY) memory_left += found->size;
    free(handle);
  }
  drop(found);
  return failure ? failure : sticky;
}
int cuMemFree_v2(uint64_t memory) { return release(DEVICE_MEMORY, (void *)(uintptr_t)memory, "cuMemFree"); }
int cuMemHostAlloc(void **out, size_t size, unsigned flags) {
  BEGIN_IN_CONTEXT("cuMemHostAlloc %zu\n", size);
  if (!size || flags) return INVALID_VALUE;
  *out = add(HOST_MEMORY, malloc(size), size);
  return OK;
}
int cuMemFreeHost(void *memory) { return release(HOST_MEMORY, memory, "cuMemFreeHost"); }
static int copy(void *stream, void *to, void *from, size_t size, int on_device, void *device) {
  if (!object(STREAM, stream)) return INVALID_HANDLE;
  if (!size || !lies_in(DEVICE_MEMORY, device, size)) return INVALID_VALUE;
  if (on_device && !lies_in(HOST_MEMORY, from, size)) return INVALID_VALUE;  // would not be asynchronous
  Task *task = queue(COPY, stream);
  task->to = to, task->from = from, task->size = size;
  return OK;
}
int cuMemcpyHtoDAsync_v2(uint64_t to, void *from, size_t size, void *stream) {
  BEGIN_IN_CONTEXT("cuMemcpyHtoDAsync %zu\n", size);
  return copy(stream, (void *)(uintptr_t)to, from, size, 1, (void *)(uintptr_t)to);
}
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t size, void *stream) {
  BEGIN_IN_CONTEXT("cuMemcpyDtoHAsync %zu\n", size);
  return copy(stream, to, (void *)(uintptr_t)from, size, 0, (void *)(uintptr_t)from);
}

// --- streams and events -------------------------------------------------------------------------

int cuStreamCreate(void **out, unsigned flags) {
  BEGIN_IN_CONTEXT("cuStreamCreate %u\n", flags);
  if (flags > 1) return INVALID_VALUE;
  *out = add(STREAM, malloc(1), 1);
  return OK;
}
int cuStreamSynchronize(void *stream) {  // a planned failure waits, too
  say("cuStreamSynchronize\n");
  int failure = planned_failure();
  if (!context_depth) return INVALID_CONTEXT;
  if (!object(STREAM, stream)) return INVALID_HANDLE;
  run_stream(stream);
  return failure ? failure : sticky;
}
int cuStreamWaitEvent(void *stream, void *event, unsigned flags) {
  BEGIN_IN_CONTEXT("cuStreamWaitEvent\n");
  if (!object(STREAM, stream) || !object(EVENT, event) || flags) return INVALID_HANDLE;
  if (((Event *)event)->recorded) queue(WAIT, stream)->event = event;
  return OK;
}
int cuStreamDestroy_v2(void *stream) {
  if (object(STREAM, stream)) run_stream(stream);
  return release(STREAM, stream, "cuStreamDestroy");
}
int cuEventCreate(void **out, unsigned flags) {
  BEGIN_IN_CONTEXT("cuEventCreate %u\n", flags);
  if (flags) return INVALID_VALUE;
  *out = add(EVENT, calloc(1, sizeof(Event)), sizeof(Event));
  return OK;
}
int cuEventRecord(void *event, void *stream) {
  BEGIN_IN_CONTEXT("cuEventRecord\n");
  if (!object(STREAM, stream) || !object(EVENT, event)) return INVALID_HANDLE;
  Event *recorded = event;
  *recorded = (Event){.recorded = 1, .stream = stream};
  queue(RECORD, stream)->event = recorded;
  return OK;
}
int cuEventQuery(void *event) {
  BEGIN_IN_CONTEXT("cuEventQuery\n");
  if (!object(EVENT, event)) return INVALID_HANDLE;
  return ((Event *)event)->reached ? OK : NOT_READY;
}
int cuEventSynchronize(void *event) {
  BEGIN_IN_CONTEXT("cuEventSynchronize\n");
  if (!object(EVENT, event)) return INVALID_HANDLE;
  if (!((Event *)event)->reached) run_stream(((Event *)event)->stream);
  return sticky;
}
int cuEventElapsedTime(float *out, void *start, void *end) {
  BEGIN_IN_CONTEXT("cuEventElapsedTime\n");
  if (!object(EVENT, start) || !object(EVENT, end)) return INVALID_HANDLE;
  Event *first = start, *last = end;
  if (!first->reached || !last->reached) return NOT_READY;
  *out = (float)(last->at_ms - first->at_ms);
  return OK;
}
int cuEventDestroy_v2(void *event) { return release(EVENT, event, "cuEventDestroy"); }

// --- modules and kernels ------------------------------------------------------------------------

// Reads `.entry NAME(.param TYPE ..., ...) ... .reqntid x, y, z {` from a text; the rest of the text.
static const char *read_function(const char *text, Function *function) {
  text += strlen(".entry");
  text += strspn(text, " \t\n");
  size_t length = strcspn(text, " \t\n(");
  snprintf(function->name, sizeof function->name, "%.*s", (int)length, text);
  const char *body = strchr(text, '{'), *end = strchr(text, ')');
  for (const char *at = strstr(text, ".param"); at && at < end; at = strstr(at + 1, ".param")) {
    int wide = !strncmp(at, ".param .u64", 11) || !strncmp(at, ".param .b64", 11);
    function->is_address[function->parameters++] = wide;
  }
  const char *block = strstr(end, ".reqntid");
  if (block && block < body) {
    function->threads[1] = function->threads[2] = 1;
    sscanf(block, ".reqntid %u, %u, %u", &function->threads[0], &function->threads[1], &function->threads[2]);
  }
  return body;
}
int cuModuleLoadDataEx(void **out, const char *text, unsigned count, const int *options, void **values) {
  BEGIN_IN_CONTEXT("cuModuleLoadDataEx\n");
  if (!strstr(text, ".version")) {
    if (count == 2 && options[0] == 5 && options[1] == 6)
      snprintf(values[0], (size_t)values[1], "\nptxas fatal   : a line of information\nptxas error   : Missing .version directive\n");
    return INVALID_PTX;
  }
  Module *module = calloc(1, sizeof *module);
  for (const char *at = strstr(text, ".entry"); at; at = strstr(at, ".entry")) {
    Function *function = calloc(1, sizeof *function);
    at = read_function(at, function);
    function->next = module->functions;
    module->functions = function;
  }
  *out = add(MODULE, module, sizeof *module);
  return OK;
}
int cuModuleGetFunction(void **out, void *module, const char *name) {
  BEGIN_IN_CONTEXT("cuModuleGetFunction %s\n", name);
  if (!object(MODULE, module)) return INVALID_HANDLE;
  Function *function = ((Module *)module)->functions;
  while (function && strcmp(function->name, name)) function = function->next;
  *out = function;
  return function ? OK : NOT_FOUND;
}
int cuModuleUnload(void *module) {
  for (Task *task = tasks; task; task = task->next)
    if (task->work == RUN) return INVALID_HANDLE;  // the code would vanish below a kernel
  return release(MODULE, module, "cuModuleUnload");
}
static Function *function_of(void *handle) {
  for (int i = 0; i < object_count; ++i)
    if (objects[i].kind == MODULE)
      for (Function *function = ((Module *)objects[i].handle)->functions; function; function = function->next)
        if (function == handle) return function;
  return NULL;
}
int cuFuncGetAttribute(int *out, int attribute, void *function) {
  BEGIN_IN_CONTEXT("cuFuncGetAttribute %d\n", attribute);
  if (!function_of(function)) return INVALID_HANDLE;
  if (attribute) return INVALID_VALUE;
  *out = attributes[0] ? attributes[0] : attributes[1];
  return OK;
}
int cuFuncSetAttribute(void *function, int attribute, int value) {
  BEGIN_IN_CONTEXT("cuFuncSetAttribute %d %d\n", attribute, value);
  if (!function_of(function)) return INVALID_HANDLE;
  if (attribute != 8 || value < 0 || value > attributes[97]) return INVALID_VALUE;
  function_of(function)->dynamic_shared = value;
  return OK;
}
int cuLaunchKernel(void *handle, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **parameters, void **extra) {
  unsigned dims[6] = {gx, gy, gz, bx, by, bz};
  BEGIN_IN_CONTEXT("cuLaunchKernel %u %u %u %u %u %u %u\n", gx, gy, gz, bx, by, bz, shared);
  Function *function = function_of(handle);
  if (!function || !object(STREAM, stream)) return INVALID_HANDLE;
  if (extra || (uint64_t)bx * by * bz > (uint64_t)attributes[1]) return INVALID_VALUE;
  if (shared > (unsigned)(function->dynamic_shared ? function->dynamic_shared : attributes[8])) return INVALID_VALUE;
  for (int i = 0; i < 3; ++i) {
    if (!dims[i] || dims[i] > (unsigned)attributes[5 + i]) return INVALID_VALUE;
    if (!dims[3 + i] || dims[3 + i] > (unsigned)attributes[2 + i]) return INVALID_VALUE;
    if (function->threads[0] && dims[3 + i] != function->threads[i]) return INVALID_VALUE;
  }
  Task *task = queue(RUN, stream);
  task->function = function;
  memcpy(task->dims, dims, sizeof dims);
  for (int i = 0; i < function->parameters; ++i)
    memcpy(&task->values[i], parameters[i], function->is_address[i] ? 8 : 4);
  return OK;
}
