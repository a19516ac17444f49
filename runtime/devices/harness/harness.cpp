// SPDX-License-Identifier: Apache-2.0
// The library's C interface to one machine. The caller drives it through its control port as on a board; no
// register offsets are known here.

#include <cstdarg>
#include <cstdio>

#include "machine.h"

namespace vdla {
thread_local std::string model_messages;
thread_local bool model_stopped = false;
}  // namespace vdla

int vdla_print(const char *format, ...) {
  char line[2048];
  va_list arguments;
  va_start(arguments, format);
  const int length = std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  if (vdla::model_messages.size() < 4 * sizeof line) vdla::model_messages += line;
  return length;
}

void vl_finish(const char *, int, const char *) VL_MT_UNSAFE { vdla::model_stopped = true; }
void vl_stop(const char *, int, const char *) VL_MT_UNSAFE { vdla::model_stopped = true; }
void vl_fatal(const char *file, int line, const char *, const char *message) VL_MT_UNSAFE {
  vdla_print("%s:%d: %s\n", file, line, message);
  vdla::model_stopped = true;
}

#define VDLA_EXPORT extern "C" __attribute__((visibility("default")))

using vdla::Machine;

// A machine after reset, on the caller's memory, which must outlive it; `waves` is a file or null, which gets the
// cycles `first` to `last` of every run, `start` and `argument` as in Machine.
VDLA_EXPORT Machine *vdla_create(uint8_t *data, uint64_t bytes, const char *waves, uint64_t first, uint64_t last,
                                 uint32_t start, const char *argument) {
  auto *machine = new Machine(data, bytes, start, argument);
  if (waves != nullptr) machine->open_waves(waves, first, last);
  machine->reset();
  return machine;
}

VDLA_EXPORT void vdla_destroy(Machine *machine) { delete machine; }

VDLA_EXPORT void vdla_configure(Machine *machine, const vdla::Parameters *parameters) {
  machine->configure(*parameters);
}

// Where the caller's memory lies; it is at address 0 unless it is mapped.
VDLA_EXPORT void vdla_map(Machine *machine, const vdla::Window *windows, uint64_t count) {
  machine->map(std::vector<vdla::Window>(windows, windows + count));
}

VDLA_EXPORT int vdla_write(Machine *machine, uint32_t offset, uint32_t value) { return machine->write(offset, value); }

VDLA_EXPORT int vdla_read(Machine *machine, uint32_t offset, uint32_t *value) { return machine->read(offset, value); }

VDLA_EXPORT int vdla_wait(Machine *machine, uint64_t cycles) { return machine->wait(cycles); }

// One cycle with these pins of the control port.
VDLA_EXPORT void vdla_control_cycle(Machine *machine, const vdla::ControlInputs *inputs, vdla::ControlOutputs *outputs) {
  *outputs = machine->control_cycle(*inputs);
}

// Restarts the counts of events, cycles and bytes.
VDLA_EXPORT void vdla_forget_events(Machine *machine) { machine->forget_events(); }

// The number of events of a kind and their cycles; the array is valid until the machine's next step.
VDLA_EXPORT uint64_t vdla_events(const Machine *machine, unsigned kind, const uint64_t **cycles) {
  *cycles = machine->events(kind).data();
  return machine->events(kind).size();
}

// Calls `visit` with each memory of the buffers: its name, its data, elements, bytes of an element.
VDLA_EXPORT void vdla_memories(Machine *machine, void (*visit)(const char *, const uint8_t *, uint64_t, uint64_t)) {
  for (const auto &memory : machine->memories()) {
    visit(memory.name.c_str(), memory.data, memory.elements, memory.element_bytes);
  }
}

VDLA_EXPORT uint64_t vdla_quiet_cycles(const Machine *machine) { return machine->quiet_cycles(); }

VDLA_EXPORT uint64_t vdla_running_cycles(const Machine *machine) { return machine->running_cycles(); }

// The time in the waveforms at which a cycle of the last run begins.
VDLA_EXPORT uint64_t vdla_wave_time(const Machine *machine, uint64_t cycle) { return machine->wave_time(cycle); }

VDLA_EXPORT uint64_t vdla_bytes_read(const Machine *machine) { return machine->bytes_read(); }

VDLA_EXPORT uint64_t vdla_bytes_written(const Machine *machine) { return machine->bytes_written(); }

// The bursts since the memory was configured.
VDLA_EXPORT uint64_t vdla_bursts_read(const Machine *machine) { return machine->bursts_read(); }

VDLA_EXPORT uint64_t vdla_bursts_written(const Machine *machine) { return machine->bursts_written(); }

// The address of the burst that was answered with the configured error, all ones if none was.
VDLA_EXPORT uint64_t vdla_error_address(const Machine *machine) { return machine->error_address(); }

VDLA_EXPORT int vdla_memory_idle(const Machine *machine) { return machine->memory_idle(); }

// The first fault, or an empty string.
VDLA_EXPORT const char *vdla_fault(const Machine *machine) { return machine->fault().c_str(); }
