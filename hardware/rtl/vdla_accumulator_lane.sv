// A lane of the accumulator: selects the operands of the ALU from memory, forwarded results and
// other buffers, and registers the result.
//
// Contract: fetch_i and the data of memories arrive in the cycle before the ALU, execute_i and the
// GEMM core's sum in that of the ALU; result_o is valid in the next. One operation per cycle on any
// entry.

module vdla_accumulator_lane
  import vdla_pkg::*, vdla_compute_pkg::*;
(
  input  logic                      clk_i,
  input  lane_fetch_t               fetch_i,
  input  logic        [       31:0] low_half_i,
  input  logic        [       31:0] high_half_i,
  input  logic signed [InpBits-1:0] input_i,
  input  logic signed [WgtBits-1:0] weight_i,
  input  logic signed [       15:0] imm_i,
  input  lane_execute_t             execute_i,
  input  logic        [       31:0] sum_i,
  output logic        [       31:0] result_o
);

  logic        [       31:0] old_q, x_q, before_q;
  logic signed [       15:0] other_q;
  logic        [       31:0] old, x, second, result;

  function automatic logic [31:0] taken(entry_from_e from, logic [31:0] low, logic [31:0] high,
                                        logic [31:0] last, logic [31:0] older);
    unique case (from)
      FromLowHalf: return low;
      FromHighHalf: return high;
      FromResult: return last;
      default: return older;
    endcase
  endfunction

  always_ff @(posedge clk_i) begin
    old_q <= taken(fetch_i.old_from, low_half_i, high_half_i, result_o, before_q);
    if (!fetch_i.x_keeps) begin
      x_q <= taken(fetch_i.x_from, low_half_i, high_half_i, result_o, before_q);
      if (fetch_i.x_is_input) x_q <= 32'(input_i);
    end
    other_q <= fetch_i.by_weights ? 16'(weight_i) : imm_i;
    before_q <= result_o;
    result_o <= result;
  end

  // One level of logic lies between these registers and the multipliers.
  assign old = execute_i.old_is_result ? result_o : old_q;
  assign x = execute_i.x_is_result ? result_o : x_q;

  always_comb begin
    unique case (execute_i.second)
      SecondSum: second = sum_i;
      SecondX: second = x_q;
      SecondResult: second = result_o;
      default: second = 32'(other_q);
    endcase
  end

  vdla_alu u_alu (
    .control_i(execute_i.alu),
    .old_i    (old),
    .x_i      (x),
    .b_i      (second),
    .new_o    (result)
  );

endmodule
