// SPDX-License-Identifier: Apache-2.0
// A block memory with one synchronous read port and one write port with lane enables.
//
// Contract: rdata_o is valid in the cycle after re_i and held while re_i is low. A read of an
// address in the cycle of its write gives the old data, but users must not rely on it. One read and
// one write per cycle.
//
// Every tool is told where to put the memory: into block RAMs, and into LUTs if it has few words.
// On parts with UltraRAM (define VDLA_ULTRA_RAM) block RAMs are left to the weights: memories of
// many words go to UltraRAM, and wide ones of about a hundred words into LUTs.

`default_nettype none

module vdla_ram #(
  parameter int unsigned Depth = 512,
  parameter int unsigned LaneBits = 32,
  parameter int unsigned Lanes = 1,
  parameter bit ManyWords = 1'b0,
  parameter bit FewWords = 1'b0,
  localparam int unsigned IndexBits = Depth > 1 ? unsigned'($clog2(Depth)) : 1
) (
  input  logic                      clk_i,
  input  logic                      rst_ni,  // of the assertions
  input  logic [         Lanes-1:0] we_i,
  input  logic [     IndexBits-1:0] waddr_i,
  input  logic [Lanes*LaneBits-1:0] wdata_i,
  input  logic                      re_i,
  input  logic [     IndexBits-1:0] raddr_i,
  output logic [Lanes*LaneBits-1:0] rdata_o
);

`ifdef VDLA_ULTRA_RAM
  localparam bit UltraRam = 1'b1;
`else
  localparam bit UltraRam = 1'b0;
`endif
  // A separate array per lane, so that lane enables do not become bit masks.
  for (genvar lane = 0; lane < Lanes; lane++) begin : gen_lane
    logic [LaneBits-1:0] data_q;

    // The attribute is a literal, since not every tool evaluates a parameter there.
    if (UltraRam && ManyWords) begin : gen_memory
      (* ram_style = "ultra" *)
      logic [LaneBits-1:0] memory_q[Depth];

      always_ff @(posedge clk_i) begin
        if (we_i[lane]) memory_q[waddr_i] <= wdata_i[lane*LaneBits+:LaneBits];
        if (re_i) data_q <= memory_q[raddr_i];
      end
    end else if (Depth <= 64 || UltraRam && FewWords) begin : gen_memory
      (* ram_style = "distributed" *)
      logic [LaneBits-1:0] memory_q[Depth];

      always_ff @(posedge clk_i) begin
        if (we_i[lane]) memory_q[waddr_i] <= wdata_i[lane*LaneBits+:LaneBits];
        if (re_i) data_q <= memory_q[raddr_i];
      end
    end else begin : gen_memory
      (* ram_style = "block" *)
      logic [LaneBits-1:0] memory_q[Depth];

      always_ff @(posedge clk_i) begin
        if (we_i[lane]) memory_q[waddr_i] <= wdata_i[lane*LaneBits+:LaneBits];
        if (re_i) data_q <= memory_q[raddr_i];
      end
    end

    assign rdata_o[lane*LaneBits+:LaneBits] = data_q;
  end

`ifndef SYNTHESIS
  // Indices are in range, also if the depth is not a power of two.
  WriteInRange_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      |we_i |-> 32'(waddr_i) < Depth);
  ReadInRange_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      re_i |-> 32'(raddr_i) < Depth);
`endif

endmodule

`default_nettype wire
