// SPDX-License-Identifier: Apache-2.0
// An AXI4-Lite slave for a register file.
//
// Contract: address and data of a write may arrive in any order, any time apart; write_o, a
// register, is high for one cycle once both have arrived and the previous response was accepted.
// write_error_i is the refusal (SLVERR) in that cycle. The address of a read is held until its data
// are taken: these and their refusal come RegisterDelay cycles after it, if read_ready_i was high
// since. The bits of an address within a word are ignored. From the last of address and data to the
// response, a write takes 3 cycles and a read RegisterDelay + 2; one of each is under way.

`default_nettype none

module vdla_axil
  import vdla_types_pkg::*;
  import vdla_regs_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_ni,
  // AXI4-Lite.
  input  reg_addr_t   s_axil_awaddr_i,
  input  logic        s_axil_awvalid_i,
  output logic        s_axil_awready_o,
  input  logic [31:0] s_axil_wdata_i,
  input  logic [3:0]  s_axil_wstrb_i,
  input  logic        s_axil_wvalid_i,
  output logic        s_axil_wready_o,
  output logic [1:0]  s_axil_bresp_o,
  output logic        s_axil_bvalid_o,
  input  logic        s_axil_bready_i,
  input  reg_addr_t   s_axil_araddr_i,
  input  logic        s_axil_arvalid_i,
  output logic        s_axil_arready_o,
  output logic [31:0] s_axil_rdata_o,
  output logic [1:0]  s_axil_rresp_o,
  output logic        s_axil_rvalid_o,
  input  logic        s_axil_rready_i,
  // Registers.
  output logic        write_o,
  output reg_addr_t   write_addr_o,
  output logic [31:0] write_data_o,
  output logic [3:0]  write_strb_o,
  input  logic        write_error_i,
  output reg_addr_t   read_addr_o,
  input  logic        read_ready_i,
  input  logic [31:0] read_data_i,
  input  logic        read_error_i
);

  localparam logic [1:0] Okay = 2'b00;
  localparam logic [1:0] SlvErr = 2'b10;

  typedef logic [RegAddrBits-3:0] word_t;

  logic  aw_held_q, w_held_q, ar_held_q;
  word_t write_word_q, read_word_q;
  logic  write_q, read;
  logic [RegisterDelay-1:0] waited_q;  // cycles since the address, one bit each

  assign s_axil_awready_o = !aw_held_q;
  assign s_axil_wready_o  = !w_held_q;
  assign s_axil_arready_o = !ar_held_q;

  assign write_o = write_q;
  assign read    = ar_held_q && waited_q[RegisterDelay-1] && !s_axil_rvalid_o;

  assign write_addr_o = {write_word_q, 2'b00};
  assign read_addr_o  = {read_word_q, 2'b00};

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      aw_held_q       <= 1'b0;
      w_held_q        <= 1'b0;
      ar_held_q       <= 1'b0;
      write_q         <= 1'b0;
      s_axil_bvalid_o <= 1'b0;
      s_axil_rvalid_o <= 1'b0;
    end else begin
      aw_held_q       <= aw_held_q ? !write_q : s_axil_awvalid_i;
      w_held_q        <= w_held_q ? !write_q : s_axil_wvalid_i;
      ar_held_q       <= ar_held_q ? !read : s_axil_arvalid_i;
      write_q         <= aw_held_q && w_held_q && !write_q && !s_axil_bvalid_o;
      s_axil_bvalid_o <= write_q || (s_axil_bvalid_o && !s_axil_bready_i);
      s_axil_rvalid_o <= read || (s_axil_rvalid_o && !s_axil_rready_i);
    end
  end

  always_ff @(posedge clk_i) begin
    waited_q <= ar_held_q && read_ready_i && !read ? {waited_q[RegisterDelay-2:0], 1'b1} : '0;
    if (!aw_held_q) write_word_q <= s_axil_awaddr_i[RegAddrBits-1:2];
    if (!ar_held_q) read_word_q <= s_axil_araddr_i[RegAddrBits-1:2];
    if (!w_held_q) begin
      write_data_o <= s_axil_wdata_i;
      write_strb_o <= s_axil_wstrb_i;
    end
    if (write_q) s_axil_bresp_o <= write_error_i ? SlvErr : Okay;
    if (read) begin
      s_axil_rdata_o <= read_data_i;
      s_axil_rresp_o <= read_error_i ? SlvErr : Okay;
    end
  end

  logic unused_addr;
  assign unused_addr = ^{s_axil_awaddr_i[1:0], s_axil_araddr_i[1:0]};

`ifndef SYNTHESIS
  // A response stays valid and stable until it is accepted.
  WriteResponseStable_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      s_axil_bvalid_o && !s_axil_bready_i |=> s_axil_bvalid_o && $stable(s_axil_bresp_o));
  ReadResponseStable_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      s_axil_rvalid_o && !s_axil_rready_i |=>
      s_axil_rvalid_o && $stable({s_axil_rdata_o, s_axil_rresp_o}));
  // The registers see one address until they have answered.
  AddressHeld_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      ar_held_q && !read |=> ar_held_q && $stable(read_addr_o));
  // A read waits for the counters; an address comes while another is held.
  WaitsForCounters_C: cover property (@(posedge clk_i) disable iff (!rst_ni)
      ar_held_q && !read_ready_i);
  NextAddressWaits_C: cover property (@(posedge clk_i) disable iff (!rst_ni)
      s_axil_arvalid_i && !s_axil_arready_o);
`endif

endmodule

`default_nettype wire
