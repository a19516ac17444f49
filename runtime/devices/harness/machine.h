// SPDX-License-Identifier: Apache-2.0
// The model with its clock, memory, control port and event log.
// A cycle is settle(), which evaluates the outputs, then tick(), the rising clock edge. The clock of
// an array at twice the rate rises with that edge and in the middle of the cycle, where clk_i falls.

#ifndef VDLA_MACHINE_H_
#define VDLA_MACHINE_H_

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "Vvdla.h"
#include "memories.h"
#include "read_channel.h"
#include "verilated.h"
#include "write_channel.h"
#ifdef VDLA_SAIF
#include "verilated_saif_c.h"
using Waves = VerilatedSaifC;
#elif defined VDLA_WAVES
#include "verilated_fst_c.h"
using Waves = VerilatedFstC;
#endif

namespace vdla {

constexpr bool kDoubleRate = VDLA_ARRAY_RATE == 2;  // otherwise clk2x_i costs no time
constexpr unsigned kTimes = kDoubleRate ? 4 : 2;  // of a waveform in a cycle
constexpr unsigned kUnits = 3;
constexpr unsigned kEvents = 1 + 2 * kUnits;  // dispatch, started by unit, ended by unit
constexpr unsigned kResetCycles = 16;  // as AXI's cores ask for; registers without a reset settle meanwhile
constexpr unsigned kQuietCycle = 2;    // of the reset: it reaches the core at its second clock edge
constexpr unsigned kControlCycles = 10000;  // limit for a response of the control port

// Failed assertions of the model, reported by the hooks in harness.cpp.
extern thread_local std::string model_messages;
extern thread_local bool model_stopped;

// The pins of the control port in a cycle; layout shared with rtl_library.py.
struct ControlInputs {
  uint32_t awaddr, awvalid, wdata, wstrb, wvalid, bready, araddr, arvalid, rready;
};
struct ControlOutputs {
  uint32_t awready, wready, bresp, bvalid, arready, rdata, rresp, rvalid, irq;
};

class Machine {
 public:
  // `start` seeds the registers and memories of the model at power-up; 0 starts them with 0. `argument`: a plusarg
  // of the model, or null.
  Machine(uint8_t *data, uint64_t bytes, uint32_t start, const char *argument)
      : shared_(Memory(data, bytes)), top_(prepared(context_, start, argument)), writes_(shared_) {
    for (unsigned port = 0; port < kPorts; ++port) reads_.emplace_back(shared_, port);
    shared_.parameters.beat_cycles = 1;
    shared_.parameters.burst_beats = 256;
    model_messages.clear();
    model_stopped = false;
  }

  ~Machine() {
    top_.final();
    close_waves();
    Verilated::threadContextp(&context_);  // the public memories leave the scopes of the thread's context
  }

  void open_waves(const char *path, uint64_t first, uint64_t last);
  void close_waves();

  void reset() {
    top_.s_axil_awvalid_i = top_.s_axil_wvalid_i = top_.s_axil_bready_i = 0;
    top_.s_axil_arvalid_i = top_.s_axil_rready_i = 0;
    top_.rst_ni = 1;
    settle();
    top_.rst_ni = 0;
    for (unsigned n = 0; n < kResetCycles; ++n) {
      settle();
      const bool quiet = !(top_.m_axi_arvalid_o || top_.m_axi_awvalid_o || top_.m_axi_wvalid_o);
      shared_.require(quiet || n < kQuietCycle, "every channel", "be quiet in reset");
      edge();
    }
    top_.rst_ni = 1;
  }

  void configure(const Parameters &parameters) {
    shared_.parameters = parameters;
    shared_.banks.close_all(parameters);
    shared_.error_address = kNoAddress;
    shared_.stalls.configure(parameters.stalls != 0, parameters.seed);
    for (auto &reads : reads_) reads.restart_count();
    writes_.restart_count();
  }

  void map(std::vector<Window> windows) { shared_.memory.map(std::move(windows)); }

  void forget_events() {
    for (auto &times : events_) times.clear();
    running_cycles_ = shared_.bytes_read = shared_.bytes_written = 0;
  }

  // The AXI response, or -1 for none.
  int write(uint32_t offset, uint32_t value);
  int read(uint32_t offset, uint32_t *value);

  ControlOutputs control_cycle(const ControlInputs &inputs);

