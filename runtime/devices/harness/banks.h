// SPDX-License-Identifier: Apache-2.0
// The memory behind the ports, by section 2 of the timing contract: one bus, banks with an open page each, refresh.
// Positions on the bus are in bytes since cycle 0 of the run.

#ifndef VDLA_BANKS_H_
#define VDLA_BANKS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "parameters.h"

namespace vdla {

class Banks {
 public:
  void close_all(const Parameters &parameters) {
    banks_.assign(parameters.banks, Bank{});
    bus_free_ = 0;
    writing_ = false;
  }

  // The cycles that a burst which comes in a cycle of the run waits, served after all earlier ones.
  uint64_t serve(const Parameters &p, uint64_t cycle, uint64_t address, uint64_t bytes, bool write) {
    if (p.bus_bytes == 0) return 0;
    const uint64_t page = address / p.page_bytes;
    Bank &bank = banks_[page % p.banks];
    const uint64_t turn = write == writing_ ? 0 : uint64_t{p.turnaround} * p.bus_bytes;
    uint64_t begin = std::max(cycle * p.bus_bytes, bus_free_ + turn);
    const uint64_t refresh = p.refresh_interval == 0 ? 0 : begin / p.bus_bytes / p.refresh_interval;
    const uint64_t refreshed = refresh == 0 ? 0 : refresh * p.refresh_interval + p.refresh_cycles;
    begin = std::max(begin, refreshed * p.bus_bytes);
    const Bank wanted{true, page / p.banks, refresh, 0};
    if (!bank.has_open(wanted)) {
      const uint64_t opened = std::max({cycle, bank.free, refreshed}) + p.page_miss;
      begin = std::max(begin, opened * p.bus_bytes);
    }
    bus_free_ = begin + bytes;
    writing_ = write;
    bank = wanted;
    bank.free = cycles(bus_free_, p);
    return cycles(begin, p) - cycle;
  }

 private:
  struct Bank {
    bool open = false;
    uint64_t row = 0;
    uint64_t refresh = 0;  // refreshes before the row was opened
    uint64_t free = 0;     // end of its last burst, in cycles

    bool has_open(const Bank &wanted) const { return open && row == wanted.row && refresh == wanted.refresh; }
  };

  static uint64_t cycles(uint64_t position, const Parameters &p) { return (position + p.bus_bytes - 1) / p.bus_bytes; }

  std::vector<Bank> banks_;
  uint64_t bus_free_ = 0;
  bool writing_ = false;
};

}  // namespace vdla

#endif
