// SPDX-License-Identifier: Apache-2.0
// The read channels of one port of the memory, by section 2 of the timing contract.
// With stalls, beats of different IDs are interleaved at random, which AXI allows.

#ifndef VDLA_READ_CHANNEL_H_
#define VDLA_READ_CHANNEL_H_

#include <algorithm>
#include <deque>

#include "memory.h"
#include "port_pins.h"

namespace vdla {

template <typename Top>
class ReadChannel {
 public:
  ReadChannel(Shared &shared, unsigned port) : shared_(shared), port_(port) {}

  void drive(Top &top) {
    set_pin<1>(top.m_axi_arready_i, port_, shared_.stalls.go(kAr + port_));
    if (!offering_) offer(top);
    set_pin<1>(top.m_axi_rvalid_i, port_, offering_);
  }

  void sample(const Top &top) {
    sample_address(top);
    if (offering_ && pin<1>(top.m_axi_rready_o, port_)) take();
  }

  bool idle() const { return bursts_.empty(); }

  void restart_count() { requested_ = 0; }
  uint64_t bursts() const { return requested_; }

 private:
  static constexpr unsigned kBytes = sizeof(Top::m_axi_rdata_i) / kPorts;

  void sample_address(const Top &top) {
    if (!pin<1>(top.m_axi_arvalid_o, port_)) {
      shared_.require(!waiting_, "ARVALID", "stay until ARREADY");
      return;
    }
    Burst burst{address_pins(top.m_axi_araddr_o, port_), pin<8>(top.m_axi_arlen_o, port_) + 1u,
                pin<2>(top.m_axi_arid_o, port_), shared_.cycle, requested_ * kPorts + port_};
    shared_.require(!waiting_ || burst == presented_, "AR", "not change until ARREADY");
    presented_ = burst;
    waiting_ = !pin<1>(top.m_axi_arready_i, port_);
    if (waiting_) return;
    check_burst(shared_, "AR", burst,
                {pin<3>(top.m_axi_arsize_o, port_), pin<2>(top.m_axi_arburst_o, port_),
                 pin<4>(top.m_axi_arcache_o, port_), pin<3>(top.m_axi_arprot_o, port_)},
                kBytes);
    burst.wait = shared_.banks.serve(shared_.parameters, shared_.run_cycle, burst.address, burst.beats * kBytes, false);
    bursts_.push_back(burst);
    ++requested_;
    shared_.last_active = shared_.cycle;
  }

  // Presents the next beat if one is due.
  void offer(Top &top) {
    if (bursts_.empty() || !choose()) return;
    const Burst &burst = bursts_[current_];
    const uint64_t address = burst.address + static_cast<uint64_t>(burst.done) * kBytes;
    const uint8_t *data = shared_.memory.find(address, kBytes);
    set_data_pins<kBytes>(top.m_axi_rdata_i, port_, data);
    set_pin<2>(top.m_axi_rid_i, port_, burst.id);
    set_pin<2>(top.m_axi_rresp_i, port_, data == nullptr ? kDecErr : respond(burst));
    set_pin<1>(top.m_axi_rlast_i, port_, burst.done + 1 == burst.beats);
    offering_ = true;
  }

  Response respond(const Burst &burst) {
    const Parameters &p = shared_.parameters;
    const bool hit = p.error_channel == kRead && burst.number == p.error_burst && burst.done == p.error_beat;
    if (!hit) return kOkay;
    shared_.error_address = burst.address;
    return static_cast<Response>(p.error_response);
  }

  // Sets current_ to the burst of the next beat; false if none is due.
  bool choose() {
    if (shared_.stalls.on()) return shared_.stalls.go(kR + port_) && choose_any();
    current_ = 0;
    return shared_.cycle >= std::max(bursts_[0].granted + shared_.parameters.read_latency + bursts_[0].wait, next_);
  }

  // A random burst among the oldest of each ID; most often the same as before.
  bool choose_any() {
    if (current_ < bursts_.size() && bursts_[current_].done > 0 && shared_.stalls.below(8) != 0) return true;
    current_ = shared_.stalls.below(static_cast<unsigned>(bursts_.size()));
    for (size_t older = 0; older < current_; ++older) {
      if (bursts_[older].id == bursts_[current_].id) current_ = older;
    }
    return true;
  }

  void take() {
    const Parameters &p = shared_.parameters;
    Burst &burst = bursts_[current_];
    const bool last = ++burst.done == burst.beats;
    next_ = shared_.cycle + p.beat_cycles + (last ? p.burst_gap : 0);
    if (last) {
      bursts_.erase(bursts_.begin() + static_cast<std::ptrdiff_t>(current_));
      current_ = bursts_.size();
    }
    offering_ = false;
    shared_.bytes_read += kBytes;
    shared_.last_active = shared_.cycle;
  }

  Shared &shared_;
  unsigned port_;
  std::deque<Burst> bursts_;  // outstanding, oldest first
  Burst presented_;
  bool waiting_ = false;  // ARVALID without ARREADY
  bool offering_ = false;
  size_t current_ = 0;  // the burst of the presented beat
  uint64_t next_ = 0;   // earliest cycle of the next beat
  uint64_t requested_ = 0;
};

}  // namespace vdla

#endif