  // Runs until the interrupt line is high (1), a fault occurs (-1) or `cycles` have passed (0).
  int wait(uint64_t cycles) {
    for (uint64_t n = 0; n < cycles; ++n) {
      settle();
      if (top_.irq_o) return 1;
      tick();
      if (!shared_.fault.empty()) return -1;
    }
    return 0;
  }

  const std::vector<uint64_t> &events(unsigned kind) const { return events_[kind]; }
  uint64_t quiet_cycles() const { return shared_.cycle - shared_.last_active; }
  uint64_t bytes_read() const { return shared_.bytes_read; }
  uint64_t bytes_written() const { return shared_.bytes_written; }
  uint64_t bursts_read() const {
    return std::accumulate(reads_.begin(), reads_.end(), uint64_t{0},
                           [](uint64_t sum, const auto &reads) { return sum + reads.bursts(); });
  }
  uint64_t bursts_written() const { return writes_.bursts(); }
  uint64_t error_address() const { return shared_.error_address; }
  uint64_t running_cycles() const { return running_cycles_; }
  uint64_t wave_time(uint64_t cycle) const { return kTimes * (run_begin_ + cycle) - kTimes / 2; }  // of the clock edge
  const std::string &fault() const { return shared_.fault; }
  bool memory_idle() const {
    return writes_.idle() && std::all_of(reads_.begin(), reads_.end(), [](const auto &reads) { return reads.idle(); });
  }
  std::vector<ModelMemory> memories() { return model_memories(context_); }

 private:
  static VerilatedContext *prepared(VerilatedContext &context, uint32_t start, const char *argument) {
    const char *arguments[] = {"vdla", argument};
    context.commandArgs(argument == nullptr ? 1 : 2, arguments);
    context.randReset(start == 0 ? 0 : 2);
    context.randSeed(start == 0 ? 1 : static_cast<int>(start));
    return &context;
  }

  void settle() {
    for (auto &reads : reads_) reads.drive(top_);
    writes_.drive(top_);
    top_.clk_i = 0;
    top_.clk2x_i = kDoubleRate;
    top_.eval();
    dump(kTimes * shared_.cycle);
  }

  void tick() {
    observe(top_.trace_o);
    for (auto &reads : reads_) reads.sample(top_);
    writes_.sample(top_);
    edge();
  }

  void edge() {
    if (kDoubleRate) lower_clk2x(1);
    top_.clk_i = 1;
    top_.clk2x_i = kDoubleRate;
    top_.eval();
    dump(kTimes * shared_.cycle + kTimes / 2);
    if (kDoubleRate) lower_clk2x(kTimes / 2 + 1);
    ++shared_.cycle;
    if (model_stopped && shared_.fault.empty()) {
      shared_.require(false, "the model", "not stop");
      shared_.fault += ": " + model_messages;
    }
  }

  void lower_clk2x(unsigned time) {
    top_.clk2x_i = 0;
    top_.eval();
    dump(kTimes * shared_.cycle + time);
  }

  // trace_t: running, dispatch, started[2:0], ended[2:0].
  void observe(unsigned trace) {
    // After an error some events follow the last counted cycle, until the halt has reached all units.
    if (trace & 0x7F) {
      if (trace & 0x40) events_[0].push_back(running_cycles_);
      for (unsigned unit = 0; unit < kUnits; ++unit) {
        if (trace >> (3 + unit) & 1) events_[1 + unit].push_back(running_cycles_);
        if (trace >> unit & 1) events_[1 + kUnits + unit].push_back(running_cycles_);
      }
      shared_.last_active = shared_.cycle;
    }
    if (trace & 0x80) {
      if (running_cycles_ == 0) run_begin_ = shared_.cycle - 1;  // the trace port is a cycle late
      ++running_cycles_;
      ++shared_.run_cycle;
    } else if (shared_.run_cycle > 0) {
      shared_.run_cycle = 0;
      shared_.banks.close_all(shared_.parameters);
    }
  }

  void dump(uint64_t time);

