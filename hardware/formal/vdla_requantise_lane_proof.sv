// SPDX-License-Identifier: Apache-2.0
// Proof: vdla_requantise_lane multiplies what it should, rounds half to even and saturates, whatever
// the sum, the bias, the multiplier, the shift, the zero point and the bounds.
//
// With Cut 0 the two multipliers are shown to get the low 17 and the high 15 bits of the biased sum
// with the multiplier. Neither product is truncated, so (high * 2**17 + low) * mult is high * mult *
// 2**17 + low * mult. With Cut 1 what the multipliers give is free within the range of such products.
module vdla_requantise_lane_proof
  import vdla_pkg::*;
#(
  parameter bit Cut = 1'b1
) (
  input logic                      clk_i,
  input logic signed [       31:0] sum_i,
  input logic signed [       31:0] bias_i,
  input logic        [       23:0] mult_i,
  input logic        [        5:0] shift_i,
  input logic signed [OutBits-1:0] zero_point_i,
  input logic signed [OutBits-1:0] clip_lo_i,
  input logic signed [OutBits-1:0] clip_hi_i
);
  localparam int unsigned Latency = 8;
  localparam int unsigned ToProduct = 4;  // cycles
  localparam logic signed [63:0] MostMult = (64'sd1 << 24) - 1;
  localparam logic signed [63:0] MostLow = ((64'sd1 << 17) - 1) * MostMult;

  logic signed [OutBits-1:0] result;

  vdla_requantise_lane u_lane (
    .clk_i,
    .sum_i,
    .bias_i,
    .mult_i,
    .shift_i,
    .zero_point_i,
    .clip_lo_i,
    .clip_hi_i,
    .result_o    (result),
    .raw_o       ()
  );

  // The age of the state: what was given, and what is computed of it, by cycles since.
  logic [3:0] age_q = '0;
  always_ff @(posedge clk_i) age_q <= 32'(age_q) == Latency ? age_q : age_q + 1'b1;

  if (!Cut) begin : gen_products
    logic        [31:0] biased_q, biased_late_q;
    logic        [23:0] mult_q, mult_late_q;
    logic signed [41:0] low_q;
    logic signed [39:0] high_q;

    always_ff @(posedge clk_i) begin
      biased_q      <= sum_i + bias_i;
      biased_late_q <= biased_q;
      mult_q        <= mult_i;
      mult_late_q   <= mult_q;
      // Yosys merges these multipliers with those of the lane if they are the same.
      low_q         <= signed'({1'b0, u_lane.biased_q[16:0]}) * u_lane.mult_q;
      high_q        <= u_lane.high_q * u_lane.mult_late_q;
    end

    always_comb begin
      if (age_q >= 4'd1) begin
        assert (u_lane.biased_q == biased_q && u_lane.mult_q == signed'({1'b0, mult_q}));
      end
      if (age_q >= 4'd2) begin
        assert (u_lane.high_q == biased_late_q[31:17]);
        assert (u_lane.mult_late_q == signed'({1'b0, mult_late_q}));
        assert (u_lane.low_product_q == low_q);
      end
      if (age_q >= 4'd3) assert (u_lane.high_product_q == high_q);
    end
  end else begin : gen_rounding
    localparam logic signed [63:0] Over = 64'sd1 << OutBits;  // more than a value before the bounds

    logic signed [41:0] low, low_late_q;
    logic signed [39:0] high;
    logic        [ 5:0] shift_q[ToProduct];
    logic signed [63:0] product_q;
    logic signed [OutBits-1:0] zero_point_q, zero_point_late_q, clip_lo_q, clip_hi_q;

    assign low  = u_lane.low_product_q;
    assign high = u_lane.high_product_q;

    // Half to even: the floor, and one more if the bit below it is set and another one below that,
    // or the floor is odd. Both by age from t + 4.
    logic signed [55:0] floor, floor_q[Latency-ToProduct];
    logic signed [63:0] moved, bounded;
    logic               up, up_q[Latency-ToProduct];
    logic        [ 5:0] shift;

    assign shift = shift_q[ToProduct-1];
    assign floor = 56'(product_q >>> shift);
    assign up    = shift != '0 && product_q[shift-1'b1]
        && (floor[0] || (product_q & ~(~64'd0 << (shift - 1'b1))) != '0);

    always_ff @(posedge clk_i) begin
      low_late_q        <= low;
      product_q         <= (64'(high) <<< 17) + 64'(low_late_q);
      shift_q[0]        <= shift_i;
      floor_q[0]        <= floor;
      up_q[0]           <= up;
      for (int n = 1; n < ToProduct; n++) shift_q[n] <= shift_q[n-1];
      for (int n = 1; n < Latency - ToProduct; n++) begin
        floor_q[n] <= floor_q[n-1];
        up_q[n]    <= up_q[n-1];
      end
      zero_point_q      <= zero_point_i;
      zero_point_late_q <= zero_point_q;
      clip_lo_q         <= clip_lo_i;
      clip_hi_q         <= clip_hi_i;
    end

    function automatic logic in_range(logic signed [55:0] value);
      return 64'(value) < Over && 64'(value) >= -Over;
    endfunction

    always_comb begin
      moved = 64'(floor_q[3]) + 64'(zero_point_late_q) + 64'(up_q[3]);
      bounded = moved;
      if (bounded < 64'(clip_lo_q)) bounded = 64'(clip_lo_q);
      if (bounded > 64'(clip_hi_q)) bounded = 64'(clip_hi_q);
    end

    always_comb begin
      assume (clip_lo_i <= clip_hi_i);
      // Products with a multiplier of at most 2**24 - 1.
      assume (low >= 0 && 64'(low) <= MostLow);
      assume (64'(high) >= -(64'sd1 << 14) * MostMult);
      assume (64'(high) <= ((64'sd1 << 14) - 1) * MostMult);

      if (32'(age_q) == Latency) assert (64'(result) == bounded);

      // Invariants for the induction, stage by stage.
      for (int unsigned n = 0; n < ToProduct; n++) begin
        if (32'(age_q) > n) assert (u_lane.u_shift.gen_registers.data_q[n] == shift_q[n]);
      end
      assert (32'(age_q) <= Latency);
      if (age_q >= 4'd1) assert (low_late_q >= 0 && 64'(low_late_q) <= MostLow);
      if (age_q >= 4'd3) assert (u_lane.low_sum_q == low_late_q);
      if (age_q >= 4'd4) assert (64'(signed'(u_lane.product)) == product_q);
      // What is coarsely shifted, and whether anything is lost on either side.
      if (age_q >= 4'd5) begin
        if (in_range(floor_q[0])) begin
          assert (u_lane.fits && u_lane.fine[OutBits+1:1] == floor_q[0][OutBits:0]);
          assert ((u_lane.fine[0] && (u_lane.below || u_lane.fine[1])) == up_q[0]);
        end else begin
          assert (!u_lane.fits && u_lane.sign_q == floor_q[0][55]);
        end
      end
      if (age_q >= 4'd6) begin
        if (in_range(floor_q[1])) begin
          assert (u_lane.value_q == floor_q[1][OutBits:0] && u_lane.round_q == up_q[1]);
        end else begin
          assert (u_lane.value_q == {floor_q[1][55], {OutBits{!floor_q[1][55]}}});
        end
      end
      if (age_q >= 4'd7) begin
        if (in_range(floor_q[2])) begin
          assert (64'(u_lane.moved_q) == 64'(floor_q[2]) + 64'(zero_point_q) + 64'(up_q[2]));
        end else if (floor_q[2] < 0) begin
          assert (64'(u_lane.moved_q) <= -(Over / 2));
        end else begin
          assert (64'(u_lane.moved_q) >= Over / 2 - 1);
        end
      end
    end
  end
endmodule
