// The matrix multiplier: batch x block_out sums of block_in products each, exact for all operands.
//
// sums_o[b*BlockOut+o] = sum over k of inp_i[b][k] * wgt_i[o][k]. Latency: ArrayLatency cycles.
// Throughput: one result per cycle. Without valid bit: the output belongs to the input ArrayLatency
// cycles before. clk2x_i has twice the frequency of clk_i and rises with it; only an array at twice
// the clock uses it and the reset.
`default_nettype none

module vdla_gemm_core
  import vdla_pkg::*;
  import vdla_types_pkg::*;
(
  input  logic                    clk_i,
  input  logic                    clk2x_i,
  input  logic                    rst_ni,
  input  logic [InpEntryBits-1:0] inp_i,
  input  logic [WgtEntryBits-1:0] wgt_i,
  output logic [Lanes*32-1:0]     sums_o
);
  if (ArrayRate == 1) begin : gen_single
    vdla_gemm_single u_array (
      .clk_i,
      .inp_i,
      .wgt_i,
      .sums_o
    );

    logic unused;
    assign unused = clk2x_i ^ rst_ni;
  end else begin : gen_double
    vdla_gemm_double u_array (
      .clk_i,
      .clk2x_i,
      .rst_ni,
      .inp_i,
      .wgt_i,
      .sums_o
    );
  end
endmodule

`default_nettype wire
