// A lane of the vector unit: the new entry from the old one and two operands, in 32-bit wrapping
// arithmetic.
//
// Contract: exactly the operations of hardware/numerics.py under the controls of alu_control().
// Combinational, since an operation may need the previous result. Three multipliers of at most 17 x
// 17 bits, one shifter.

module vdla_alu
  import vdla_compute_pkg::*;
(
  input  alu_control_t       control_i,
  input  logic signed [31:0] old_i,
  input  logic signed [31:0] x_i,
  input  logic signed [31:0] b_i,
  output logic signed [31:0] new_o
);

  function automatic logic [31:0] reversed(logic [31:0] bits);
    for (int k = 0; k < 32; k++) reversed[k] = bits[31-k];
  endfunction

  logic [31:0] first, second;

  assign first = control_i.keep ? old_i : '0;

  // --- product and sum: the low 32 bits, from 17 low and 15 high bits of each factor. The three
  // products are computed in parallel; the terms of the upper bits are added in carry-save form,
  // since the adders of the multipliers would form a chain.

  logic [31:0] factor, low, accumulated;
  logic [14:0] middle, other_middle;
  logic [13:0] carries;

  assign factor = control_i.factor_x ? x_i : old_i;
  assign low = factor[16:0] * b_i[16:0] + first;
  assign middle = factor[31:17] * b_i[14:0];
  assign other_middle = factor[14:0] * b_i[31:17];
  assign carries = low[30:17] & middle[13:0] | low[30:17] & other_middle[13:0]
      | middle[13:0] & other_middle[13:0];
  assign accumulated[16:0] = low[16:0];
  assign accumulated[31:17] = (low[31:17] ^ middle ^ other_middle) + {carries, 1'b0};

  // --- sum without a product, and the sign of the exact sum or difference for comparisons

  logic [32:0] sum;
  logic        subtract, negative;

  // A clip compares a positive old entry with b, a negative one with -b.
  assign subtract = control_i.pick == PickClip ? !old_i[31] : control_i.subtract;
  assign second = b_i ^ {32{subtract}};
  assign sum = {first[31], first} + {second[31], second} + 33'(subtract);
  assign negative = sum[32];

  // --- shift, rounded half up, or -b: one incrementer for both

  logic signed [33:0] shiftable;
  logic        [32:0] shifted;
  logic        [31:0] incremented, addend;
  logic               carry;

  // A left shift is a right shift of the reversed bits. The bit below the last is the one that
  // rounds.
  always_comb begin
    shiftable = {old_i[31], old_i, 1'b0};
    if (control_i.left) shiftable = {1'b0, reversed(old_i), 1'b0};
  end
  assign shifted = 33'(shiftable >>> b_i[4:0]);

  always_comb begin
    addend = shifted[32:1];
    carry = shifted[0];
    if (control_i.left) begin
      addend = reversed(shifted[32:1]);
      carry = 1'b0;
    end
    if (control_i.pick == PickClip) begin
      addend = ~b_i;
      carry = 1'b1;
    end
  end
  assign incremented = addend + 32'(carry);

  // --- result

  typedef enum logic [1:0] {
    FromSum,
    FromIncrement,
    FromOld,
    FromOperand
  } result_e;

  result_e result;
  (* keep *)  // the product arrives last, so the other inputs are selected before it
  logic [31:0] other;

  always_comb begin
    unique case (control_i.pick)
      PickSum: result = FromSum;
      PickShift: result = FromIncrement;
      PickMin: result = negative ? FromOld : FromOperand;
      PickMax: result = negative ? FromOperand : FromOld;
      PickClip: begin
        if (b_i[31]) result = FromOperand;
        else if (old_i[31]) result = negative ? FromIncrement : FromOld;
        else result = negative ? FromOld : FromOperand;
      end
      default: result = FromOperand;
    endcase
    unique case (result)
      FromSum: other = sum[31:0];
      FromIncrement: other = incremented;
      FromOld: other = old_i;
      default: other = b_i;
    endcase
  end

  assign new_o = control_i.pick == PickSum && control_i.multiply ? accumulated : other;

endmodule
