// SPDX-License-Identifier: Apache-2.0
// Watches the machine's AXI4 reads, wherever the arbiter is: a checker for each port.

bind vdla_read_arbiter axi_read_check #(
  .AddrBits (vdla_pkg::AxiAddrBits),
  .DataBits (vdla_types_pkg::PortBits),
  .Ids      (vdla_pkg::AxiPorts == 1 ? vdla_types_pkg::Requesters : 1),
  .MostBeats(vdla_pkg::BurstBeats * vdla_pkg::AxiPorts)
) u_read_check[vdla_pkg::AxiPorts-1:0] (
  .clk_i,
  .rst_ni,
  .limit_i  (read_limit_i),
  .arid_i   (m_axi_arid_o),
  .araddr_i (m_axi_araddr_o),
  .arlen_i  (m_axi_arlen_o),
  .arsize_i (m_axi_arsize_o),
  .arburst_i(m_axi_arburst_o),
  .arvalid_i(m_axi_arvalid_o),
  .arready_i(m_axi_arready_i),
  .rid_i    (m_axi_rid_i),
  .rdata_i  (m_axi_rdata_i),
  .rresp_i  (m_axi_rresp_i),
  .rlast_i  (m_axi_rlast_i),
  .rvalid_i (m_axi_rvalid_i),
  .rready_i (m_axi_rready_o),
  .broken_o ()
);
