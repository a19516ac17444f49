// SPDX-License-Identifier: Apache-2.0
// The buffer of requantisation parameters: written by load, read by the requantiser.
//
// Contract: a write is any buffer_write_t, those to other buffers are ignored. entry_o is valid in
// the cycle after re_i.

`default_nettype none

module vdla_scl_buffer
  import vdla_pkg::*, vdla_types_pkg::*;
(
  input  logic                    clk_i,
  input  logic                    rst_ni,
  input  logic                    write_valid_i,
  // verilator lint_off UNUSEDSIGNAL
  input  buffer_write_t           write_i,
  // verilator lint_on UNUSEDSIGNAL
  input  logic                    re_i,
  input  logic [SclFieldBits-1:0] index_i,
  output logic [SclEntryBits-1:0] entry_o
);

  logic [SclBeats-1:0] we;

  always_comb begin
    for (int unsigned k = 0; k < SclBeats; k++) begin
      we[k] = write_valid_i && write_i.buffer == BufScl && 32'(write_i.beat) == k;
    end
  end

  vdla_ram #(
    .Depth   (SclDepth),
    .LaneBits(AxiBits),
    .Lanes   (SclBeats),
    .FewWords(1'b1)
  ) u_ram (
    .clk_i,
    .rst_ni,
    .we_i   (we),
    .waddr_i(SclIndexBits'(write_i.index)),
    .wdata_i({SclBeats{write_i.data}}),
    .re_i,
    .raddr_i(SclIndexBits'(index_i)),
    .rdata_o(entry_o)
  );

`ifndef SYNTHESIS
  // A write is of one beat of an entry.
  OneBeat_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      write_valid_i && write_i.buffer == BufScl |-> !write_i.fill && $onehot(we));
  // Requantisation reads while load writes another entry.
  ReadBesideWrite_C: cover property (@(posedge clk_i) disable iff (!rst_ni) re_i && |we);
`endif

endmodule

`default_nettype wire
