// The matrix multiplier: batch x block_out sums of block_in products each, exact for all operands.
//
// sums_o[b*BlockOut+o] = sum over k of inp_i[b][k] * wgt_i[o][k]. Latency: GemmLatency = 3 +
// $clog2(BlockIn) cycles. Throughput: one result per cycle. Without valid bit and reset: the output
// belongs to the input GemmLatency cycles before.
//
// One DSP slice makes the products of Fields weights with one activation b. With m = 2**(WgtBits-1)
// its 25-bit operand holds the weight of the top field, signed, and below it each other weight d as
// the unsigned d + m, Spacing bits apart:
//   P = top * b << (Fields-1) * Spacing  +  sum over f < Fields-1 of (d[f] + m) * b << f * Spacing
// Chains of Depth slices sum Depth elements k. They start at C, which has Offset - m * (sum of the
// chain's b) in every lower field, so that each of them ends as Offset + its sum: within [0,
// 2**Spacing), so that no field borrows from the one above it. An adder tree sums the chains; it
// subtracts Offset by turning the top bit of a field into a sign, which leaves Missing in each
// chain, and adds the total of these at its first leaf.
module vdla_gemm_core
  import vdla_pkg::*;
  import vdla_types_pkg::*;
(
  input  logic                    clk_i,
  input  logic [InpEntryBits-1:0] inp_i,
  input  logic [WgtEntryBits-1:0] wgt_i,
  output logic [Lanes*32-1:0]     sums_o
);
  // A slice multiplies 25 bits by 18.
  localparam int unsigned SliceBits = 25;

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
  localparam int unsigned MostDepth = BlockIn < 4 ? BlockIn : 4;
  localparam int unsigned Depth = fields_that_fit(1) > fields_that_fit(MostDepth) ? 1 : MostDepth;
  localparam int unsigned Fields = fields_that_fit(Depth);
  localparam int unsigned Chains = BlockIn / Depth;
  localparam int unsigned Groups = BlockOut / Fields;

  localparam int unsigned Spacing = field_bits(Depth);
  localparam int unsigned SumBits = Fields * Spacing + 1;
  localparam int unsigned WideBits = (Fields - 1) * Spacing + WgtBits;
  localparam int unsigned Missing = Depth << ((InpBits < WgtBits ? InpBits : WgtBits) - 1);
  localparam int unsigned Offset = (1 << (Spacing - 1)) - Missing;

  // Leaves of the tree; the first also adds the correction.
  localparam int unsigned BackBits = $clog2(Chains * Missing);
  localparam int unsigned LeafBits = (Spacing > BackBits + 1 ? Spacing : BackBits + 1) + 1;
  localparam int unsigned TreeBits = LeafBits + $clog2(Chains);

  // A chain takes Depth + 1 cycles and the tree $clog2(Chains); this makes it GemmLatency.
  localparam int unsigned Pad = 2 + $clog2(Depth) - Depth;

  for (genvar b = 0; b < Batch; b++) begin : gen_batch
    // The start value of the chains of all groups, which depends on the activations alone.
    logic signed [SumBits-1:0] start[Chains];

    for (genvar c = 0; c < Chains; c++) begin : gen_start
      if (Fields > 1) begin : gen_fields
        logic [Spacing-1:0] total;
        logic [Pad:0][Spacing-1:0] field_q;

        always_comb begin
          total = '0;
          for (int unsigned k = 0; k < Depth; k++) begin
            total += Spacing'(signed'(inp_i[(b*BlockIn+c*Depth+k)*InpBits+:InpBits]));
          end
        end

        always_ff @(posedge clk_i) begin
          field_q[0] <= Spacing'(Offset) - (total << (WgtBits - 1));
          for (int unsigned s = 1; s <= Pad; s++) field_q[s] <= field_q[s-1];
        end

        assign start[c] = SumBits'({(Fields - 1) {field_q[Pad]}});
      end else begin : gen_plain
        assign start[c] = '0;
      end
    end

    for (genvar g = 0; g < Groups; g++) begin : gen_group
      logic [Fields*Chains*LeafBits-1:0] leaves;

      for (genvar c = 0; c < Chains; c++) begin : gen_chain
        logic signed [SumBits-1:0] sums[Depth+1];
        assign sums[0] = start[c];

        for (genvar j = 0; j < Depth; j++) begin : gen_mac
          localparam int unsigned K = c * Depth + j;
          logic signed [WideBits-1:0] wide;

          always_comb begin
            wide = '0;
            for (int unsigned f = 0; f < Fields; f++) begin
              wide[f*Spacing+:WgtBits] = wgt_i[((g*Fields+f)*BlockIn+K)*WgtBits+:WgtBits];
              if (f + 1 < Fields) wide[f*Spacing+WgtBits-1] ^= 1'b1;
            end
          end

          vdla_mac #(
            .Stages(Pad + j),
            .ABits (WideBits),
            .BBits (InpBits),
            .PBits (SumBits)
          ) u_mac (
            .clk_i,
            .a_i  (wide),
            .b_i  (inp_i[(b*BlockIn+K)*InpBits+:InpBits]),
            .sum_i(sums[j]),
            .sum_o(sums[j+1])
          );
        end

        for (genvar f = 0; f < Fields; f++) begin : gen_leaf
          logic signed [LeafBits-1:0] leaf;

          if (f + 1 == Fields) begin : gen_top
            assign leaf = LeafBits'(sums[Depth] >>> (f * Spacing));
          end else begin : gen_lower
            logic [Spacing-1:0] field;
            logic signed [LeafBits-1:0] signed_field;

            assign field = sums[Depth][f*Spacing+:Spacing];
            assign signed_field = LeafBits'(signed'({~field[Spacing-1], field[Spacing-2:0]}));
            if (c == 0) begin : gen_give_back
              assign leaf[BackBits-1:0] = signed_field[BackBits-1:0];
              assign leaf[LeafBits-1:BackBits] = signed_field[LeafBits-1:BackBits] + 1'b1;
            end else begin : gen_as_it_is
              assign leaf = signed_field;
            end
          end

          assign leaves[(f*Chains+c)*LeafBits+:LeafBits] = leaf;
        end
      end

      for (genvar f = 0; f < Fields; f++) begin : gen_sum
        logic signed [TreeBits-1:0] sum;

        if (Chains == 1) begin : gen_one
          assign sum = leaves[f*LeafBits+:LeafBits];
        end else begin : gen_tree
          vdla_adder_tree #(
            .Leaves  (Chains),
            .LeafBits(LeafBits)
          ) u_tree (
            .clk_i,
            .leaves_i(leaves[f*Chains*LeafBits+:Chains*LeafBits]),
            .sum_o   (sum)
          );
        end
        assign sums_o[(b*BlockOut+g*Fields+f)*32+:32] = 32'(sum);
      end
    end
  end
endmodule
