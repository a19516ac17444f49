// SPDX-License-Identifier: Apache-2.0
// How the products of the GEMM core are packed into DSP slices, for either rate of the array.
//
// One slice makes the products of Fields weights with one activation b. With m = 2**(WgtBits-1) its
// 25-bit operand holds the weight of the top field, signed, and below it each other weight d as the
// unsigned d + m, Spacing bits apart:
//   P = top * b << (Fields-1) * Spacing  +  sum over f < Fields-1 of (d[f] + m) * b << f * Spacing
// Chains of Depth slices sum Depth elements k. They start at C, which has Offset - m * (sum of the
// chain's b) in every lower field, so that each of them ends as Offset + its sum: within [0,
// 2**Spacing), so that no field borrows from the one above it.

`default_nettype none

package vdla_gemm_pkg;
  import vdla_pkg::*;
  import vdla_types_pkg::*;

  // A package has more parameters than a design uses.
  /* verilator lint_off UNUSEDPARAM */
  // A slice multiplies 25 bits by 18.
  parameter int unsigned SliceBits = 25;

  // A sum of `depth` products is at most depth * 2**(InpBits+WgtBits-2), and above minus that.
  function automatic int unsigned field_bits(int unsigned depth);
    return InpBits + WgtBits - 1 + $clog2(depth);
  endfunction

  function automatic int unsigned fields_that_fit(int unsigned depth);
    for (int unsigned f = BlockOut < 8 ? BlockOut : 8; f > 1; f /= 2) begin
      if ((f - 1) * field_bits(depth) + WgtBits <= SliceBits) return f;
    end
    return 1;
  endfunction

  // The fewest slices, then the fewest adders.
  parameter int unsigned MostDepth = BlockIn < 4 ? BlockIn : 4;
  parameter int unsigned Depth = fields_that_fit(1) > fields_that_fit(MostDepth) ? 1 : MostDepth;
  parameter int unsigned Fields = fields_that_fit(Depth);
  parameter int unsigned Chains = BlockIn / Depth;
  parameter int unsigned Groups = BlockOut / Fields;

  parameter int unsigned Spacing = field_bits(Depth);
  parameter int unsigned SumBits = Fields * Spacing + 1;
  parameter int unsigned WideBits = (Fields - 1) * Spacing + WgtBits;
  parameter int unsigned Missing = Depth << ((InpBits < WgtBits ? InpBits : WgtBits) - 1);
  parameter int unsigned Offset = (1 << (Spacing - 1)) - Missing;

  // Leaves of the adder tree; the first also adds the correction.
  parameter int unsigned BackBits = $clog2(Chains * Missing);
  parameter int unsigned LeafBits = (Spacing > BackBits + 1 ? Spacing : BackBits + 1) + 1;
  parameter int unsigned TreeLevels = $clog2(Chains);
  parameter int unsigned TreeBits = LeafBits + TreeLevels;

  // The array at twice the clock: half of the groups, and its latency in cycles of that clock and
  // of the machine's. A single group has no halves.
  parameter int unsigned HalfGroups = Groups > 1 ? Groups / 2 : 1;
  parameter int unsigned DoubleLatency = (Depth + TreeLevels + 6) / 2;

  // From the operands of the array to its sums; the rest of GemmLatency passes before the buffers
  // are read.
  parameter int unsigned ArrayLatency = ArrayRate == 1 ? GemmLatency : DoubleLatency;
  /* verilator lint_on UNUSEDPARAM */

  typedef logic [Fields-1:0][WgtBits-1:0] weights_t;
  typedef logic signed [WideBits-1:0] wide_t;
  typedef logic signed [InpBits-1:0] activation_t;

  // The operand of a slice.
  function automatic wide_t widen(weights_t weights);
    wide_t wide;
    wide = '0;
    for (int unsigned f = 0; f < Fields; f++) begin
      wide[f*Spacing+:WgtBits] = weights[f];
      if (f + 1 < Fields) wide[f*Spacing+WgtBits-1] ^= 1'b1;
    end
    return wide;
  endfunction

endpackage

`default_nettype wire
