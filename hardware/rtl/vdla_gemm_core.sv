// SPDX-License-Identifier: Apache-2.0
// The matrix multiplier: Rows x Columns sums of block_in products each, exact for all operands. It
// has the machine's batch x block_out, or is a part of an array that extensions use.
//
// sums_o[b*Columns+o] = sum over k of inp_i[b][k] * wgt_i[o][k]. Latency: ArrayLatency cycles.
// Throughput: one result per cycle. Without valid bit: the output belongs to the input ArrayLatency
// cycles before. clk2x_i has twice the frequency of clk_i and rises with it; only an array at twice
// the clock uses it and the reset.
`default_nettype none

module vdla_gemm_core
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
  if (ArrayRate == 1) begin : gen_single
    vdla_gemm_single #(
      .Rows   (Rows),
      .Columns(Columns)
    ) u_array (
      .clk_i,
      .inp_i,
      .wgt_i,
      .sums_o
    );

    logic unused;
    assign unused = clk2x_i ^ rst_ni;
  end else begin : gen_double
    vdla_gemm_double #(
      .Rows   (Rows),
      .Columns(Columns)
    ) u_array (
      .clk_i,
      .clk2x_i,
      .rst_ni,
      .inp_i,
      .wgt_i,
      .sums_o
    );
  end

`ifndef SYNTHESIS
  // The first and the last lane are compared with plain sums of products: the lowest field of a
  // packed product of the first batch entry and the highest one of the last.
  localparam int unsigned Settled = ArrayLatency + 2;  // cycles after a reset

  typedef logic [31:0] sum_t;

  int unsigned since_reset;
  sum_t        first_due[ArrayLatency], last_due[ArrayLatency];

  function automatic sum_t sum_of(int unsigned batch, int unsigned column);
    sum_t sum;
    sum = '0;
    for (int unsigned k = 0; k < BlockIn; k++) begin
      sum += sum_t'(signed'(inp_i[(batch*BlockIn+k)*InpBits+:InpBits]))
           * sum_t'(signed'(wgt_i[(column*BlockIn+k)*WgtBits+:WgtBits]));
    end
    return sum;
  endfunction

  always_ff @(posedge clk_i) begin
    since_reset  <= !rst_ni ? 0 : since_reset < Settled ? since_reset + 1 : Settled;
    first_due[0] <= sum_of(0, 0);
    last_due[0]  <= sum_of(Rows - 1, Columns - 1);
    for (int unsigned k = 1; k < ArrayLatency; k++) begin
      first_due[k] <= first_due[k-1];
      last_due[k]  <= last_due[k-1];
    end
  end

  FirstLane_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      since_reset == Settled |-> sums_o[31:0] == first_due[ArrayLatency-1]);
  LastLane_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      since_reset == Settled |-> sums_o[Rows*Columns*32-1-:32] == last_due[ArrayLatency-1]);
`endif

endmodule

`default_nettype wire
