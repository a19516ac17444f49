// SPDX-License-Identifier: Apache-2.0
// The input buffer: written by load, and by steps of extensions whose results are inputs; read by
// GEMM as entries, by VECTOR as vectors of raw elements.
//
// Contract: a write is any buffer_write_t, those to other buffers are ignored. entry_o is valid in
// the cycle after entry_re_i, vector_o in the cycle after vector_re_i; only one of them is read in
// a cycle. entry_o is the group of entries that begins at the index, as vdla_select has it: one
// without extensions. Both writers write in any cycle, not the same entry.

`default_nettype none

module vdla_inp_buffer
  import vdla_pkg::*, vdla_types_pkg::*, vdla_ext_pkg::*;
(
  input  logic                     clk_i,
  input  logic                     rst_ni,
  input  logic                     write_valid_i,
  // verilator lint_off UNUSEDSIGNAL
  input  buffer_write_t            write_i,
`ifdef VDLA_EXTENSIONS
  input  logic                     store_i,
  input  logic [ AccFieldBits-1:0] store_index_i,
  input  logic [ InpEntryBits-1:0] store_entry_i,
`endif
  // verilator lint_on UNUSEDSIGNAL
  input  logic                     entry_re_i,
  input  logic [ SrcFieldBits-1:0] entry_index_i,
  input  logic                     vector_re_i,
  input  logic [ SrcFieldBits-1:0] vector_index_i,
  output logic [ InpGroupBits-1:0] entry_o,
  output logic [InpVectorBits-1:0] vector_o
);

  // A word of the memory is the larger of group and vector.
  localparam int unsigned WordBits = InpGroupBits > InpVectorBits ? InpGroupBits : InpVectorBits;
  localparam int unsigned Entries = WordBits / InpEntryBits;
  localparam int unsigned Vectors = WordBits / InpVectorBits;
  localparam int unsigned Words = InpDepth / Entries;
  localparam int unsigned WordIndexBits = Words > 1 ? $clog2(Words) : 1;
  localparam int unsigned Beats = WordBits / AxiBits;

  logic [  Beats-1:0] we;
  logic [AxiBits-1:0] data;
  logic [WordBits-1:0] word;
`ifdef VDLA_EXTENSIONS
  logic [WordBits-1:0] loaded;
`endif
  logic [WordIndexBits-1:0] index;

  always_comb begin
    we = '0;
    for (int unsigned k = 0; k < Beats; k++) begin
      we[k] = write_valid_i && write_i.buffer == BufInp
           && 32'(write_i.index) % Entries == k / InpBeats
           && (write_i.fill || 32'(write_i.beat) == k % InpBeats);
    end
  end
  assign data = write_i.fill ? {AxiBits / InpBits{write_i.pad_value[InpBits-1:0]}} : write_i.data;
  assign index = entry_re_i ? WordIndexBits'(32'(entry_index_i) / Entries)
                            : WordIndexBits'(32'(vector_index_i) / Vectors);

  vdla_ram #(
    .Depth    (Words),
    .LaneBits (AxiBits),
    .Lanes    (Beats),
    .ManyWords(1'b1)
  ) u_ram (
    .clk_i,
    .rst_ni,
    .we_i   (we),
    .waddr_i(WordIndexBits'(32'(write_i.index) / Entries)),
    .wdata_i({Beats{data}}),
    .re_i   (entry_re_i || vector_re_i),
    .raddr_i(index),
`ifdef VDLA_EXTENSIONS
    .rdata_o(loaded)
`else
    .rdata_o(word)
`endif
  );

`ifdef VDLA_EXTENSIONS
  // --- the newest entries, of load and of steps

  if (WritesInputs) begin : gen_stored
    logic [Entries-1:0] loads;

    always_comb begin
      for (int unsigned k = 0; k < Entries; k++) loads[k] = |we[k*InpBeats+:InpBeats];
    end

    vdla_ext_inputs #(
      .Words  (Words),
      .Entries(Entries)
    ) u_stored (
      .clk_i,
      .rst_ni,
      .loads_i    (loads),
      .load_word_i(WordIndexBits'(32'(write_i.index) / Entries)),
      .we_i       (store_i),
      .index_i    (store_index_i),
      .entry_i    (store_entry_i),
      .re_i       (entry_re_i || vector_re_i),
      .raddr_i    (index),
      .loaded_i   (loaded),
      .word_o     (word)
    );
  end else begin : gen_loaded
    assign word = loaded;
  end
`endif

  vdla_select #(
    .PartBits (InpEntryBits),
    .Parts    (Entries),
    .Group    (InpGroup),
    .IndexBits(SrcFieldBits)
  ) u_entry (
    .clk_i,
    .re_i   (entry_re_i),
    .index_i(entry_index_i),
    .word_i (word),
    .part_o (entry_o)
  );

  vdla_select #(
    .PartBits (InpVectorBits),
    .Parts    (Vectors),
    .IndexBits(SrcFieldBits)
  ) u_vector (
    .clk_i,
    .re_i   (vector_re_i),
    .index_i(vector_index_i),
    .word_i (word),
    .part_o (vector_o)
  );

`ifndef SYNTHESIS
  // The memory has one read port.
  OneReader_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      !(entry_re_i && vector_re_i));
`endif

endmodule

`default_nettype wire
