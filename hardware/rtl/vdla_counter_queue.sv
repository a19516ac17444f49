// A token queue: a FIFO without data, so a counter.
//
// Contract: no push without room_o, no pop without available_o. Both are registered: a token pushed
// in cycle t is available from t + 1, and a pop in t makes room from t + 1. One push and one pop
// per cycle.

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

  level_t level_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) level_q <= '0;
    else level_q <= level_q + level_t'(push_i) - level_t'(pop_i);
  end

  assign available_o = level_q != '0;
  assign room_o      = level_q != level_t'(Depth);
  assign level_o     = level_q;

`ifndef SYNTHESIS
  // No push into a full queue, no pop from an empty one.
  PushHasRoom_A: assert property (@(posedge clk_i) disable iff (!rst_ni) push_i |-> room_o);
  PopHasToken_A: assert property (@(posedge clk_i) disable iff (!rst_ni) pop_i |-> available_o);
  // The level stays in its range.
  LevelInRange_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      level_q <= level_t'(Depth));
`endif

endmodule
