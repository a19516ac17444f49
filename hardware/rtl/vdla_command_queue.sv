// SPDX-License-Identifier: Apache-2.0
// The command queue of a unit: a FIFO in distributed memory with an output register.
//
// Contract: no push while full_o, no pop unless valid_o. A command pushed at t is at the head from
// t + CommandDelay at the earliest, and a pop makes room from the next cycle; level_o counts all
// commands, empty_o says that there is none. All outputs are registered. One push and one pop per
// cycle.

`default_nettype none

module vdla_command_queue
  import vdla_pkg::*;
#(
  parameter type T = logic,
  parameter int unsigned Depth = 4,  // any number from 1
  localparam int unsigned LevelBits = unsigned'($clog2(Depth + 1))
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,
  input  logic                 push_i,
  input  T                     data_i,
  output logic                 full_o,
  output T                     head_o,
  output logic                 valid_o,
  input  logic                 pop_i,
  output logic                 empty_o,
  output logic [LevelBits-1:0] level_o
);

  localparam int unsigned IndexBits = Depth > 1 ? unsigned'($clog2(Depth)) : 1;

  typedef logic [IndexBits-1:0] index_t;
  typedef logic [LevelBits-1:0] level_t;

  // The next index; the depth need not be a power of two.
  function automatic index_t after(index_t index);
    return index == index_t'(Depth - 1) ? '0 : index + 1'b1;
  endfunction

  // --- the commands behind the head

  index_t write_q, read_q;
  level_t stored_q;         // commands in the memory
  logic   any_stored_q;
  logic   loads;            // the oldest of them becomes the head

  (* ram_style = "distributed" *)
  T       memory_q[Depth];

  assign loads = any_stored_q && (pop_i || !valid_o);

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      write_q      <= '0;
      read_q       <= '0;
      stored_q     <= '0;
      any_stored_q <= 1'b0;
    end else begin
      if (push_i) write_q <= after(write_q);
      if (loads) read_q <= after(read_q);
      if (push_i && !loads) stored_q <= stored_q + 1'b1;
      if (loads && !push_i) stored_q <= stored_q - 1'b1;
      if (push_i) any_stored_q <= 1'b1;
      else if (loads) any_stored_q <= stored_q != level_t'(1);
    end
  end

  always_ff @(posedge clk_i) begin
    if (push_i) memory_q[write_q] <= data_i;
  end

  // --- the head

  T head_q;

  always_ff @(posedge clk_i) begin
    if (pop_i || !valid_o) head_q <= memory_q[read_q];
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) valid_o <= 1'b0;
    else if (pop_i || !valid_o) valid_o <= any_stored_q;
  end

  assign head_o = head_q;

  // --- the level of all commands

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      level_o <= '0;
      full_o  <= 1'b0;
      empty_o <= 1'b1;
    end else if (push_i && !pop_i) begin
      level_o <= level_o + 1'b1;
      full_o  <= level_o == level_t'(Depth - 1);
      empty_o <= 1'b0;
    end else if (pop_i && !push_i) begin
      level_o <= level_o - 1'b1;
      full_o  <= 1'b0;
      empty_o <= level_o == level_t'(1);
    end
  end

`ifndef SYNTHESIS
  // The delay of the queue is that of the timing contract.
  if (CommandDelay != 2) begin : gen_delay
    $error("vdla_command_queue: CommandDelay must be 2");
  end
  // No push into a full queue, no pop without a head.
  PushHasRoom_A: assert property (@(posedge clk_i) disable iff (!rst_ni) push_i |-> !full_o);
  PopHasHead_A: assert property (@(posedge clk_i) disable iff (!rst_ni) pop_i |-> valid_o);
  // Every command is in the memory or at the head.
  LevelIsExact_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      level_o == stored_q + level_t'(valid_o));
  // A queue is full, and it passes a command while the next one arrives.
  Full_C: cover property (@(posedge clk_i) disable iff (!rst_ni) full_o);
  PushAndPop_C: cover property (@(posedge clk_i) disable iff (!rst_ni) push_i && pop_i);
`endif

endmodule

`default_nettype wire
