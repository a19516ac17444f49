// SPDX-License-Identifier: Apache-2.0
// The output buffer: written by the compute unit, an entry of results or a slot of sums at a time,
// read by store.
//
// Contract: index_i counts in entries, with raw_i in slots of 32 / OutBits entries. entry_o is
// valid from the cycle after re_i until the next read.

`default_nettype none

module vdla_out_buffer
  import vdla_pkg::*, vdla_types_pkg::*;
(
  input  logic                    clk_i,
  input  logic                    rst_ni,
  input  logic                    write_i,
  input  logic                    raw_i,
  input  logic [OutFieldBits-1:0] index_i,
  input  logic [OutEntryBits-1:0] result_i,
  input  logic [    Lanes*32-1:0] sums_i,
  input  logic                    re_i,
  input  logic [OutFieldBits-1:0] re_index_i,
  output logic [OutEntryBits-1:0] entry_o
);

  localparam int unsigned Entries = 32 / OutBits;
  localparam int unsigned SlotIndexBits = $clog2(OutSlots);

  logic [      Entries-1:0] we;
  logic [SlotIndexBits-1:0] slot;
  logic [     Lanes*32-1:0] word;

  always_comb begin
    for (int unsigned k = 0; k < Entries; k++) begin
      we[k] = write_i && (raw_i || 32'(index_i) % Entries == k);
    end
  end
  assign slot = raw_i ? SlotIndexBits'(index_i) : SlotIndexBits'(32'(index_i) / Entries);

  vdla_ram #(
    .Depth    (OutSlots),
    .LaneBits (OutEntryBits),
    .Lanes    (Entries),
    .ManyWords(1'b1)
  ) u_ram (
    .clk_i,
    .rst_ni,
    .we_i   (we),
    .waddr_i(slot),
    .wdata_i(raw_i ? sums_i : {Entries{result_i}}),
    .re_i,
    .raddr_i(SlotIndexBits'(32'(re_index_i) / Entries)),
    .rdata_o(word)
  );

  vdla_select #(
    .PartBits (OutEntryBits),
    .Parts    (Entries),
    .IndexBits(OutFieldBits)
  ) u_entry (
    .clk_i,
    .re_i,
    .index_i(re_index_i),
    .word_i (word),
    .part_o (entry_o)
  );

`ifndef SYNTHESIS
  // A write is of one entry, or of all entries of a slot.
  OneEntry_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      write_i |-> raw_i ? &we : $onehot(we));
  // Store reads the slot that is written: entries of other instructions share it.
  SharedSlot_C: cover property (@(posedge clk_i) disable iff (!rst_ni)
      write_i && re_i && slot == SlotIndexBits'(32'(re_index_i) / Entries));
`endif

endmodule

`default_nettype wire
