// SPDX-License-Identifier: Apache-2.0
// Random back-pressure: whether a channel may transfer in a cycle; always, when off.
// Each channel keeps a rate for a number of cycles, so long bursts and long pauses both occur.

#ifndef VDLA_STALLS_H_
#define VDLA_STALLS_H_

#include <array>
#include <cstdint>

namespace vdla {

constexpr unsigned kPorts = VDLA_AXI_PORTS;

// Each port has channels of its own: kAr + port, kR + port. Only the first one writes.
enum Channel { kAr, kR = kAr + kPorts, kAw = kR + kPorts, kW, kB, kControl, kChannels };

class Stalls {
 public:
  void configure(bool on, uint64_t seed) {
    on_ = on;
    state_ = seed * 0x9E3779B97F4A7C15u + 1;
    left_.fill(0);
  }

  bool on() const { return on_; }

  bool go(unsigned channel) {
    if (!on_) return true;
    if (left_[channel]-- == 0) {
      static constexpr unsigned kRates[] = {5, 25, 50, 90, 100};
      rate_[channel] = kRates[below(5)];
      left_[channel] = 8 + below(100);
    }
    return below(100) < rate_[channel];
  }

  // A number from 0 to limit - 1.
  unsigned below(unsigned limit) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<unsigned>((state_ >> 33) % limit);
  }

 private:
  bool on_ = false;
  uint64_t state_ = 1;
  std::array<unsigned, kChannels> left_{};
  std::array<unsigned, kChannels> rate_{};
};

}  // namespace vdla

#endif
