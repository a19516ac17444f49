// SPDX-License-Identifier: Apache-2.0
// The array of multipliers at twice the clock of the machine: a slice makes two packed products a
// cycle, in the first half of the cycle for the lower half of the groups of output channels, in the
// second half for the upper half of them. A single group is computed twice.
//
// Contract of vdla_gemm_core, from the second cycle after the reset on. In cycles of clk2x_i, with
// the operands registered at 0:
//   1          slices 0 and 1 of a chain load both weights and the activation, 1 at 2; slices 2 and
//              3 do so a cycle of the machine later
//   j + 2      slice j chooses the lower group's weight; it multiplies at j + 3, adds at j + 4
//   Depth + 3  the chain is complete; the upper group's follows one later, here and below
//   + levels   the tree; another register if the sum is at an odd number
//   + 1        the lower group's sum is held, so that clk_i registers both together
`default_nettype none

module vdla_gemm_double
  import vdla_pkg::*;
  import vdla_types_pkg::*;
  import vdla_gemm_pkg::*;
#(
  parameter int unsigned Rows = Batch,
  parameter int unsigned Columns = BlockOut
) (
  input  logic                               clk_i,
  input  logic                               clk2x_i,
  input  logic                               rst_ni,
  input  logic [   Rows*BlockIn*InpBits-1:0] inp_i,
  input  logic [Columns*BlockIn*WgtBits-1:0] wgt_i,
  output logic [        Rows*Columns*32-1:0] sums_o
);
  localparam int unsigned OwnGroups = Columns / Fields;
  localparam int unsigned OwnHalf = OwnGroups > 1 ? OwnGroups / 2 : 1;
  localparam bit IsOdd = (Depth + 3 + TreeLevels) % 2 == 1;

  // --- the halves of a cycle: in the first one the bit of clk_i is not yet that of clk2x_i

  logic toggle_q, seen_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) toggle_q <= 1'b0;
    else toggle_q <= !toggle_q;
  end
  always_ff @(posedge clk2x_i) seen_q <= toggle_q;

  for (genvar b = 0; b < Rows; b++) begin : gen_batch
    // --- the start values of the chains of all groups, and the activations by slice

    logic signed [SumBits-1:0] start[Chains];
    activation_t activations[BlockIn];

    for (genvar c = 0; c < Chains; c++) begin : gen_start
      vdla_gemm_start u_start (
        .clk_i,
        .inp_i  (inp_i[(b*BlockIn+c*Depth)*InpBits+:Depth*InpBits]),
        .start_o(start[c])
      );

      for (genvar j = 0; j < Depth; j++) begin : gen_activation
        localparam int unsigned K = c * Depth + j;

        vdla_delay #(
          .Bits  (InpBits),
          .Cycles(j / 2)
        ) u_delay (
          .clk_i,
          .data_i(inp_i[(b*BlockIn+K)*InpBits+:InpBits]),
          .data_o(activations[K])
        );
      end
    end

    for (genvar g = 0; g < OwnHalf; g++) begin : gen_group
      // The group of the upper half; that of the lower half is g.
      localparam int unsigned Upper = OwnGroups > 1 ? g + OwnHalf : g;

      // A copy for each group, against fan-out.
      (* keep = "true" *) logic first_q, second_q;

      always_ff @(posedge clk2x_i) begin
        second_q <= toggle_q != seen_q;
        first_q <= toggle_q == seen_q;
      end

      // --- chains

      logic [Chains-1:0][SumBits-1:0] chains;

      for (genvar c = 0; c < Chains; c++) begin : gen_chain
        // The last cascade leads nowhere; only the last sum is read.
        // verilator lint_off UNUSEDSIGNAL
        logic signed [47:0] cascade[Depth+1];
        logic signed [47:0] sum[Depth];
        // verilator lint_on UNUSEDSIGNAL
        assign cascade[0] = '0;
        assign chains[c] = sum[Depth-1][SumBits-1:0];

        for (genvar j = 0; j < Depth; j++) begin : gen_mac
          localparam int unsigned K = c * Depth + j;
          weights_t [1:0] weights, delayed;

          for (genvar f = 0; f < Fields; f++) begin : gen_weight
            assign weights[0][f] = wgt_i[((g*Fields+f)*BlockIn+K)*WgtBits+:WgtBits];
            assign weights[1][f] = wgt_i[((Upper*Fields+f)*BlockIn+K)*WgtBits+:WgtBits];
          end

          vdla_delay #(
            .Bits  (2 * Fields * WgtBits),
            .Cycles(j / 2)
          ) u_delay (
            .clk_i,
            .data_i(weights),
            .data_o(delayed)
          );

          vdla_mac_double #(
            .First(j == 0)
          ) u_mac (
            .clk_i    (clk2x_i),
            .load_i   (j % 2 == 0 || second_q),
            .upper_i  (j % 2 == 0 ? second_q : first_q),
            .lower_a_i(25'(widen(delayed[0]))),
            .upper_a_i(25'(widen(delayed[1]))),
            .b_i      (18'(activations[K])),
            .start_i  (j == 0 ? 48'(start[c]) : 48'd0),
            .cascade_i(cascade[j]),
            .cascade_o(cascade[j+1]),
            .sum_o    (sum[j])
          );
        end
      end

      // --- sums

      logic [Fields-1:0][TreeBits-1:0] sums, even, held_q;

      vdla_gemm_sum u_sum (
        .clk_i   (clk2x_i),
        .chains_i(chains),
        .sums_o  (sums)
      );

      vdla_delay #(
        .Bits  (Fields * TreeBits),
        .Cycles(32'(IsOdd))
      ) u_even (
        .clk_i (clk2x_i),
        .data_i(sums),
        .data_o(even)
      );

      always_ff @(posedge clk2x_i) held_q <= even;

      for (genvar f = 0; f < Fields; f++) begin : gen_sum
        logic [TreeBits-1:0] lower_q, upper_q;

        always_ff @(posedge clk_i) begin
          lower_q <= held_q[f];
          upper_q <= even[f];
        end

        assign sums_o[(b*Columns+g*Fields+f)*32+:32] = 32'(signed'(lower_q));
        if (OwnGroups > 1) begin : gen_upper
          assign sums_o[(b*Columns+Upper*Fields+f)*32+:32] = 32'(signed'(upper_q));
        end else begin : gen_unused
          logic unused;
          assign unused = ^upper_q;
        end
      end
    end
  end
endmodule

`default_nettype wire
