// SPDX-License-Identifier: Apache-2.0
// The part of the input buffer that steps of extensions write: entries beside those that load
// writes, and which of the two are newer.
//
// Contract: loads_i are the entries of a word that load writes in a cycle. entry_i is written at
// index_i. word_o has the newest entries of the word of raddr_i, in the cycle after re_i; loaded_i
// are those of load, at the same time. Load and a step may write in one cycle, not the same entry.

`default_nettype none

module vdla_ext_inputs
  import vdla_pkg::*;
#(
  parameter int unsigned Words = 512,
  parameter int unsigned Entries = 1,  // of a word
  localparam int unsigned IndexBits = Words > 1 ? unsigned'($clog2(Words)) : 1
) (
  input  logic                            clk_i,
  input  logic                            rst_ni,
  input  logic [             Entries-1:0] loads_i,
  input  logic [           IndexBits-1:0] load_word_i,
  input  logic                            we_i,
  input  logic [        AccFieldBits-1:0] index_i,
  input  logic [        InpEntryBits-1:0] entry_i,
  input  logic                            re_i,
  input  logic [           IndexBits-1:0] raddr_i,
  input  logic [Entries*InpEntryBits-1:0] loaded_i,
  output logic [Entries*InpEntryBits-1:0] word_o
);

  logic [             Entries-1:0] we, newer_q;
  logic [           IndexBits-1:0] word;
  logic [Entries*InpEntryBits-1:0] stored;

  assign word = IndexBits'(32'(index_i) / Entries);

  always_comb begin
    for (int unsigned k = 0; k < Entries; k++) we[k] = we_i && 32'(index_i) % Entries == k;
  end

  vdla_ram #(
    .Depth    (Words),
    .LaneBits (InpEntryBits),
    .Lanes    (Entries),
    .ManyWords(1'b1)
  ) u_ram (
    .clk_i,
    .rst_ni,
    .we_i   (we),
    .waddr_i(word),
    .wdata_i({Entries{entry_i}}),
    .re_i,
    .raddr_i,
    .rdata_o(stored)
  );

  // An entry has two bits, one for each writer: load makes its own equal to the other, a step makes
  // its own unequal.
  for (genvar k = 0; k < Entries; k++) begin : gen_entry
    logic by_load[2], by_step[2];

    vdla_ext_flags #(
      .Depth(Words)
    ) u_load (
      .clk_i,
      .we_i   (loads_i[k]),
      .waddr_i(load_word_i),
      .wdata_i(by_step[0]),
      .raddr_i('{word, raddr_i}),
      .rdata_o(by_load)
    );

    vdla_ext_flags #(
      .Depth(Words)
    ) u_step (
      .clk_i,
      .we_i   (we[k]),
      .waddr_i(word),
      .wdata_i(!by_load[0]),
      .raddr_i('{load_word_i, raddr_i}),
      .rdata_o(by_step)
    );

    always_ff @(posedge clk_i) begin
      if (re_i) newer_q[k] <= by_load[1] != by_step[1];
    end

    assign word_o[k*InpEntryBits+:InpEntryBits] =
        newer_q[k] ? stored[k*InpEntryBits+:InpEntryBits] : loaded_i[k*InpEntryBits+:InpEntryBits];
  end

`ifndef SYNTHESIS
  // A load and a step that write an entry are ordered.
  OneWriter_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      (we & loads_i) == '0 || load_word_i != word);
  IndexInRange_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      we_i |-> 32'(index_i) < Words * Entries);
`endif

endmodule

`default_nettype wire
