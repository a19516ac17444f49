// The ALU behind its decoder: an operation and its operands in, the new entry out.

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

  vdla_alu u_alu (
    .control_i(alu_control(op_i, start_i)),
    .old_i,
    .x_i,
    .b_i,
    .new_o
  );

  logic unused_clock;
  assign unused_clock = ^{clk_i, rst_ni};

endmodule
