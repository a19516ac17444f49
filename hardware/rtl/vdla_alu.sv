// SPDX-License-Identifier: Apache-2.0
// A lane of the vector unit: the new entry from the old one, the second operand and the product of
// the stage before, in 32-bit wrapping arithmetic.
//
// Contract: exactly the operations of hardware/numerics.py under the controls of alu_control().
// Combinational, since the old entry and the second operand may be the previous result; only the
// product comes from a register. One shifter.

`default_nettype none

module vdla_alu
  import vdla_compute_pkg::*;
(
  // verilator lint_off UNUSEDSIGNAL
  input  alu_control_t       control_i,  // the factor was chosen a stage before
  // verilator lint_on UNUSEDSIGNAL
  input  logic signed [31:0] old_i,
  input  logic signed [31:0] b_i,
  input  product_t           product_i,
  output logic signed [31:0] new_o
);

  function automatic logic [31:0] reversed(logic [31:0] bits);
    for (int k = 0; k < 32; k++) reversed[k] = bits[31-k];
  endfunction

  // The carry bits of a sum of three terms.
  function automatic logic [13:0] majority(logic [13:0] a, logic [13:0] b, logic [13:0] c);
    return a & b | a & c | b & c;
  endfunction

  // --- the sum of the old entry with a product or with an operand, or their difference: the upper
  // bits of a product are added in carry-save form, so that one carry chain remains

  logic [31:0] first, addend;
  logic [14:0] part, part_carries, upper, upper_carries;
  logic [32:0] sum;  // exact without a product, for comparisons
  logic        below_b;

  assign first = control_i.keep ? old_i : '0;
  assign part = product_i.low[31:17] ^ product_i.middle ^ product_i.other;
  assign part_carries = {
    majority(product_i.low[30:17], product_i.middle[13:0], product_i.other[13:0]), 1'b0
  };
  assign upper_carries = {majority(part[13:0], part_carries[13:0], first[30:17]), 1'b0};

  always_comb begin
    upper = first[31:17];
    addend = b_i ^ {32{control_i.subtract}};
    if (control_i.multiply) begin
      upper = part ^ part_carries ^ first[31:17];
      addend = {upper_carries, product_i.low[16:0]};
    end
  end

  assign sum = {upper[14], upper, first[16:0]} + {addend[31], addend} + 33'(control_i.subtract);
  assign below_b = sum[32];  // if it is a difference

  // --- the sign of the sum, for the lower bound of a clip

  // verilator lint_off UNUSEDSIGNAL
  logic [32:0] above;
  // verilator lint_on UNUSEDSIGNAL
  logic        below_negated_b;

  assign above = {old_i[31], old_i} + {b_i[31], b_i};
  assign below_negated_b = above[32];

  // --- shift, rounded half up; the incrementer also negates the bound of a clip

  logic signed [33:0] shiftable;
  logic        [32:0] shifted;
  logic        [31:0] incremented;
  logic               clips;

  // A left shift is a right shift of the reversed bits. The bit below the last is the one that
  // rounds.
  always_comb begin
    shiftable = {old_i[31], old_i, 1'b0};
    if (control_i.left) shiftable = {1'b0, reversed(old_i), 1'b0};
  end
  assign shifted = 33'(shiftable >>> b_i[4:0]);
  assign clips   = control_i.pick == PickClip;

  always_comb begin
    incremented = control_i.left ? reversed(shifted[32:1]) : shifted[32:1];
    if (clips) incremented = ~b_i;
    incremented += 32'(clips || (shifted[0] && !control_i.left));
  end

  // --- the result: the signs of sums arrive last

  typedef enum logic [1:0] {
    FromSum,
    FromIncremented,
    FromOld,
    FromOperand
  } result_from_e;

  result_from_e from;

  always_comb begin
    unique case (control_i.pick)
      PickSum: from = FromSum;
      PickShift: from = FromIncremented;
      PickMin: from = below_b ? FromOld : FromOperand;
      PickMax: from = below_b ? FromOperand : FromOld;
      PickClip: begin
        if (b_i[31]) from = FromOperand;
        else if (old_i[31]) from = below_negated_b ? FromIncremented : FromOld;
        else from = below_b ? FromOld : FromOperand;
      end
      default: from = FromOperand;
    endcase
  end

  always_comb begin
    unique case (from)
      FromSum: new_o = sum[31:0];
      FromIncremented: new_o = incremented;
      FromOld: new_o = old_i;
      default: new_o = b_i;
    endcase
  end

endmodule

`default_nettype wire
