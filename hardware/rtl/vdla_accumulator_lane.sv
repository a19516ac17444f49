// SPDX-License-Identifier: Apache-2.0
// A lane of the accumulator: selects the operands of product and ALU from memory, forwarded results
// and other buffers, and registers the result.
//
// Contract: the controls of a stage arrive in the cycle before it. Fetch: the data of memories;
// product: the GEMM core's sum; ALU; result_o is valid in the next cycle. One operation per cycle on
// any entry; factor and second operand of a product are not the result of the slot directly before.

`default_nettype none

module vdla_accumulator_lane
  import vdla_pkg::*, vdla_compute_pkg::*, vdla_ext_pkg::*;
(
  input  logic                      clk_i,
  input  lane_fetch_t               fetch_i,
  input  logic        [       31:0] low_half_i,
  input  logic        [       31:0] high_half_i,
  input  logic signed [InpBits-1:0] input_i,
  input  logic signed [WgtBits-1:0] weight_i,
  input  logic signed [       15:0] imm_i,
  input  lane_product_t             product_i,
  input  logic        [       31:0] sum_i,
  input  lane_execute_t             execute_i,
`ifdef VDLA_EXTENSIONS
  // The operands of a datapath in the ALU's stage; its result, in the place of the second operand.
  // verilator lint_off UNUSEDSIGNAL
  input  logic                      fed_back_i,
  input  logic        [       31:0] fed_i,
  // verilator lint_on UNUSEDSIGNAL
  output logic        [       31:0] old_o,
  output logic        [       31:0] x_o,
`endif
  output logic        [       31:0] result_o
);

  // Registers of the lane's own, since a control selects every bit.
  lane_fetch_t   fetch_q;
  lane_product_t product_q;
  lane_execute_t execute_q;

  vdla_copy #(
    .T(lane_fetch_t)
  ) u_fetch (
    .clk_i,
    .data_i(fetch_i),
    .data_o(fetch_q)
  );

  vdla_copy #(
    .T(lane_product_t)
  ) u_product_control (
    .clk_i,
    .data_i(product_i),
    .data_o(product_q)
  );

  vdla_copy #(
    .T(lane_execute_t)
  ) u_execute (
    .clk_i,
    .data_i(execute_i),
    .data_o(execute_q)
  );

  // --- fetch

  logic [31:0] old_q, x_q, before_q;
  logic signed [15:0] other_q;

  function automatic logic [31:0] entry(entry_from_e from);
    unique case (from)
      FromLowHalf: return low_half_i;
      FromHighHalf: return high_half_i;
      FromResult: return result_o;
      default: return before_q;
    endcase
  endfunction

  always_ff @(posedge clk_i) begin
    old_q <= entry(fetch_q.old_from);
    if (!fetch_q.x_is_kept) x_q <= fetch_q.x_is_input ? 32'(input_i) : entry(fetch_q.x_from);
    other_q <= fetch_q.by_weights ? 16'(weight_i) : imm_i;
    before_q <= result_o;
  end

  // --- product: one level of logic lies before the multipliers

  logic [31:0] factor, second;
  logic [31:0] old_late_q, second_late_q;
  product_t    product;

  always_comb begin
    unique case (product_q.factor)
      FactorOld: factor = old_q;
      FactorX: factor = x_q;
      default: factor = result_o;
    endcase
    unique case (product_q.second)
      SecondX: second = x_q;
      SecondResult: second = result_o;
      default: second = 32'(other_q);
    endcase
  end

  vdla_product u_product (
    .clk_i,
    .factor_i (factor),
    .b_i      (second),
    .product_o(product)
  );

  always_ff @(posedge clk_i) begin
    old_late_q <= product_q.old_is_result ? result_o : old_q;
    second_late_q <= product_q.second == SecondSum ? sum_i : second;
  end

  // --- ALU

`ifdef VDLA_EXTENSIONS
  logic [31:0] old, x, operand, result;

  assign old = execute_q.old_is_result ? result_o : old_late_q;
  assign x = execute_q.second_is_result ? result_o : second_late_q;

  if (FeedsBack) begin : gen_fed_back
    logic fed_back_q;

    vdla_copy #(
      .T(logic)
    ) u_fed_back (
      .clk_i,
      .data_i(fed_back_i),
      .data_o(fed_back_q)
    );

    assign operand = fed_back_q ? fed_i : x;
    assign old_o = old;
    assign x_o = x;
  end else begin : gen_not_fed_back
    assign operand = x;
    assign old_o = '0;
    assign x_o = '0;
  end
`else
  logic [31:0] result;
`endif

  vdla_alu u_alu (
    .control_i(execute_q.alu),
`ifdef VDLA_EXTENSIONS
    .old_i    (old),
    .b_i      (operand),
`else
    .old_i    (execute_q.old_is_result ? result_o : old_late_q),
    .b_i      (execute_q.second_is_result ? result_o : second_late_q),
`endif
    .product_i(product),
    .new_o    (result)
  );

  always_ff @(posedge clk_i) begin
    result_o <= result;
  end

endmodule

`default_nettype wire
