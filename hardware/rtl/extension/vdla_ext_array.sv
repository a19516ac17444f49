// SPDX-License-Identifier: Apache-2.0
// The array of multipliers of a machine with extensions whose datapaths use it.
//
// Contract: the entries of a GEMM arrive in one cycle and are the operands of vdla_gemm_core in the
// next: its sums are at sums_o ArrayLatency + 1 cycles after the entries. While a datapath uses the
// array (drive_i), its operands take their place, which differ by batch row: weights for each
// column, and an input entry for the columns of each group g < HalfGroups and those of group
// g + HalfGroups, which share the operand of a slice at either rate. Their sums are at drive_sums_o
// GemmLatency + 1 cycles later, whatever the rate.
`default_nettype none

module vdla_ext_array
  import vdla_pkg::*;
  import vdla_types_pkg::*;
  import vdla_gemm_pkg::*;
(
  input  logic                                       clk_i,
  input  logic                                       clk2x_i,
  input  logic                                       rst_ni,
  input  logic [                   InpEntryBits-1:0] inp_entry_i,
  input  logic [                   WgtEntryBits-1:0] wgt_entry_i,
  output logic [                       Lanes*32-1:0] sums_o,
  input  logic                                       drive_i,
  input  logic [Batch*HalfGroups*BlockIn*InpBits-1:0] drive_inp_i,
  input  logic [             Batch*WgtEntryBits-1:0] drive_wgt_i,
  output logic [                       Lanes*32-1:0] drive_sums_o
);

  localparam int unsigned RowBits = BlockIn * InpBits;   // of an input operand
  localparam int unsigned ColumnBits = BlockIn * WgtBits;
  localparam int unsigned Columns = BlockOut / HalfGroups;  // that share an input operand

  for (genvar b = 0; b < Batch; b++) begin : gen_row
    for (genvar g = 0; g < HalfGroups; g++) begin : gen_share
      logic [RowBits-1:0] inp_q;
      logic [Columns*ColumnBits-1:0] wgt_q;
      logic [Columns*32-1:0] sums;

      always_ff @(posedge clk_i) begin
        inp_q <= drive_i ? drive_inp_i[(b*HalfGroups+g)*RowBits+:RowBits]
            : inp_entry_i[b*RowBits+:RowBits];
      end

      for (genvar c = 0; c < Columns; c++) begin : gen_column
        localparam int unsigned Column = (c / Fields * HalfGroups + g) * Fields + c % Fields;

        always_ff @(posedge clk_i) begin
          wgt_q[c*ColumnBits+:ColumnBits] <= drive_i
              ? drive_wgt_i[(b*BlockOut+Column)*ColumnBits+:ColumnBits]
              : wgt_entry_i[Column*ColumnBits+:ColumnBits];
        end

        assign sums_o[(b*BlockOut+Column)*32+:32] = sums[c*32+:32];
      end

      vdla_gemm_core #(
        .Rows   (1),
        .Columns(Columns)
      ) u_core (
        .clk_i,
        .clk2x_i,
        .rst_ni,
        .inp_i (inp_q),
        .wgt_i (wgt_q),
        .sums_o(sums)
      );
    end
  end

  vdla_delay #(
    .Bits  (Lanes * 32),
    .Cycles(GemmLatency - ArrayLatency)
  ) u_even (
    .clk_i,
    .data_i(sums_o),
    .data_o(drive_sums_o)
  );

endmodule

`default_nettype wire
