// SPDX-License-Identifier: Apache-2.0
// The weight buffer: written by load, read by GEMM as entries, by VECTOR as vectors of block_out
// elements.
//
// Contract: a write is any buffer_write_t, those to other buffers are ignored. entry_o is valid in
// the cycle after entry_re_i, vector_o in the cycle after vector_re_i; only one of them is read in
// a cycle. entry_o is the group of entries that begins at the index, as vdla_select has it: one
// without extensions.

`default_nettype none

module vdla_wgt_buffer
  import vdla_pkg::*, vdla_types_pkg::*, vdla_ext_pkg::*;
(
  input  logic                     clk_i,
  input  logic                     rst_ni,
  input  logic                     write_valid_i,
  // verilator lint_off UNUSEDSIGNAL
  input  buffer_write_t            write_i,
  input  logic [ WgtFieldBits-1:0] entry_index_i,
  // verilator lint_on UNUSEDSIGNAL
  input  logic                     entry_re_i,
  input  logic                     vector_re_i,
  input  logic [ WgtFieldBits-1:0] vector_index_i,
  output logic [ WgtGroupBits-1:0] entry_o,
  output logic [WgtVectorBits-1:0] vector_o
);

  // A word of the memory is the largest group; a load writes one of its entries.
  localparam int unsigned Words = WgtDepth / WgtGroup;
  localparam int unsigned WordIndexBits = Words > 1 ? $clog2(Words) : 1;

  logic [         WgtBeats-1:0] entry_we;
  logic [WgtGroup*WgtBeats-1:0] we;
  logic [    WordIndexBits-1:0] write_index, read_index;
  logic [     WgtGroupBits-1:0] word;
  logic [     WgtIndexBits-1:0] index;
  logic [     WgtEntryBits-1:0] entry;

  always_comb begin
    for (int unsigned k = 0; k < WgtBeats; k++) begin
      entry_we[k] = write_valid_i && write_i.buffer == BufWgt && 32'(write_i.beat) == k;
    end
  end
  assign index = entry_re_i ? WgtIndexBits'(entry_index_i)
                            : WgtIndexBits'(32'(vector_index_i) / BlockIn);

  if (WgtGroup == 1) begin : gen_entries
    assign we = entry_we;
    assign write_index = WordIndexBits'(write_i.index);
    assign read_index = index;
    assign entry_o = word;
    assign entry = word;
  end else begin : gen_groups
    for (genvar k = 0; k < WgtGroup; k++) begin : gen_entry_we
      assign we[k*WgtBeats+:WgtBeats] =
          entry_we & {WgtBeats{32'(write_i.index) % WgtGroup == k}};
    end

    assign write_index = WordIndexBits'(32'(write_i.index) / WgtGroup);
    assign read_index = WordIndexBits'(32'(index) / WgtGroup);

    vdla_select #(
      .PartBits (WgtEntryBits),
      .Parts    (WgtGroup),
      .Group    (WgtGroup),
      .IndexBits(WgtIndexBits)
    ) u_entry (
      .clk_i,
      .re_i   (entry_re_i || vector_re_i),
      .index_i(index),
      .word_i (word),
      .part_o (entry_o)
    );

    assign entry = entry_o[WgtEntryBits-1:0];
  end

  vdla_ram #(
    .Depth   (Words),
    .LaneBits(AxiBits),
    .Lanes   (WgtGroup * WgtBeats)
  ) u_ram (
    .clk_i,
    .rst_ni,
    .we_i   (we),
    .waddr_i(write_index),
    .wdata_i({WgtGroup * WgtBeats{write_i.data}}),
    .re_i   (entry_re_i || vector_re_i),
    .raddr_i(read_index),
    .rdata_o(word)
  );

  vdla_select #(
    .PartBits (WgtVectorBits),
    .Parts    (BlockIn),
    .IndexBits(WgtFieldBits)
  ) u_vector (
    .clk_i,
    .re_i   (vector_re_i),
    .index_i(vector_index_i),
    .word_i (entry),
    .part_o (vector_o)
  );

`ifndef SYNTHESIS
  // The memory has one read port.
  OneReader_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      !(entry_re_i && vector_re_i));
`endif

endmodule

`default_nettype wire
