// SPDX-License-Identifier: Apache-2.0
// The array of multipliers at the clock of the machine: a slice for every packed product.
//
// Contract of vdla_gemm_core. A chain takes Depth + 1 cycles and the tree TreeLevels; Pad makes it
// GemmLatency.
`default_nettype none

module vdla_gemm_single
  import vdla_pkg::*;
  import vdla_types_pkg::*;
  import vdla_gemm_pkg::*;
#(
  parameter int unsigned Rows = Batch,
  parameter int unsigned Columns = BlockOut
) (
  input  logic                               clk_i,
  input  logic [   Rows*BlockIn*InpBits-1:0] inp_i,
  input  logic [Columns*BlockIn*WgtBits-1:0] wgt_i,
  output logic [        Rows*Columns*32-1:0] sums_o
);
  localparam int unsigned OwnGroups = Columns / Fields;
  localparam int unsigned Pad = 2 + $clog2(Depth) - Depth;

  for (genvar b = 0; b < Rows; b++) begin : gen_batch
    // The start values of the chains of all groups.
    logic signed [SumBits-1:0] start[Chains];

    for (genvar c = 0; c < Chains; c++) begin : gen_start
      vdla_gemm_start #(
        .Cycles(Pad + 1)
      ) u_start (
        .clk_i,
        .inp_i  (inp_i[(b*BlockIn+c*Depth)*InpBits+:Depth*InpBits]),
        .start_o(start[c])
      );
    end

    for (genvar g = 0; g < OwnGroups; g++) begin : gen_group
      logic [Chains-1:0][SumBits-1:0] chains;
      logic [Fields-1:0][TreeBits-1:0] sums;

      for (genvar c = 0; c < Chains; c++) begin : gen_chain
        logic signed [SumBits-1:0] chain[Depth+1];
        assign chain[0] = start[c];
        assign chains[c] = chain[Depth];

        for (genvar j = 0; j < Depth; j++) begin : gen_mac
          localparam int unsigned K = c * Depth + j;
          weights_t weights;

          for (genvar f = 0; f < Fields; f++) begin : gen_weight
            assign weights[f] = wgt_i[((g*Fields+f)*BlockIn+K)*WgtBits+:WgtBits];
          end

          vdla_mac #(
            .Stages(Pad + j),
            .ABits (WideBits),
            .BBits (InpBits),
            .PBits (SumBits)
          ) u_mac (
            .clk_i,
            .a_i  (widen(weights)),
            .b_i  (inp_i[(b*BlockIn+K)*InpBits+:InpBits]),
            .sum_i(chain[j]),
            .sum_o(chain[j+1])
          );
        end
      end

      vdla_gemm_sum u_sum (
        .clk_i,
        .chains_i(chains),
        .sums_o  (sums)
      );

      for (genvar f = 0; f < Fields; f++) begin : gen_sum
        assign sums_o[(b*Columns+g*Fields+f)*32+:32] = 32'(signed'(sums[f]));
      end
    end
  end
endmodule

`default_nettype wire
