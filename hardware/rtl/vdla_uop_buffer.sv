// The micro-op buffer: written by compute's loads, read by its sequencer. Unused bits are not
// stored.
//
// Contract: a write is any buffer_write_t, those to other buffers are ignored. uop_o is valid from
// the cycle after re_i until the next read.

module vdla_uop_buffer
  import vdla_pkg::*, vdla_types_pkg::*;
(
  input  logic                    clk_i,
  input  logic                    write_valid_i,
  // verilator lint_off UNUSEDSIGNAL
  input  buffer_write_t           write_i,
  // verilator lint_on UNUSEDSIGNAL
  input  logic                    re_i,
  input  logic [UopIndexBits-1:0] index_i,
  output uop_t                    uop_o
);

  localparam int unsigned UsedBits = AccFieldBits + SrcFieldBits + WgtFieldBits + 2;

  for (genvar beat = 0; beat < UopBeats; beat++) begin : gen_beat
    localparam int unsigned Low = beat * AxiBits;
    localparam int unsigned Used = UsedBits > Low ? UsedBits - Low : 0;
    localparam int unsigned Bits = Used < AxiBits ? Used : AxiBits;

    if (Bits > 0) begin : gen_kept
      vdla_ram #(
        .Depth   (UopDepth),
        .LaneBits(Bits),
        .Lanes   (1)
      ) u_ram (
        .clk_i,
        .we_i   (write_valid_i && write_i.buffer == BufUop && 32'(write_i.beat) == beat),
        .waddr_i(UopIndexBits'(write_i.index)),
        .wdata_i(write_i.data[Bits-1:0]),
        .re_i,
        .raddr_i(index_i),
        .rdata_o(uop_o[Low+:Bits])
      );
    end
    if (Bits < AxiBits) begin : gen_reserved
      assign uop_o[Low+Bits+:AxiBits-Bits] = '0;
    end
  end

endmodule
