// SPDX-License-Identifier: Apache-2.0
// The load unit: LOADs of inputs, weights and scales, in order, several in flight.
//
// Contract: docs/timing-contract.md, section 5. Commands and tokens come from registered queues;
// writes go to the buffers one cycle after the beat or the padding, without back-pressure. One
// burst and one beat per cycle.

`default_nettype none

module vdla_load
  import vdla_pkg::*;
  import vdla_types_pkg::*;
  import vdla_regs_pkg::*;
(
  input  logic                       clk_i,
  input  logic                       rst_ni,
  input  logic                       halt_i,
  // The head of the command queue.
  input  logic                       cmd_valid_i,
  input  command_t                   cmd_i,
  output logic                       cmd_take_o,
  // The token queues from and to compute.
  input  logic                       next_available_i,
  output logic                       next_pop_o,
  input  logic                       next_room_i,
  output logic                       next_push_o,
  // The read channel.
  input  logic [ReadLatencyBits-1:0] read_latency_i,
  output logic                       burst_valid_o,
  output burst_t                     burst_o,
  input  logic                       burst_grant_i,
  input  logic                       beat_valid_i,
  input  beat_t                      beat_data_i,
  input  logic                       beat_last_i,
  // The buffers.
  output logic                       write_valid_o,
  output buffer_write_t              write_o,
  // For observers.
  output logic                       busy_o,  // an instruction is in flight
  output logic                       ended_o,
  output counter_e                   class_o,
  output logic                       tentative_o
);

  localparam int unsigned LevelBits = $clog2(LoadsInFlight + 1);
  typedef logic [LevelBits-1:0] level_t;

  load_t                head;
  tokens_t              tokens;
  logic                 sync;
  level_t               in_flight;
  logic                 engine_busy, requesting, padding_waits, complete;
  logic                 covered;
  counter_e             covered_class;
  logic                 unused_bits;

  assign head   = load_t'(cmd_i.word);
  assign sync   = head.opcode == OpSync;
  assign tokens = '{
    push_next: head.push_next,
    push_prev: head.push_prev,
    pop_next: head.pop_next,
    pop_prev: head.pop_prev
  };
  assign unused_bits = ^{head, tokens};

  vdla_unit_control #(
    .InFlight(LoadsInFlight),
    .Held    (CntBusy),
    .PopNext (CntWaitComputeToLoad),
    .PushNext(CntWaitLoadToCompute)
  ) u_control (
    .clk_i,
    .rst_ni,
    .halt_i,
    .cmd_valid_i,
    .cmd_tokens_i    (tokens),
    .cmd_sync_i      (sync),
    .cmd_take_o,
    .prev_available_i(1'b1),
    .next_available_i,
    .prev_pop_o      (),
    .next_pop_o,
    .prev_room_i     (1'b1),
    .next_room_i,
    .prev_push_o     (),
    .next_push_o,
    .allow_i         (!engine_busy && in_flight < level_t'(LoadsInFlight)),
    .complete_i      (complete),
    .in_flight_o     (in_flight),
    .ended_o,
    .current_i       (engine_busy),
    .current_class_i (requesting ? CntMemoryBandwidth : CntBusy),
    .current_waits_i (padding_waits),
    .covered_i       (covered),
    .covered_class_i (covered_class),
    .class_o,
    .tentative_o
  );

  vdla_load_engine u_engine (
    .clk_i,
    .rst_ni,
    .start_i        (cmd_take_o && !sync),
    .command_i      (cmd_i),
    .alone_i        (in_flight == level_t'(1)),
    .busy_o         (engine_busy),
    .requesting_o   (requesting),
    .padding_waits_o(padding_waits),
    .burst_valid_o,
    .burst_o,
    .burst_grant_i,
    .beat_valid_i,
    .beat_data_i,
    .write_valid_o,
    .write_o,
    .complete_o     (complete)
  );

  vdla_read_monitor u_monitor (
    .clk_i,
    .rst_ni,
    .latency_i(read_latency_i),
    .grant_i  (burst_grant_i),
    .beat_i   (beat_valid_i),
    .last_i   (beat_last_i),
    .covered_o(covered),
    .class_o  (covered_class)
  );

  assign busy_o = in_flight != '0;

endmodule

`default_nettype wire
