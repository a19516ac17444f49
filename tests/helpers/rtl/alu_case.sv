// SPDX-License-Identifier: Apache-2.0
// The product and the ALU behind their decoder: an operation and its operands in, the new entry out
// a cycle later.

module alu_case
  import vdla_pkg::*;
  import vdla_compute_pkg::*;
(
  input  logic               clk_i,
  input  logic               rst_ni,
  input  vector_op_e         op_i,
  input  logic               start_i,
  input  logic signed [31:0] old_i,
  input  logic signed [31:0] x_i,
  input  logic signed [31:0] b_i,
  output logic signed [31:0] new_o
);

  alu_control_t control, control_q;
  product_t product;
  logic signed [31:0] old_q, b_q;

  assign control = alu_control(op_i, start_i);

  vdla_product u_product (
    .clk_i,
    .factor_i (control.factor_x ? x_i : old_i),
    .b_i,
    .product_o(product)
  );

  always_ff @(posedge clk_i) begin
    control_q <= control;
    old_q <= old_i;
    b_q <= b_i;
  end

  vdla_alu u_alu (
    .control_i(control_q),
    .old_i    (old_q),
    .b_i      (b_q),
    .product_i(product),
    .new_o
  );

  logic unused_reset;
  assign unused_reset = rst_ni;

endmodule
