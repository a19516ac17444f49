// SPDX-License-Identifier: Apache-2.0
// The cycle counters of a unit.
//
// Contract: class_i and tentative_i describe a cycle, run_i in the next cycle says whether it
// counts. A counted cycle counts once, in its class. A tentative cycle counts in `commands` if a
// cycle that is not tentative follows, else in its class: it is counted in `commands` at once, and
// also by class in the other half of the memory, which the next cycle that is not tentative clears.
// After the run, fold_i with each class in select_i once moves these counts to their classes, from
// three cycles after the last run_i. value_o is the counter that select_i names in the cycle
// before; during a run tentative cycles are in `commands`.
//
// One counter changes per cycle, so they share a memory and an adder. Two registers are before
// them: for the class of a cycle, then for the place of its counter and whether that was written.

`default_nettype none

module vdla_counters
  import vdla_types_pkg::*;
(
  input  logic                   clk_i,
  input  logic                   rst_ni,
  input  logic                   clear_i,
  input  counter_e               class_i,
  input  logic                   tentative_i,
  input  logic                   run_i,
  input  logic                   fold_i,
  input  logic [3:0]             select_i,
  output logic [CounterBits-1:0] value_o
);

  typedef logic [CounterBits-1:0] count_t;
  typedef logic [4:0] place_t;  // the half of tentative cycles is the upper one

  // --- the cycle, then the places that it changes and that is read

  counter_e class_q;
  logic     tentative_q;
  logic     clear_q, count_q, fold_q, settles_q, command_q;
  place_t   place_d, place_q, other_d, other_q;

  assign place_d = fold_i ? {1'b0, select_i} : {tentative_q, class_q};
  assign other_d = {fold_i, select_i};

  always_ff @(posedge clk_i) begin
    class_q     <= class_i;
    tentative_q <= tentative_i;
    settles_q   <= !tentative_q;
    command_q   <= tentative_q || class_q == CntCommands;
    place_q     <= place_d;
    other_q     <= other_d;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      clear_q <= 1'b0;
      count_q <= 1'b0;
      fold_q  <= 1'b0;
    end else begin
      clear_q <= clear_i;
      count_q <= run_i && !fold_i;
      fold_q  <= fold_i;
    end
  end

  // --- the memory, and which of its entries were written since the last clear

  (* ram_style = "distributed" *)
  count_t      memory_q[32];
  logic [31:0] valid_d, valid_q;
  logic        place_valid_q, other_valid_q;
  count_t      value, other_value;

  assign value       = place_valid_q ? memory_q[place_q] : '0;
  assign other_value = other_valid_q ? memory_q[other_q] : '0;

  always_comb begin
    valid_d = valid_q;
    if (count_q && settles_q) valid_d[31:16] = '0;
    if (count_q || fold_q) valid_d[place_q] = 1'b1;
    if (clear_q) valid_d = '0;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) valid_q <= '0;
    else valid_q <= valid_d;
    place_valid_q <= valid_d[place_d];
    other_valid_q <= valid_d[other_d];
  end

  always_ff @(posedge clk_i) begin
    if (count_q || fold_q) memory_q[place_q] <= value + (fold_q ? other_value : count_t'(1));
  end

  // --- `commands` with tentative cycles, and as of the last cycle that was not tentative

  count_t commands_q, commands_d, settled_q;
  logic   folded_q;

  assign commands_d = commands_q + count_t'(command_q);

  always_ff @(posedge clk_i) begin
    if (!rst_ni || clear_q) begin
      commands_q <= '0;
      settled_q  <= '0;
      folded_q   <= 1'b0;
    end else begin
      if (count_q) commands_q <= commands_d;
      if (count_q && settles_q) settled_q <= commands_d;
      if (fold_q) folded_q <= 1'b1;
    end
  end

  always_comb begin
    value_o = other_value;
    if (other_q[3:0] == CntCommands) value_o = folded_q ? settled_q : commands_q;
  end

`ifndef SYNTHESIS
  // The counters are folded and cleared only when idle.
  RestBefore_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      fold_i || clear_i |-> !run_i && !count_q);
  // A tentative cycle has a class other than `commands`.
  TentativeClass_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      run_i && tentative_q |-> class_q != CntCommands);
  // Tentative cycles are settled, and are folded.
  Settles_C: cover property (@(posedge clk_i) disable iff (!rst_ni)
      count_q && settles_q && valid_q[31:16] != '0);
  FoldsTentative_C: cover property (@(posedge clk_i) disable iff (!rst_ni)
      fold_q && other_valid_q);
`endif

endmodule

`default_nettype wire
