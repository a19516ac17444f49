// SPDX-License-Identifier: Apache-2.0
// A multiply-add p = sum + a * b in the form of a Xilinx DSP slice.
//
// Contract: a_i and b_i are delayed by Stages registers, so that the slices of a chain take
// operands that arrive together. PBits must hold every sum. Latency: Stages + 2 cycles from a_i and
// b_i, 1 from sum_i. Throughput: one result per cycle.
`default_nettype none

module vdla_mac #(
  parameter int unsigned Stages = 0,
  parameter int unsigned ABits = 25,
  parameter int unsigned BBits = 8,
  parameter int unsigned PBits = 48
) (
  input  logic                    clk_i,
  input  logic signed [ABits-1:0] a_i,
  input  logic signed [BBits-1:0] b_i,
  input  logic signed [PBits-1:0] sum_i,
  output logic signed [PBits-1:0] sum_o
);
  logic signed [ABits-1:0] a;
  logic signed [BBits-1:0] b;
  logic signed [ABits+BBits-1:0] product_q;
  logic signed [PBits-1:0] sum_q;

  if (Stages == 0) begin : gen_direct
    assign a = a_i;
    assign b = b_i;
  end else begin : gen_delayed
    // Packed, since an unpacked array would be synthesised as a memory.
    logic [Stages-1:0][ABits-1:0] a_q;
    logic [Stages-1:0][BBits-1:0] b_q;

    always_ff @(posedge clk_i) begin
      a_q[0] <= a_i;
      b_q[0] <= b_i;
      for (int unsigned s = 1; s < Stages; s++) begin
        a_q[s] <= a_q[s-1];
        b_q[s] <= b_q[s-1];
      end
    end

    assign a = signed'(a_q[Stages-1]);
    assign b = signed'(b_q[Stages-1]);
  end

  always_ff @(posedge clk_i) begin
    product_q <= a * b;
    sum_q <= sum_i + PBits'(product_q);
  end

  assign sum_o = sum_q;
endmodule

`default_nettype wire
