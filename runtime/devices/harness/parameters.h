// SPDX-License-Identifier: Apache-2.0
// The parameters of the memory: the timing contract's, and an injected error.

#ifndef VDLA_PARAMETERS_H_
#define VDLA_PARAMETERS_H_

#include <cstdint>

namespace vdla {

enum Response : uint8_t { kOkay = 0, kSlvErr = 2, kDecErr = 3 };
enum Injected : uint32_t { kNone = 0, kRead = 1, kWrite = 2 };

// Layout shared with rtl_library.py; the first four are in cycles.
struct Parameters {
  uint32_t read_latency;
  uint32_t write_latency;
  uint32_t beat_cycles;
  uint32_t burst_gap;
  uint32_t burst_beats;     // largest burst, in beats of all ports together
  uint32_t stalls;          // random back-pressure instead of the latencies
  uint32_t seed;            // of the back-pressure
  uint32_t error_channel;   // Injected
  uint32_t error_burst;     // number of the burst on that channel, from 0; reads: of all ports, in turn
  uint32_t error_beat;      // beat of a read burst at its port, from 0
  uint32_t error_response;  // Response
  uint32_t bus_bytes;       // 0: the memory behind the ports is never the limit
  uint32_t banks;
  uint32_t page_bytes;
  uint32_t page_miss;        // this and the next three in cycles
  uint32_t refresh_interval;
  uint32_t refresh_cycles;
  uint32_t turnaround;
};

}  // namespace vdla

#endif
