// SPDX-License-Identifier: Apache-2.0
// Selects a part, or a group of parts, of a wide memory word by the index of its first part.
//
// Contract: part_o belongs to the index of the last cycle with re_i, like the word of a vdla_ram
// read with it. A group has a power of two of parts, up to Group, and begins at a multiple of that
// number; it is in the low parts of part_o, those above it are any of the word.

`default_nettype none

module vdla_select #(
  parameter int unsigned PartBits = 8,
  parameter int unsigned Parts = 4,     // a power of two
  parameter int unsigned Group = 1,     // a power of two of at most Parts
  parameter int unsigned IndexBits = 8  // at least $clog2(Parts)
) (
  input  logic                      clk_i,
  input  logic                      re_i,
  // verilator lint_off UNUSEDSIGNAL
  input  logic [     IndexBits-1:0] index_i,  // the upper bits are the address of the word
  // verilator lint_on UNUSEDSIGNAL
  input  logic [Parts*PartBits-1:0] word_i,
  output logic [Group*PartBits-1:0] part_o
);

  if (Parts == 1) begin : gen_whole
    // verilator lint_off UNUSEDSIGNAL
    logic unused;
    // verilator lint_on UNUSEDSIGNAL
    assign unused = clk_i ^ re_i ^ (^index_i);
    assign part_o = word_i;
  end else begin : gen_part
    typedef logic [$clog2(Parts)-1:0] place_t;
    // verilator lint_off UNUSEDSIGNAL
    place_t part_q;  // with all parts in a group, some bits of it choose nothing
    // verilator lint_on UNUSEDSIGNAL

    always_ff @(posedge clk_i) begin
      if (re_i) part_q <= place_t'(index_i);
    end

    assign part_o[0+:PartBits] = word_i[32'(part_q)*PartBits+:PartBits];

    // A group that has a k-th part begins at a multiple of the power of two above k.
    for (genvar k = 1; k < Group; k++) begin : gen_further
      localparam int unsigned Size = 32'd1 << $clog2(k + 1);
      place_t place;

      assign place = part_q & ~place_t'(Size - 1) | place_t'(k);
      assign part_o[k*PartBits+:PartBits] = word_i[32'(place)*PartBits+:PartBits];
    end
  end

endmodule

`default_nettype wire
