// SPDX-License-Identifier: Apache-2.0
// The sums of a group of output channels from its chains, one a cycle. Latency: TreeLevels cycles.
//
// An adder tree sums the chains. It subtracts Offset by turning the top bit of a field into a sign,
// which leaves Missing in each chain, and adds the total of these at its first leaf.
`default_nettype none

module vdla_gemm_sum
  import vdla_gemm_pkg::*;
(
  input  logic                             clk_i,
  input  logic [Chains-1:0][SumBits-1:0]   chains_i,
  output logic [Fields-1:0][TreeBits-1:0]  sums_o
);
  for (genvar f = 0; f < Fields; f++) begin : gen_field
    logic [Chains*LeafBits-1:0] leaves;

    for (genvar c = 0; c < Chains; c++) begin : gen_leaf
      logic signed [LeafBits-1:0] leaf;

      if (f + 1 == Fields) begin : gen_top
        assign leaf = LeafBits'(signed'(chains_i[c]) >>> (f * Spacing));
      end else begin : gen_lower
        logic [Spacing-1:0] field;
        logic signed [LeafBits-1:0] signed_field;

        assign field = chains_i[c][f*Spacing+:Spacing];
        assign signed_field = LeafBits'(signed'({~field[Spacing-1], field[Spacing-2:0]}));
        if (c == 0) begin : gen_give_back
          assign leaf[BackBits-1:0] = signed_field[BackBits-1:0];
          assign leaf[LeafBits-1:BackBits] = signed_field[LeafBits-1:BackBits] + 1'b1;
        end else begin : gen_as_it_is
          assign leaf = signed_field;
        end
      end

      assign leaves[c*LeafBits+:LeafBits] = leaf;
    end

    if (Chains == 1) begin : gen_one
      assign sums_o[f] = leaves;
    end else begin : gen_tree
      vdla_adder_tree #(
        .Leaves  (Chains),
        .LeafBits(LeafBits)
      ) u_tree (
        .clk_i,
        .leaves_i(leaves),
        .sum_o   (sums_o[f])
      );
    end
  end

  if (Chains == 1) begin : gen_unused
    logic unused;
    assign unused = clk_i;
  end
endmodule

`default_nettype wire
