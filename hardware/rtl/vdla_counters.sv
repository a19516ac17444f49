// The cycle counters of a unit.
//
// Contract: a cycle with run_i counts once, in class_i. A tentative cycle counts in `commands` if a
// cycle that is not tentative follows, else in class_i: it is counted in `commands` at once, and
// also by class in the other half of the memory, which the next cycle that is not tentative clears.
// After the run, fold_i with each class in select_i once moves these counts to their classes, from
// two cycles after the last run_i. value_o is the counter select_i, combinationally; during a run
// tentative cycles are in `commands`.
//
// One counter changes per cycle, so they share a memory and an adder. Counting is a cycle behind
// run_i.

module vdla_counters
  import vdla_types_pkg::*;
(
  input  logic                   clk_i,
  input  logic                   rst_ni,
  input  logic                   clear_i,
  input  logic                   run_i,
  input  counter_e               class_i,
  input  logic                   tentative_i,
  input  logic                   fold_i,
  input  logic [3:0]             select_i,
  output logic [CounterBits-1:0] value_o
);

  typedef logic [CounterBits-1:0] count_t;

  logic       run_q, tentative_q;
  logic [3:0] class_q;

  (* ram_style = "distributed" *)
  count_t      memory_q[32];
  logic [31:0] valid_q;  // entries written since the last clear
  logic [4:0]  place, other;
  count_t      value, other_value;

  count_t commands_q, commands_d;
  count_t settled_q;  // `commands` as of the last cycle that was not tentative

  assign place  = fold_i ? {1'b0, select_i} : {tentative_q, class_q};
  assign other  = {fold_i, select_i};
  assign value       = valid_q[place] ? memory_q[place] : '0;
  assign other_value = valid_q[other] ? memory_q[other] : '0;

  assign commands_d = commands_q + count_t'(tentative_q || class_q == CntCommands);
  assign value_o    = select_i == CntCommands ? commands_q : other_value;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      run_q      <= 1'b0;
      valid_q    <= '0;
      commands_q <= '0;
      settled_q  <= '0;
    end else begin
      run_q <= run_i;
      if (clear_i) begin
        valid_q    <= '0;
        commands_q <= '0;
        settled_q  <= '0;
      end else if (fold_i) begin
        valid_q[place] <= 1'b1;
        commands_q     <= settled_q;
      end else if (run_q) begin
        if (!tentative_q) valid_q[31:16] <= '0;
        valid_q[place] <= 1'b1;
        commands_q     <= commands_d;
        if (!tentative_q) settled_q <= commands_d;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    class_q     <= class_i;
    tentative_q <= tentative_i;
    if (fold_i || run_q) memory_q[place] <= value + (fold_i ? other_value : count_t'(1));
  end

`ifndef SYNTHESIS
  // The counters are folded and cleared only when idle.
  RestBefore_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      fold_i || clear_i |-> !run_q && !run_i);
  // A tentative cycle has a class other than `commands`.
  TentativeClass_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      run_i && tentative_i |-> class_i != CntCommands);
`endif

endmodule
