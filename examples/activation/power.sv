// SPDX-License-Identifier: Apache-2.0
module ext_power
  import vdla_pkg::*;
(
  // verilator lint_off UNUSEDSIGNAL
  input  logic clk_i,
  input  logic rst_ni,
  input  logic begin_i,
  // verilator lint_on UNUSEDSIGNAL
  input  logic valid_i,
  input  logic [Batch-1:0][BlockIn-1:0][InpBits-1:0] src_i,
  input  logic [Batch-1:0][BlockOut-1:0][31:0] array_sums_i,
  output logic [Batch-1:0][BlockOut-1:0][31:0] result_o,
  output logic array_valid_o,
  output logic [Batch-1:0][ArrayShares-1:0][BlockIn-1:0][InpBits-1:0] array_inp_o,
  output logic [Batch-1:0][BlockOut-1:0][BlockIn-1:0][WgtBits-1:0] array_wgt_o
);
  for (genvar b = 0; b < Batch; b++) begin : gen_row
    assign array_inp_o[b] = {ArrayShares{src_i[b]}};
    assign array_wgt_o[b] = {BlockOut{src_i[b]}};
  end
  assign array_valid_o = valid_i;
  assign result_o = array_sums_i;
endmodule
