// Selects an entry, or a group of entries, of a wide memory word by the index of its first entry.
//
// Contract: group_o belongs to the index of the last cycle with re_i, like the word of a vdla_ram
// read with it. A group has a power of two of entries, up to Most, and begins at a multiple of that
// number; it is in the low entries of group_o, those above it are any of the word.

`default_nettype none

module vdla_ext_select #(
  parameter int unsigned EntryBits = 8,
  parameter int unsigned Entries = 4,   // of a word, a power of two
  parameter int unsigned Most = 2,      // entries of a group, a power of two of at most Entries
  parameter int unsigned IndexBits = 8  // at least $clog2(Entries)
) (
  input  logic                         clk_i,
  input  logic                         re_i,
  // verilator lint_off UNUSEDSIGNAL
  input  logic [        IndexBits-1:0] index_i,  // the upper bits are the address of the word
  // verilator lint_on UNUSEDSIGNAL
  input  logic [Entries*EntryBits-1:0] word_i,
  output logic [   Most*EntryBits-1:0] group_o
);

  if (Entries == 1) begin : gen_whole
    // verilator lint_off UNUSEDSIGNAL
    logic unused;
    // verilator lint_on UNUSEDSIGNAL
    assign unused = clk_i ^ re_i ^ (^index_i);
    assign group_o = word_i;
  end else begin : gen_part
    typedef logic [$clog2(Entries)-1:0] place_t;
    // verilator lint_off UNUSEDSIGNAL
    place_t first_q;  // with all entries in a group, some bits of it choose nothing
    // verilator lint_on UNUSEDSIGNAL

    always_ff @(posedge clk_i) begin
      if (re_i) first_q <= place_t'(index_i);
    end

    // A group that has a k-th entry begins at a multiple of the power of two above k.
    for (genvar k = 0; k < Most; k++) begin : gen_entry
      localparam int unsigned Size = 32'd1 << $clog2(k + 1);
      place_t place;

      assign place = first_q & ~place_t'(Size - 1) | place_t'(k);
      assign group_o[k*EntryBits+:EntryBits] = word_i[32'(place)*EntryBits+:EntryBits];
    end
  end

endmodule

`default_nettype wire