  Shared shared_;
  VerilatedContext context_;
  Vvdla top_;
  std::vector<ReadChannel<Vvdla>> reads_;  // one for each port
  WriteChannel<Vvdla> writes_;
  std::array<std::vector<uint64_t>, kEvents> events_;
  uint64_t running_cycles_ = 0;
  uint64_t run_begin_ = 0;  // the cycle since power-up in which the last run began
  uint64_t first_wave_ = 0, last_wave_ = ~uint64_t{0};  // cycles of a run that waveforms have
#ifdef VDLA_WAVES
  std::unique_ptr<Waves> waves_;
#endif
};

// --- waves

#ifdef VDLA_WAVES
inline void Machine::open_waves(const char *path, uint64_t first, uint64_t last) {
  first_wave_ = first;
  last_wave_ = last;
  context_.traceEverOn(true);
  waves_ = std::make_unique<Waves>();
  top_.trace(waves_.get(), 99);
  waves_->open(path);
  shared_.require(waves_->isOpen(), "the file of waves", "be writable");
}
inline void Machine::close_waves() {
  if (waves_) waves_->close();
  waves_.reset();
}
inline void Machine::dump(uint64_t time) {
  const uint64_t cycle = running_cycles_ + 1;  // of the run, in which it is not yet counted
  if (waves_ && cycle >= first_wave_ && cycle <= last_wave_) waves_->dump(time);
}
#else
inline void Machine::open_waves(const char *, uint64_t, uint64_t) { shared_.require(false, "the library", "be built for waves"); }
inline void Machine::close_waves() {}
inline void Machine::dump(uint64_t) {}
#endif

// --- the control port

inline int Machine::write(uint32_t offset, uint32_t value) {
  const unsigned address_delay = shared_.stalls.on() ? shared_.stalls.below(4) : 0;
  const unsigned data_delay = shared_.stalls.on() ? shared_.stalls.below(4) : 0;
  bool address_taken = false, data_taken = false;
  int response = -1;
  top_.s_axil_awaddr_i = offset;
  top_.s_axil_wdata_i = value;
  top_.s_axil_wstrb_i = 0xF;
  for (unsigned n = 0; n < kControlCycles && response < 0 && shared_.fault.empty(); ++n) {
    top_.s_axil_awvalid_i = !address_taken && n >= address_delay;
    top_.s_axil_wvalid_i = !data_taken && n >= data_delay;
    top_.s_axil_bready_i = shared_.stalls.go(kControl);
    settle();
    if (top_.s_axil_bvalid_o && top_.s_axil_bready_i) {
      shared_.require(address_taken && data_taken, "BVALID of the control port", "follow address and data");
      response = top_.s_axil_bresp_o;
    }
    address_taken |= top_.s_axil_awvalid_i && top_.s_axil_awready_o;
    data_taken |= top_.s_axil_wvalid_i && top_.s_axil_wready_o;
    tick();
  }
  top_.s_axil_awvalid_i = top_.s_axil_wvalid_i = top_.s_axil_bready_i = 0;
  return response;
}

inline int Machine::read(uint32_t offset, uint32_t *value) {
  bool taken = false;
  int response = -1;
  top_.s_axil_araddr_i = offset;
  for (unsigned n = 0; n < kControlCycles && response < 0 && shared_.fault.empty(); ++n) {
    top_.s_axil_arvalid_i = !taken;
    top_.s_axil_rready_i = shared_.stalls.go(kControl);
    settle();
    if (top_.s_axil_rvalid_o && top_.s_axil_rready_i) {
      shared_.require(taken, "RVALID of the control port", "follow the address");
      response = top_.s_axil_rresp_o;
      *value = top_.s_axil_rdata_o;
    }
    taken |= top_.s_axil_arvalid_i && top_.s_axil_arready_o;
    tick();
  }
  top_.s_axil_arvalid_i = top_.s_axil_rready_i = 0;
  return response;
}

inline ControlOutputs Machine::control_cycle(const ControlInputs &inputs) {
  top_.s_axil_awaddr_i = inputs.awaddr;
  top_.s_axil_awvalid_i = inputs.awvalid;
  top_.s_axil_wdata_i = inputs.wdata;
  top_.s_axil_wstrb_i = inputs.wstrb;
  top_.s_axil_wvalid_i = inputs.wvalid;
  top_.s_axil_bready_i = inputs.bready;
  top_.s_axil_araddr_i = inputs.araddr;
  top_.s_axil_arvalid_i = inputs.arvalid;
  top_.s_axil_rready_i = inputs.rready;
  settle();
  const ControlOutputs outputs{top_.s_axil_awready_o, top_.s_axil_wready_o, top_.s_axil_bresp_o,
                               top_.s_axil_bvalid_o,  top_.s_axil_arready_o, top_.s_axil_rdata_o,
                               top_.s_axil_rresp_o,   top_.s_axil_rvalid_o,  top_.irq_o};
  tick();
  return outputs;
}

}  // namespace vdla

#endif
