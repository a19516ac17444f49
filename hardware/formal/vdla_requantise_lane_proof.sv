// SPDX-License-Identifier: Apache-2.0
// Proof: vdla_requantise_lane rounds half to even and saturates, whatever the sum, the shift, the
// zero point and the bounds. The multiplier is 2**MultBit: products are left to simulation.
module vdla_requantise_lane_proof
  import vdla_pkg::*;
#(
  parameter int unsigned MultBit = 0
) (
  input logic                      clk_i,
  input logic signed [       31:0] sum_i,
  input logic        [        5:0] shift_i,
  input logic signed [OutBits-1:0] zero_point_i,
  input logic signed [OutBits-1:0] clip_lo_i,
  input logic signed [OutBits-1:0] clip_hi_i
);
  localparam int unsigned Latency = 8;

  logic signed [OutBits-1:0] result;

  vdla_requantise_lane u_lane (
    .clk_i,
    .sum_i,
    .bias_i      (32'd0),
    .mult_i      (24'd1 << MultBit),
    .shift_i,
    .zero_point_i,
    .clip_lo_i,
    .clip_hi_i,
    .result_o    (result),
    .raw_o       ()
  );

  // What the lane was given, by age; the zero point is given late, the bounds a cycle later.

  logic signed [       31:0] sum_q[Latency];
  logic        [        5:0] shift_q[Latency];
  logic signed [OutBits-1:0] zero_point_q, zero_point_late_q, clip_lo_q, clip_hi_q;
  logic        [        3:0] age_q = '0;

  always_ff @(posedge clk_i) begin
    sum_q[0] <= sum_i;
    shift_q[0] <= shift_i;
    for (int n = 1; n < Latency; n++) begin
      sum_q[n] <= sum_q[n-1];
      shift_q[n] <= shift_q[n-1];
    end
    zero_point_q <= zero_point_i;
    zero_point_late_q <= zero_point_q;
    clip_lo_q <= clip_lo_i;
    clip_hi_q <= clip_hi_i;
    age_q <= 32'(age_q) == Latency ? age_q : age_q + 1'b1;
  end

  // Half to even: the floor, and one more above a half, or at a half if the floor is odd.

  logic signed [63:0] product, floor, rest, half, moved, bounded;

  always_comb begin
    product = 64'(sum_q[Latency-1]) <<< MultBit;
    floor = product >>> shift_q[Latency-1];
    rest = product & ~(~64'd0 << shift_q[Latency-1]);
    half = (64'd1 << shift_q[Latency-1]) >> 1;
    moved = floor + 64'(zero_point_late_q);
    if (shift_q[Latency-1] != 0 && (rest > half || (rest == half && floor[0]))) moved = moved + 1;
    bounded = moved;
    if (bounded < 64'(clip_lo_q)) bounded = 64'(clip_lo_q);
    if (bounded > 64'(clip_hi_q)) bounded = 64'(clip_hi_q);
  end

  always_comb begin
    assume (clip_lo_i <= clip_hi_i);
    if (32'(age_q) == Latency) assert (64'(result) == bounded);
  end
endmodule
