// SPDX-License-Identifier: Apache-2.0
// In place of vdla_read_port in proofs of its users: the beats of a port are those of its bursts in
// order, and a burst ends with its last beat. When beats come and what they
// hold is free, as are addresses.
module vdla_read_port
  import vdla_pkg::*;
  import vdla_types_pkg::*;
(
  input  logic       clk_i,
  input  logic       rst_ni,
  input  logic       burst_valid_i,
  output logic       burst_ready_o,
  input  burst_t     burst_i,
  output addr_t      m_axi_araddr_o,
  output logic [7:0] m_axi_arlen_o,
  output logic       m_axi_arvalid_o,
  input  logic       m_axi_arready_i,
  input  port_beat_t m_axi_rdata_i,
  input  logic [1:0] m_axi_rresp_i,
  input  logic       m_axi_rlast_i,
  input  logic       m_axi_rvalid_i,
  output logic       beat_valid_o,
  output beat_t      beat_data_o,
  output logic       beat_last_o,
  output logic       beat_error_o,
  input  logic       beat_pop_i
);
  logic       arrives;   // a beat is there, if one is owed
  logic [9:0] bursts_q;  // taken, and their last beat is not given

  assign beat_valid_o = arrives && bursts_q != '0;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) bursts_q <= '0;
    else bursts_q <= bursts_q + 10'(burst_valid_i) - 10'(beat_pop_i && beat_last_o);
  end
endmodule
