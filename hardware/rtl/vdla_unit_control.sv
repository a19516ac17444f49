// SPDX-License-Identifier: Apache-2.0
// The control of a unit: starts instructions when their tokens are available, ends them in order,
// classifies each cycle (docs/timing-contract.md, sections 4 to 6).
//
// Contract: cmd_take_o is the start S and pops the command and all its tokens in that cycle.
// complete_i is a pulse in the cycle C in which the oldest incomplete instruction other than a SYNC
// completes; a SYNC completes in the cycle after its start. ended_o is the end E and pushes all
// tokens: the first cycle from C, and after the previous end, in which every queue has room.
// allow_i is the unit's condition for a start: the issue stage is free and fewer than its limit, at
// most InFlight, are in flight. halt_i: no start or end from the next cycle on. Latency 0, from
// registers if the inputs are; one start and one end per cycle.

`default_nettype none

module vdla_unit_control
  import vdla_types_pkg::*;
#(
  parameter int unsigned InFlight = 4,
  parameter counter_e Held = CntBusy,  // the counter of waiting for instructions in flight
  parameter counter_e PopPrev = CntBusy,  // the counters of waiting for the four queues
  parameter counter_e PopNext = CntBusy,
  parameter counter_e PushPrev = CntBusy,
  parameter counter_e PushNext = CntBusy,
  localparam int unsigned LevelBits = unsigned'($clog2(InFlight + 1))
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,
  input  logic                 halt_i,
  // The head of the command queue.
  input  logic                 cmd_valid_i,
  input  tokens_t              cmd_tokens_i,
  input  logic                 cmd_sync_i,
  output logic                 cmd_take_o,
  // The token queues, from the registers of their levels.
  input  logic                 prev_available_i,
  input  logic                 next_available_i,
  output logic                 prev_pop_o,
  output logic                 next_pop_o,
  input  logic                 prev_room_i,
  input  logic                 next_room_i,
  output logic                 prev_push_o,
  output logic                 next_push_o,
  // The unit's work.
  input  logic                 allow_i,
  input  logic                 complete_i,
  output logic [LevelBits-1:0] in_flight_o,
  output logic                 ended_o,
  // The counter of a cycle.
  input  logic                 current_i,          // S < t < F of an instruction
  input  counter_e             current_class_i,
  input  logic                 current_waits_i,    // it cannot begin before the previous one ends
  input  logic                 covered_i,
  input  counter_e             covered_class_i,
  output counter_e             class_o,            // of this cycle, if not tentative
  output logic                 tentative_o         // `commands` if a command follows, else class_o
);

  typedef logic [LevelBits-1:0] level_t;

  // The fields of an instruction that its end needs.
  typedef struct packed {
    logic push_next;
    logic push_prev;
    logic sync;
  } flight_t;

  flight_t starting, oldest;
  logic    none_in_flight, tokens_there, oldest_complete;
  logic    prev_full, next_full, blocked;
  level_t  done_q;      // complete instructions that have not ended, without SYNCs
  logic    any_done_q;  // there are some
  logic    halt_q;      // the unit's own copy

  always_ff @(posedge clk_i) begin
    halt_q <= halt_i;
  end

  // --- starts

  assign tokens_there = (prev_available_i || !cmd_tokens_i.pop_prev)
                     && (next_available_i || !cmd_tokens_i.pop_next);
  assign cmd_take_o = cmd_valid_i && tokens_there && allow_i && !halt_q;
  assign prev_pop_o = cmd_take_o && cmd_tokens_i.pop_prev;
  assign next_pop_o = cmd_take_o && cmd_tokens_i.pop_next;

  assign starting = '{
    push_next: cmd_tokens_i.push_next,
    push_prev: cmd_tokens_i.push_prev,
    sync: cmd_sync_i
  };

  vdla_fifo #(
    .T    (flight_t),
    .Depth(InFlight)
  ) u_flight (
    .clk_i,
    .rst_ni,
    .push_i (cmd_take_o),
    .data_i (starting),
    .full_o (),
    .head_o (oldest),
    .empty_o(none_in_flight),
    .pop_i  (ended_o),
    .level_o(in_flight_o)
  );

  // --- ends

  assign oldest_complete = !none_in_flight && (oldest.sync || any_done_q || complete_i);
  assign prev_full = oldest.push_prev && !prev_room_i;
  assign next_full = oldest.push_next && !next_room_i;
  assign blocked = oldest_complete && (prev_full || next_full);
  assign ended_o = oldest_complete && !prev_full && !next_full && !halt_q;
  assign prev_push_o = ended_o && oldest.push_prev;
  assign next_push_o = ended_o && oldest.push_next;

  logic ends_work;
  assign ends_work = ended_o && !oldest.sync;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      done_q     <= '0;
      any_done_q <= 1'b0;
    end else if (complete_i && !ends_work) begin
      done_q     <= done_q + 1'b1;
      any_done_q <= 1'b1;
    end else if (ends_work && !complete_i) begin
      done_q     <= done_q - 1'b1;
      any_done_q <= done_q != level_t'(1);
    end
  end

  // --- the counter of the cycle

  counter_e held;

  always_comb begin
    held = Held;
    if (blocked) held = prev_full ? PushPrev : PushNext;
  end

  always_comb begin
    if (covered_i) class_o = covered_class_i;
    else if (cmd_take_o) class_o = CntBusy;
    else if (current_i && !current_waits_i) class_o = current_class_i;
    else if (current_i) class_o = blocked ? held : CntBusy;
    else if (!cmd_valid_i) class_o = none_in_flight ? CntIdle : held;
    else if (cmd_tokens_i.pop_prev && !prev_available_i) class_o = PopPrev;
    else if (cmd_tokens_i.pop_next && !next_available_i) class_o = PopNext;
    else class_o = held;
  end

  assign tentative_o = !covered_i && !current_i && !cmd_valid_i;

`ifndef SYNTHESIS
  // The unit keeps to the limit of instructions in flight.
  FlightHasRoom_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      cmd_take_o |-> in_flight_o < level_t'(InFlight));
  // No start while an instruction occupies the issue stage.
  IssueIsFree_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      current_i |-> !cmd_take_o);
  // Only an instruction in flight completes.
  CompleteInFlight_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      complete_i |-> done_q < in_flight_o);
  // No push into a full queue, no pop from an empty one.
  PushHasRoom_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      (prev_push_o |-> prev_room_i) and (next_push_o |-> next_room_i));
  PopHasToken_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      (prev_pop_o |-> prev_available_i) and (next_pop_o |-> next_available_i));
  // An end waits for room in a queue; all that may be in flight is; a SYNC ends behind another.
  Blocked_C: cover property (@(posedge clk_i) disable iff (!rst_ni) blocked);
  FlightIsFull_C: cover property (@(posedge clk_i) disable iff (!rst_ni)
      in_flight_o == level_t'(InFlight));
  SyncWaits_C: cover property (@(posedge clk_i) disable iff (!rst_ni)
      ended_o && !oldest.sync && cmd_take_o && cmd_sync_i);
`endif

endmodule

`default_nettype wire
