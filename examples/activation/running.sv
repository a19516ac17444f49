// SPDX-License-Identifier: Apache-2.0
module ext_run
  import vdla_pkg::*;
(
  input  logic clk_i,
  // verilator lint_off UNUSEDSIGNAL
  input  logic rst_ni,
  input  logic run_begin_i,
  // verilator lint_on UNUSEDSIGNAL
  input  logic run_valid_i,
  input  logic [Batch-1:0][BlockOut-1:0][InpBits-1:0] run_src_i,
  input  logic [1:0] run_sums_row_i,
  input  logic run_clear_valid_i,
  input  logic [1:0] run_clear_sums_row_i,
  output logic [Batch-1:0][BlockOut-1:0][31:0] run_result_o
);

  logic [Batch-1:0][BlockOut-1:0][31:0] sums_q[4], next;

  for (genvar b = 0; b < Batch; b++) begin : gen_row
    for (genvar o = 0; o < BlockOut; o++) begin : gen_column
      assign next[b][o] = sums_q[run_sums_row_i][b][o] + 32'(signed'(run_src_i[b][o]));
    end
  end

  always_ff @(posedge clk_i) begin
    if (run_valid_i) sums_q[run_sums_row_i] <= next;
    if (run_clear_valid_i) sums_q[run_clear_sums_row_i] <= '0;
    run_result_o <= next;
  end

endmodule
