// SPDX-License-Identifier: Apache-2.0
// The write channels of the memory, by section 2 of the timing contract. Data may precede its address.

#ifndef VDLA_WRITE_CHANNEL_H_
#define VDLA_WRITE_CHANNEL_H_

#include <array>
#include <deque>

#include "memory.h"

namespace vdla {

template <typename Top>
class WriteChannel {
 public:
  explicit WriteChannel(Shared &shared) : shared_(shared) {}

  void drive(Top &top) {
    const bool stalls = shared_.stalls.on();
    top.m_axi_awready_i = shared_.stalls.go(kAw);
    top.m_axi_wready_i = stalls ? shared_.stalls.go(kW) : shared_.cycle >= next_;
    if (!offering_ && !responses_.empty()) offer(top);
    top.m_axi_bvalid_i = offering_;
  }

  void sample(const Top &top) {
    sample_address(top);
    sample_data(top);
    store();
    if (offering_ && top.m_axi_bready_o) {
      responses_.pop_front();
      offering_ = false;
      shared_.last_active = shared_.cycle;
    }
  }

  bool idle() const { return bursts_.empty() && beats_.empty() && responses_.empty(); }

  void restart_count() { requested_ = 0; }
  uint64_t bursts() const { return requested_; }

 private:
  static constexpr unsigned kBytes = sizeof(Top::m_axi_wdata_o);

  struct Beat {
    std::array<uint8_t, kBytes> data{};
    uint64_t strobes = 0;
    bool last = false;

    bool operator==(const Beat &other) const {
      return data == other.data && strobes == other.strobes && last == other.last;
    }
  };
  struct Answer {
    unsigned id;
    Response response;
    uint64_t due;
  };

  void offer(Top &top) {
    const Answer &answer = responses_.front();
    if (shared_.stalls.on() ? !shared_.stalls.go(kB) : shared_.cycle < answer.due) return;
    top.m_axi_bid_i = answer.id;
    top.m_axi_bresp_i = answer.response;
    offering_ = true;
  }

  void sample_address(const Top &top) {
    if (!top.m_axi_awvalid_o) {
      shared_.require(!address_waiting_, "AWVALID", "stay until AWREADY");
      return;
    }
    Burst burst{top.m_axi_awaddr_o, top.m_axi_awlen_o + 1u, top.m_axi_awid_o, shared_.cycle, requested_};
    shared_.require(!address_waiting_ || burst == presented_, "AW", "not change until AWREADY");
    presented_ = burst;
    address_waiting_ = !top.m_axi_awready_i;
    if (address_waiting_) return;
    check_burst(shared_, "AW", burst,
                {top.m_axi_awsize_o, top.m_axi_awburst_o, top.m_axi_awcache_o, top.m_axi_awprot_o}, kBytes);
    bursts_.push_back(burst);
    ++requested_;
    shared_.last_active = shared_.cycle;
  }

  void sample_data(const Top &top) {
    if (!top.m_axi_wvalid_o) {
      shared_.require(!data_waiting_, "WVALID", "stay until WREADY");
      return;
    }
    Beat beat;
    std::memcpy(beat.data.data(), &top.m_axi_wdata_o, kBytes);
    beat.strobes = top.m_axi_wstrb_o;
    beat.last = top.m_axi_wlast_o;
    shared_.require(!data_waiting_ || beat == offered_, "W", "not change until WREADY");
    offered_ = beat;
    data_waiting_ = !top.m_axi_wready_i;
    if (data_waiting_) return;
    next_ = shared_.cycle + shared_.parameters.beat_cycles + (beat.last ? shared_.parameters.burst_gap : 0);
    beats_.push_back(beat);
    shared_.bytes_written += static_cast<unsigned>(__builtin_popcountll(beat.strobes));
    shared_.last_active = shared_.cycle;
  }

  // Writes the beats whose address has arrived; the last beat of a burst queues its response.
  void store() {
    while (!bursts_.empty() && !beats_.empty()) {
      Burst &burst = bursts_.front();
      const Beat &beat = beats_.front();
      const uint64_t address = burst.address + static_cast<uint64_t>(burst.done) * kBytes;
      if (burst.done == 0) begin(burst);
      if (response_ == kOkay) write(address, beat);
      const bool last = ++burst.done == burst.beats;
      shared_.require(last == beat.last, "WLAST", "come with the last beat of a burst, and only there");
      beats_.pop_front();
      if (!last) continue;
      responses_.push_back({burst.id, response_, shared_.cycle + shared_.parameters.write_latency});
      bursts_.pop_front();
    }
  }

  void begin(const Burst &burst) {
    response_ = respond(burst);
    shared_.banks.serve(shared_.parameters, shared_.run_cycle, burst.address, burst.beats * kBytes, true);
  }

  Response respond(const Burst &burst) {
    if (shared_.memory.find(burst.address, static_cast<uint64_t>(burst.beats) * kBytes) == nullptr) return kDecErr;
    const Parameters &p = shared_.parameters;
    if (p.error_channel != kWrite || burst.number != p.error_burst) return kOkay;
    shared_.error_address = burst.address;
    return static_cast<Response>(p.error_response);
  }

  void write(uint64_t address, const Beat &beat) {
    uint8_t *data = shared_.memory.find(address, kBytes);
    for (unsigned lane = 0; lane < kBytes; ++lane) {
      if (beat.strobes >> lane & 1) data[lane] = beat.data[lane];
    }
  }

  Shared &shared_;
  std::deque<Burst> bursts_;  // whose data is incomplete
  std::deque<Beat> beats_;    // whose address has not arrived
  std::deque<Answer> responses_;
  Response response_ = kOkay;  // of the oldest burst
  Burst presented_;
  Beat offered_;
  bool address_waiting_ = false;
  bool data_waiting_ = false;
  bool offering_ = false;
  uint64_t next_ = 0;  // earliest cycle of the next beat
  uint64_t requested_ = 0;
};

}  // namespace vdla

#endif
