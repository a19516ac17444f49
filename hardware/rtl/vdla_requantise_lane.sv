// SPDX-License-Identifier: Apache-2.0
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

  // --- t + 5: shift by a multiple of 4, a digit, then by the rest. The bit below the last one is the
  // half; the sticky bit says whether a bit below the half is set. Only the bits of a result are
  // shifted; above them the digits of the product must equal the sign, or the result saturates.

  localparam int unsigned ScaledBits = 57;
  localparam int unsigned CoarseBits = OutBits + 5;  // result, half, and the rest of the shift
  localparam int unsigned LowDigits = 14;
  localparam int unsigned HighDigits = (ScaledBits - CoarseBits + 3) / 4;

  typedef logic [3:0] digit_t;

  logic        [5:0]            shift;
  digit_t                       digits;  // of the shift
  logic        [1:0]            rest_q;
  logic signed [ScaledBits-1:0] scaled;
  logic        [LowDigits-1:0]  is_lost;
  logic        [HighDigits-1:0] exceeds;
  logic        [CoarseBits-1:0] coarse_q;
  logic        [OutBits+1:0]    fine;
  logic                         sign_q, exceeds_q, sticky_q, below;
  logic        [31:0]           raw_q, raw_late_q, raw_later_q;

  vdla_delay #(
    .Bits  (6),
    .Cycles(4)
  ) u_shift (
    .clk_i,
    .data_i(shift_i),
    .data_o(shift)
  );

  assign scaled = signed'({product, 1'b0});
  assign digits = shift[5:2];

  always_comb begin
    for (int unsigned n = 0; n < LowDigits; n++) begin
      is_lost[n] = scaled[4*n+:4] != '0 && digits > digit_t'(n);
    end
  end

  for (genvar n = 0; n < HighDigits; n++) begin : gen_digit
    localparam int unsigned Low = CoarseBits + 4 * n;
    localparam int unsigned Bits = ScaledBits - Low < 4 ? ScaledBits - Low : 4;

    assign exceeds[n] = scaled[Low+:Bits] != {Bits{scaled[ScaledBits-1]}} && digits <= digit_t'(n);
  end

  always_ff @(posedge clk_i) begin
    coarse_q <= CoarseBits'(scaled >>> {digits, 2'b00});
    sign_q <= scaled[ScaledBits-1];
    rest_q <= shift[1:0];
    sticky_q <= is_lost != '0;
    exceeds_q <= exceeds != '0;
    raw_q <= scaled[32:1];  // raw sums are not shifted
  end
  assign fine = (OutBits + 2)'(coarse_q >> rest_q);
  assign below = sticky_q || |(coarse_q[2:0] & ~(3'b111 << rest_q));

  // --- t + 6: saturate to one bit more than a result: a saturated value is clipped in any case,
  // whatever the zero point and the rounding

  logic                    fits;
  logic signed [OutBits:0] value_q;
  logic                    round_q;
  digit_t                  over;  // what is above a result before the rest of the shift

  assign over = coarse_q[CoarseBits-1-:4] ^ {4{sign_q}};
  assign fits = !exceeds_q && (over & (4'b1111 << rest_q)) == '0;

  always_ff @(posedge clk_i) begin
    value_q <= fits ? fine[OutBits+1:1] : {sign_q, {OutBits{!sign_q}}};
    round_q <= fine[0] && (below || fine[1]);
    raw_late_q <= raw_q;
  end

  // --- t + 7: the rounded value and the zero point; t + 8: the result

  logic signed [OutBits+1:0] moved_q;

  always_ff @(posedge clk_i) begin
    moved_q <= (OutBits + 2)'(value_q) + (OutBits + 2)'(zero_point_i)
             + signed'({{(OutBits + 1) {1'b0}}, round_q});
    raw_later_q <= raw_late_q;
  end

  always_ff @(posedge clk_i) begin
    if (moved_q > (OutBits + 2)'(clip_hi_i)) result_o <= clip_hi_i;
    else if (moved_q < (OutBits + 2)'(clip_lo_i)) result_o <= clip_lo_i;
    else result_o <= moved_q[OutBits-1:0];
    raw_o <= raw_later_q;
  end

endmodule

`default_nettype wire
