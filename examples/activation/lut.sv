// SPDX-License-Identifier: Apache-2.0
// Replaces every element of an accumulator entry by an element of a table.
module ext_lut
  import vdla_pkg::*;
(
  // verilator lint_off UNUSEDSIGNAL
  input  logic clk_i,                                           // the clock of the machine
  input  logic rst_ni,                                          // synchronous, active low
  input  logic valid_i,                                         // a step, with all operands
  input  logic begin_i,                                         // the step begins a sum
  input  logic [BlockOut-1:0][BlockIn-1:0][WgtBits-1:0] wgt_i,  // table, an entry
  input  logic [Batch-1:0][BlockOut-1:0][31:0] old_i,           // the accumulator's entry before the step
  input  logic [4:0] shift_i,                                   // Bits that are dropped from a sum
  // verilator lint_on UNUSEDSIGNAL
  output logic [Batch-1:0][BlockOut-1:0][31:0] result_o         // 2 cycles after its step; the new entry
);

  localparam int Last = BlockOut * BlockIn - 1;
  logic [Last:0][WgtBits-1:0] entries_q;

  always_ff @(posedge clk_i) begin
    entries_q <= wgt_i;
  end

  for (genvar b = 0; b < Batch; b++) begin : gen_row
    for (genvar o = 0; o < BlockOut; o++) begin : gen_column
      int at, at_q;

      assign at = signed'(old_i[b][o]) >>> shift_i;
      always_ff @(posedge clk_i) begin
        at_q <= at < 0 ? 0 : at > Last ? Last : at;
        result_o[b][o] <= 32'(signed'(entries_q[at_q]));
      end
    end
  end

endmodule
