// SPDX-License-Identifier: Apache-2.0
// Watches the machine's control port, wherever the slave is.

bind vdla_axil axil_check #(
  .AddrBits(vdla_regs_pkg::RegAddrBits)
) u_axil_check (
  .clk_i,
  .rst_ni,
  .awaddr_i (s_axil_awaddr_i),
  .awvalid_i(s_axil_awvalid_i),
  .awready_i(s_axil_awready_o),
  .wdata_i  (s_axil_wdata_i),
  .wstrb_i  (s_axil_wstrb_i),
  .wvalid_i (s_axil_wvalid_i),
  .wready_i (s_axil_wready_o),
  .bresp_i  (s_axil_bresp_o),
  .bvalid_i (s_axil_bvalid_o),
  .bready_i (s_axil_bready_i),
  .araddr_i (s_axil_araddr_i),
  .arvalid_i(s_axil_arvalid_i),
  .arready_i(s_axil_arready_o),
  .rdata_i  (s_axil_rdata_o),
  .rresp_i  (s_axil_rresp_o),
  .rvalid_i (s_axil_rvalid_o),
  .rready_i (s_axil_rready_i),
  .broken_o ()
);
