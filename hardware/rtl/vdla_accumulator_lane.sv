// A lane of the accumulator: selects the operands of product and ALU from memory, forwarded results
// and other buffers, and registers the result.
//
// Contract: the controls of a stage arrive in the cycle before it. Fetch: the data of memories;
// product: the GEMM core's sum; ALU; result_o is valid in the next cycle. One operation per cycle on
// any entry; factor and second operand of a product are not the result of the slot directly before.

`default_nettype none

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
  input  lane_product_t             product_i,
  input  logic        [       31:0] sum_i,
  input  lane_execute_t             execute_i,
  output logic        [       31:0] result_o
);

  // Registers of the lane's own, since a control selects every bit; kept, so that tools neither
  // merge those of all lanes nor make shift registers of them.
  (* keep *)
  lane_fetch_t fetch_q;
  (* keep *)
  lane_product_t product_q;
  (* keep *)
  lane_execute_t execute_q;

  always_ff @(posedge clk_i) begin
    fetch_q <= fetch_i;
    product_q <= product_i;
    execute_q <= execute_i;
  end

  // --- fetch

  logic [31:0] old_q, x_q, before_q;
  logic signed [15:0] other_q;

  always_ff @(posedge clk_i) begin
    unique case (fetch_q.old_from)
      FromLowHalf: old_q <= low_half_i;
      FromHighHalf: old_q <= high_half_i;
      FromResult: old_q <= result_o;
      default: old_q <= before_q;
    endcase
    unique case (fetch_q.x_from)
      FromLowHalf: x_q <= low_half_i;
      FromHighHalf: x_q <= high_half_i;
      FromResult: x_q <= result_o;
      FromResultBefore: x_q <= before_q;
      FromInput: x_q <= 32'(input_i);
      default: ;  // FromPassBefore
    endcase
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

  logic [31:0] result;

  vdla_alu u_alu (
    .control_i(execute_q.alu),
    .old_i    (execute_q.old_is_result ? result_o : old_late_q),
    .b_i      (execute_q.second_is_result ? result_o : second_late_q),
    .product_i(product),
    .new_o    (result)
  );

  always_ff @(posedge clk_i) begin
    result_o <= result;
  end

endmodule

`default_nettype wire
