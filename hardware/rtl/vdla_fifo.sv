// SPDX-License-Identifier: Apache-2.0
// A first-word fall-through FIFO whose head is a register; the elements behind it are in
// distributed memory.
//
// Contract: no push while full_o, no pop while empty_o. All outputs are registered: a pop makes
// room from the next cycle, a push is visible in the next cycle. Latency 1, one push and one pop
// per cycle.

`default_nettype none

module vdla_fifo #(
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
  output logic                 empty_o,
  input  logic                 pop_i,
  output logic [LevelBits-1:0] level_o
);

  localparam int unsigned Places = Depth > 1 ? Depth - 1 : 1;  // of the memory
  localparam int unsigned IndexBits = Places > 1 ? unsigned'($clog2(Places)) : 1;

  typedef logic [IndexBits-1:0] index_t;
  typedef logic [LevelBits-1:0] level_t;

  index_t write_q, read_q;
  level_t level_q, one_more, one_less;
  logic   full_q, empty_q, stored_q;  // stored: there are elements behind the head
  logic   passes;                     // an element goes straight into the head

  T       head_q;
  (* ram_style = "distributed" *)
  T       memory_q[Places];

  // The next index; the depth need not be a power of two.
  function automatic index_t after(index_t index);
    return index == index_t'(Places - 1) ? '0 : index + 1'b1;
  endfunction

  // Pushes and pops arrive late and only select between two results; otherwise synthesis would
  // share one adder behind them.
  assign one_more = level_q + 1'b1;
  assign one_less = ~(~level_q + 1'b1);
  assign passes   = !stored_q && (pop_i || empty_q);

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      write_q  <= '0;
      read_q   <= '0;
      level_q  <= '0;
      full_q   <= 1'b0;
      empty_q  <= 1'b1;
      stored_q <= 1'b0;
    end else begin
      if (push_i && !passes) write_q <= after(write_q);
      if (pop_i && stored_q) read_q <= after(read_q);
      if (push_i && !pop_i) begin
        level_q  <= one_more;
        full_q   <= level_q == level_t'(Depth - 1);
        empty_q  <= 1'b0;
        stored_q <= !empty_q;
      end
      if (pop_i && !push_i) begin
        level_q  <= one_less;
        full_q   <= 1'b0;
        empty_q  <= !stored_q;
        stored_q <= 32'(level_q) > 2;
      end
    end
  end

  // A passing element is written too; its place stays free.
  always_ff @(posedge clk_i) begin
    if (push_i) memory_q[write_q] <= data_i;
    if (pop_i || empty_q) head_q <= stored_q ? memory_q[read_q] : data_i;
  end

  assign head_o  = head_q;
  assign full_o  = full_q;
  assign empty_o = empty_q;
  assign level_o = level_q;

`ifndef SYNTHESIS
  // No push into a full FIFO, no pop from an empty one.
  PushHasRoom_A: assert property (@(posedge clk_i) disable iff (!rst_ni) push_i |-> !full_o);
  PopHasHead_A: assert property (@(posedge clk_i) disable iff (!rst_ni) pop_i |-> !empty_o);
  // The level stays in its range.
  LevelInRange_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      level_q <= level_t'(Depth));
  // An element follows the last one, which is popped in the same cycle.
  PassesAtPop_C: cover property (@(posedge clk_i) disable iff (!rst_ni)
      push_i && pop_i && !stored_q);
  Full_C: cover property (@(posedge clk_i) disable iff (!rst_ni) full_o);
`endif

endmodule

`default_nettype wire
