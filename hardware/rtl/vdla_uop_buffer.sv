// SPDX-License-Identifier: Apache-2.0
// The micro-op buffer: written by compute's loads, read by its sequencer. Unused bits are not
// stored.
//
// Contract: a write is any buffer_write_t, those to other buffers are ignored. re_i reads into the
// memory's output, advance_i takes that into uop_o: with both set in every cycle the latency is 2.

`default_nettype none

module vdla_uop_buffer
  import vdla_pkg::*, vdla_types_pkg::*;
(
  input  logic                    clk_i,
  input  logic                    rst_ni,
  input  logic                    write_valid_i,
  // verilator lint_off UNUSEDSIGNAL
  input  buffer_write_t           write_i,
  // verilator lint_on UNUSEDSIGNAL
  input  logic                    re_i,
  input  logic                    advance_i,
  input  logic [UopIndexBits-1:0] index_i,
  output uop_t                    uop_o
);

  localparam int unsigned UsedBits = AccFieldBits + SrcFieldBits + WgtFieldBits + 2;

  for (genvar beat = 0; beat < UopBeats; beat++) begin : gen_beat
    localparam int unsigned Low = beat * AxiBits;
    localparam int unsigned Used = UsedBits > Low ? UsedBits - Low : 0;
    localparam int unsigned Bits = Used < AxiBits ? Used : AxiBits;

    if (Bits > 0) begin : gen_kept
      logic [Bits-1:0] read;

      vdla_ram #(
        .Depth   (UopDepth),
        .LaneBits(Bits),
        .Lanes   (1)
      ) u_ram (
        .clk_i,
        .rst_ni,
        .we_i   (write_valid_i && write_i.buffer == BufUop && 32'(write_i.beat) == beat),
        .waddr_i(UopIndexBits'(write_i.index)),
        .wdata_i(write_i.data[Bits-1:0]),
        .re_i,
        .raddr_i(index_i),
        .rdata_o(read)
      );

      always_ff @(posedge clk_i) begin
        if (advance_i) uop_o[Low+:Bits] <= read;
      end
    end
    if (Bits < AxiBits) begin : gen_reserved
      assign uop_o[Low+Bits+:AxiBits-Bits] = '0;
    end
  end

endmodule

`default_nettype wire
