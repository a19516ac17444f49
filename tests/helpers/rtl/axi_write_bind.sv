// SPDX-License-Identifier: Apache-2.0
// Watches the machine's AXI4 writes, wherever the store unit is.

bind vdla_store axi_write_check #(
  .AddrBits (vdla_pkg::AxiAddrBits),
  .DataBits (vdla_types_pkg::PortBits),
  .MostBeats(vdla_pkg::BurstBeats * vdla_pkg::AxiPorts)
) u_write_check (
  .clk_i,
  .rst_ni,
  .limit_i  (write_limit_i),
  .awid_i   (m_axi_awid_o),
  .awaddr_i (m_axi_awaddr_o),
  .awlen_i  (m_axi_awlen_o),
  .awsize_i (m_axi_awsize_o),
  .awburst_i(m_axi_awburst_o),
  .awvalid_i(m_axi_awvalid_o),
  .awready_i(m_axi_awready_i),
  .wdata_i  (m_axi_wdata_o),
  .wstrb_i  (m_axi_wstrb_o),
  .wlast_i  (m_axi_wlast_o),
  .wvalid_i (m_axi_wvalid_o),
  .wready_i (m_axi_wready_i),
  .bid_i    (m_axi_bid_i),
  .bresp_i  (m_axi_bresp_i),
  .bvalid_i (m_axi_bvalid_i),
  .bready_i (m_axi_bready_o),
  .broken_o ()
);
