// A lane of the requantiser: clip(round((sum + bias) * mult / 2**shift) + zero_point), rounding
// half to even.
//
// Contract: exactly hardware/numerics.py. With mult 1, bias 0 and shift 0 raw_o is the sum. Sum,
// bias, mult and shift are read in cycle t, zero_point in t + 6, the clips in t + 7; the results
// are valid in t + 8. One sum per cycle. Two multipliers of 25 x 18 bits; the second adds the first
// shifted by 17 in the cascade.

`default_nettype none

module vdla_requantise_lane
  import vdla_pkg::*;
(
  input  logic                      clk_i,
  input  logic signed [       31:0] sum_i,
  input  logic signed [       31:0] bias_i,
  input  logic        [       23:0] mult_i,
  input  logic        [        5:0] shift_i,
  input  logic signed [OutBits-1:0] zero_point_i,
  input  logic signed [OutBits-1:0] clip_lo_i,
  input  logic signed [OutBits-1:0] clip_hi_i,
  output logic signed [OutBits-1:0] result_o,
  output logic        [       31:0] raw_o
);

  // --- t + 1: the biased sum; t + 4: its product with mult, the low part a cycle earlier

  logic        [31:0] biased_q;
  logic signed [14:0] high_q;
  logic signed [24:0] mult_q, mult_late_q;
  logic signed [41:0] low_product_q, low_sum_q;
  logic signed [39:0] high_product_q;
  logic        [38:0] high_sum_q;
  logic        [16:0] low_late_q;
  logic        [55:0] product;

  always_ff @(posedge clk_i) begin
    biased_q <= sum_i + bias_i;
    mult_q <= {1'b0, mult_i};
    high_q <= biased_q[31:17];
    mult_late_q <= mult_q;
    low_product_q <= signed'({1'b0, biased_q[16:0]}) * mult_q;
    high_product_q <= high_q * mult_late_q;
    low_sum_q <= low_product_q;
    high_sum_q <= 39'(high_product_q + 40'(low_sum_q >>> 17));
    low_late_q <= low_sum_q[16:0];
  end
  assign product = {high_sum_q, low_late_q};

  // --- t + 5: shift by a multiple of 4, then by the rest. The bit below the last one is the half;
  // the sticky bit says whether a bit below the half is set.

  logic        [ 5:0] shift;
  logic        [ 1:0] rest_q;
  logic signed [56:0] scaled, coarse_q, fine;
  logic        [55:0] lost;
  logic               sticky_q, below;

  vdla_delay #(
    .Bits  (6),
    .Cycles(4)
  ) u_shift (
    .clk_i,
    .data_i(shift_i),
    .data_o(shift)
  );

  assign scaled = signed'({product, 1'b0});

  always_comb begin
    for (int n = 0; n < 14; n++) lost[4*n+:4] = scaled[4*n+:4] & {4{shift[5:2] > 4'(n)}};
  end

  always_ff @(posedge clk_i) begin
    coarse_q <= scaled >>> {shift[5:2], 2'b00};
    rest_q <= shift[1:0];
    sticky_q <= |lost;
  end
  assign fine = coarse_q >>> rest_q;
  assign below = sticky_q || |(coarse_q[2:0] & ~(3'b111 << rest_q));

  // --- t + 6: saturate to one bit more than a result: a saturated value is clipped in any case,
  // whatever the zero point and the rounding

  logic                    fits;
  logic signed [OutBits:0] value_q;
  logic                    round_q;
  logic        [     31:0] raw_q, raw_late_q;

  assign fits = fine[56:OutBits+1] == {(56 - OutBits) {fine[56]}};

  always_ff @(posedge clk_i) begin
    value_q <= fits ? fine[OutBits+1:1] : {fine[56], {OutBits{!fine[56]}}};
    round_q <= fine[0] && (below || fine[1]);
    raw_q <= coarse_q[32:1];
  end

  // --- t + 7: the rounded value and the zero point; t + 8: the result

  logic signed [OutBits+1:0] moved_q;

  always_ff @(posedge clk_i) begin
    moved_q <= (OutBits + 2)'(value_q) + (OutBits + 2)'(zero_point_i)
             + signed'({{(OutBits + 1) {1'b0}}, round_q});
    raw_late_q <= raw_q;
  end

  always_ff @(posedge clk_i) begin
    if (moved_q > (OutBits + 2)'(clip_hi_i)) result_o <= clip_hi_i;
    else if (moved_q < (OutBits + 2)'(clip_lo_i)) result_o <= clip_lo_i;
    else result_o <= moved_q[OutBits-1:0];
    raw_o <= raw_late_q;
  end

endmodule

`default_nettype wire
