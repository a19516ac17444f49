// SPDX-License-Identifier: Apache-2.0
// The requantiser: from an entry of sums to an entry of results, or to the sums themselves.
//
// Contract: scale_i and raw_i belong to the sums of the next cycle t; zero_point_i is read in t +
// 6, the clips in t + 7. In t + 8 result_o is the packed entry of results, and raw_o the entry of
// sums if raw_i was set. One entry per cycle.

`default_nettype none

module vdla_requantise
  import vdla_pkg::*, vdla_types_pkg::*;
(
  input  logic                           clk_i,
  input  logic        [SclEntryBits-1:0] scale_i,
  input  logic                           raw_i,
  input  logic        [    Lanes*32-1:0] sums_i,
  input  logic signed [     OutBits-1:0] zero_point_i,
  input  logic signed [     OutBits-1:0] clip_lo_i,
  input  logic signed [     OutBits-1:0] clip_hi_i,
  output logic        [OutEntryBits-1:0] result_o,
  output logic        [    Lanes*32-1:0] raw_o
);

  // The parameters of a lane in the scale buffer.
  typedef struct packed {
    logic [1:0] reserved;
    logic [5:0] shift;
    logic [23:0] mult;
    logic [31:0] bias;
  } scale_t;

  for (genvar o = 0; o < BlockOut; o++) begin : gen_output
    // verilator lint_off UNUSEDSIGNAL
    scale_t scale;  // the reserved bits are ignored
    // verilator lint_on UNUSEDSIGNAL
    logic [31:0] bias_q;
    logic [23:0] mult_q;
    logic [ 5:0] shift_q;

    assign scale = scale_i[o*64+:64];

    // Raw sums pass with neutral parameters.
    always_ff @(posedge clk_i) begin
      bias_q <= raw_i ? '0 : scale.bias;
      mult_q <= raw_i ? 24'd1 : scale.mult;
      shift_q <= raw_i ? '0 : scale.shift;
    end

    for (genvar n = 0; n < Batch; n++) begin : gen_batch
      localparam int unsigned Lane = n * BlockOut + o;

      vdla_requantise_lane u_lane (
        .clk_i,
        .sum_i   (sums_i[Lane*32+:32]),
        .bias_i  (bias_q),
        .mult_i  (mult_q),
        .shift_i (shift_q),
        .zero_point_i,
        .clip_lo_i,
        .clip_hi_i,
        .result_o(result_o[Lane*OutBits+:OutBits]),
        .raw_o   (raw_o[Lane*32+:32])
      );
    end
  end

endmodule

`default_nettype wire
