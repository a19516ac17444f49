// SPDX-License-Identifier: Apache-2.0
// The exact sum of signed numbers. Latency: one cycle per level, $clog2(Leaves) in total.
// Throughput: one sum per cycle.
//
// Contract: Leaves is a power of two above 1. Each level is one bit wider than the last, so none
// overflows.
`default_nettype none

module vdla_adder_tree #(
  parameter int unsigned Leaves = 4,
  parameter int unsigned LeafBits = 16,
  localparam int unsigned Levels = $clog2(Leaves)
) (
  input  logic                              clk_i,
  input  logic [Leaves*LeafBits-1:0]        leaves_i,
  output logic signed [LeafBits+Levels-1:0] sum_o
);
  for (genvar l = 0; l <= Levels; l++) begin : gen_level
    localparam int unsigned Bits = LeafBits + l;
    logic signed [Bits-1:0] sums[Leaves>>l];

    for (genvar i = 0; i < (Leaves >> l); i++) begin : gen_sum
      if (l == 0) begin : gen_leaf
        assign sums[i] = leaves_i[i*LeafBits+:LeafBits];
      end else begin : gen_add
        always_ff @(posedge clk_i) begin
          sums[i] <= Bits'(gen_level[l-1].sums[2*i]) + Bits'(gen_level[l-1].sums[2*i+1]);
        end
      end
    end
  end

  assign sum_o = gen_level[Levels].sums[0];
endmodule

`default_nettype wire
