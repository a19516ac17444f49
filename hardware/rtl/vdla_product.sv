// SPDX-License-Identifier: Apache-2.0
// The partial products of a 32-bit product in registers: its low 32 bits, from 17 low and 15 high
// bits of each factor.
//
// Contract: factor_i * b_i = low + (middle + other) * 2**17 modulo 2**32, a cycle later. One
// product per cycle. Three multipliers of at most 17 x 17 bits; the registers are those of the
// multipliers.

`default_nettype none

module vdla_product
  import vdla_compute_pkg::*;
(
  input  logic               clk_i,
  input  logic signed [31:0] factor_i,
  input  logic signed [31:0] b_i,
  output product_t           product_o
);

  always_ff @(posedge clk_i) begin
    product_o.low <= factor_i[16:0] * b_i[16:0];
    product_o.middle <= factor_i[31:17] * b_i[14:0];
    product_o.other <= factor_i[14:0] * b_i[31:17];
  end

endmodule

`default_nettype wire
