// SPDX-License-Identifier: Apache-2.0
// The memory behind the AXI ports: the caller's bytes and where they lie, the timing contract's parameters, an injected
// error.

#ifndef VDLA_MEMORY_H_
#define VDLA_MEMORY_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "banks.h"
#include "stalls.h"

namespace vdla {

// A range of addresses and its first byte in the caller's array; layout shared with rtl_library.py.
struct Window {
  uint64_t address;
  uint64_t bytes;
  uint64_t offset;
};

// The caller's array, seen through windows; there is nothing at other addresses.
class Memory {
 public:
  Memory(uint8_t *data, uint64_t bytes) : data_(data), windows_{{0, bytes, 0}} {}

  void map(std::vector<Window> windows) {
    windows_ = std::move(windows);
    last_ = 0;
  }

  // The bytes from an address, or null unless `count` bytes lie in one window.
  uint8_t *find(uint64_t address, uint64_t count) const {
    for (size_t n = 0; n < windows_.size(); ++n) {
      const Window &window = windows_[last_];
      const uint64_t past = address - window.address;  // wraps below the window
      if (past <= window.bytes && count <= window.bytes - past) return data_ + window.offset + past;
      last_ = (last_ + 1) % windows_.size();
    }
    return nullptr;
  }

 private:
  uint8_t *data_;
  std::vector<Window> windows_;
  mutable size_t last_ = 0;  // the window of the last access, which most often has the next one too
};

constexpr uint64_t kNoAddress = ~uint64_t{0};

// State shared by the parts of the harness.
struct Shared {
  explicit Shared(Memory bytes) : memory(std::move(bytes)) {}

  Memory memory;
  Parameters parameters{};
  Banks banks;
  Stalls stalls;
  uint64_t cycle = 0;        // since the reset
  uint64_t run_cycle = 0;    // of the timing contract, whose cycle 0 is before the first that is counted
  uint64_t bytes_read = 0;
  uint64_t bytes_written = 0;
  uint64_t last_active = 0;  // cycle of the last event
  uint64_t error_address = kNoAddress;  // of the burst that was answered with the error of `parameters`
  std::string fault;                    // the first broken rule

  void require(bool holds, const char *subject, const char *rule) {
    if (holds || !fault.empty()) return;
    fault = std::string(subject) + " must " + rule + ", broken in cycle " + std::to_string(cycle) + " since reset";
  }
};

// A burst, from its address channel.
struct Burst {
  uint64_t address = 0;
  unsigned beats = 0;
  unsigned id = 0;
  uint64_t granted = 0;  // cycle of the handshake
  uint64_t number = 0;   // on its channel, from 0
  unsigned done = 0;     // beats transferred
  uint64_t wait = 0;     // cycles, for the memory behind the ports

  bool operator==(const Burst &other) const {
    return address == other.address && beats == other.beats && id == other.id;
  }
};

// What an address channel says beside a burst: AxSIZE, AxBURST, AxCACHE and AxPROT.
struct Attributes {
  unsigned size;
  unsigned type;
  unsigned cache;
  unsigned protection;
};

// Checks a burst against AXI4 and this machine's own limits.
inline void check_burst(Shared &shared, const char *channel, const Burst &burst, const Attributes &attributes,
                        unsigned beat_bytes) {
  const uint64_t last = burst.address + static_cast<uint64_t>(burst.beats) * beat_bytes - 1;
  shared.require((1u << attributes.size) == beat_bytes, channel, "have the size of a beat");
  shared.require(attributes.type == 1, channel, "be an incrementing burst");
  shared.require(attributes.cache == 3, channel, "be to normal memory, not cached, bufferable");
  shared.require(attributes.protection == 0, channel, "be an unprivileged, secure access to data");
  shared.require(burst.address % beat_bytes == 0, channel, "start at a multiple of a beat");
  shared.require(burst.address / 4096 == last / 4096, channel, "not cross a multiple of 4096");
  shared.require(burst.beats <= shared.parameters.burst_beats * kPorts, channel, "not exceed burst_beats");
}

}  // namespace vdla

#endif
