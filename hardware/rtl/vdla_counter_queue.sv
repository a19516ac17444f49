// SPDX-License-Identifier: Apache-2.0
// A token queue: a FIFO without data, so a counter.
//
// Contract: no push without room_o, no pop without available_o. All outputs are registers: a token
// pushed in cycle t is available from t + 1, and a pop in t makes room from t + 1. One push and one
// pop per cycle.

`default_nettype none

module vdla_counter_queue #(
  parameter int unsigned Depth = 4,
  localparam int unsigned LevelBits = unsigned'($clog2(Depth + 1))
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,
  input  logic                 push_i,
  input  logic                 pop_i,
  output logic                 available_o,
  output logic                 room_o,
  output logic [LevelBits-1:0] level_o
);

  typedef logic [LevelBits-1:0] level_t;

  level_t level_q, one_more, one_less;
  logic   available_q, room_q;

  // As in vdla_fifo: pushes and pops arrive late and only select.
  assign one_more = level_q + 1'b1;
  assign one_less = ~(~level_q + 1'b1);

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      level_q     <= '0;
      available_q <= 1'b0;
      room_q      <= 1'b1;
    end else if (push_i && !pop_i) begin
      level_q     <= one_more;
      available_q <= 1'b1;
      room_q      <= level_q != level_t'(Depth - 1);
    end else if (pop_i && !push_i) begin
      level_q     <= one_less;
      available_q <= level_q != level_t'(1);
      room_q      <= 1'b1;
    end
  end

  assign available_o = available_q;
  assign room_o      = room_q;
  assign level_o     = level_q;

`ifndef SYNTHESIS
  // No push into a full queue, no pop from an empty one.
  PushHasRoom_A: assert property (@(posedge clk_i) disable iff (!rst_ni) push_i |-> room_o);
  PopHasToken_A: assert property (@(posedge clk_i) disable iff (!rst_ni) pop_i |-> available_o);
  // The level stays in its range.
  LevelInRange_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      level_q <= level_t'(Depth));
  Full_C: cover property (@(posedge clk_i) disable iff (!rst_ni) !room_o);
  PushAndPop_C: cover property (@(posedge clk_i) disable iff (!rst_ni) push_i && pop_i);
`endif

endmodule

`default_nettype wire
