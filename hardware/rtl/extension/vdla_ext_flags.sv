// SPDX-License-Identifier: Apache-2.0
// A bit for each word of a memory, in LUTs.
//
// Contract: the bits of both read addresses are there in the cycle of the address, from the cycle
// after a write on the new one. One write per cycle.

`default_nettype none

module vdla_ext_flags #(
  parameter int unsigned Depth = 512,
  localparam int unsigned IndexBits = Depth > 1 ? unsigned'($clog2(Depth)) : 1
) (
  input  logic                 clk_i,
  input  logic                 we_i,
  input  logic [IndexBits-1:0] waddr_i,
  input  logic                 wdata_i,
  input  logic [IndexBits-1:0] raddr_i[2],
  output logic                 rdata_o[2]
);

  (* ram_style = "distributed" *)
  logic memory_q[Depth];

  always_ff @(posedge clk_i) begin
    if (we_i) memory_q[waddr_i] <= wdata_i;
  end

  assign rdata_o = '{memory_q[raddr_i[0]], memory_q[raddr_i[1]]};

endmodule

`default_nettype wire
