// SPDX-License-Identifier: Apache-2.0
module ext_distance
  import vdla_pkg::*;
(
  // verilator lint_off UNUSEDSIGNAL
  input  logic clk_i,
  input  logic rst_ni,
  input  logic valid_i,
  input  logic begin_i,
  // verilator lint_on UNUSEDSIGNAL
  input  logic [Batch-1:0][BlockIn-1:0][InpBits-1:0] src_i,
  input  logic [BlockOut-1:0][BlockIn-1:0][WgtBits-1:0] wgt_i,
  output logic [Batch-1:0][BlockOut-1:0][31:0] result_o
);

  for (genvar b = 0; b < Batch; b++) begin : gen_row
    for (genvar o = 0; o < BlockOut; o++) begin : gen_column
      logic signed [31:0] squares[BlockIn];
      logic signed [31:0] sum;

      for (genvar i = 0; i < BlockIn; i++) begin : gen_square
        logic signed [31:0] difference;
        assign difference = 32'(signed'(src_i[b][i])) - 32'(signed'(wgt_i[o][i]));
        always_ff @(posedge clk_i) squares[i] <= difference * difference;
      end

      always_comb begin
        sum = 0;
        for (int i = 0; i < BlockIn; i++) sum += squares[i];
      end

      always_ff @(posedge clk_i) result_o[b][o] <= sum;
    end
  end

endmodule
