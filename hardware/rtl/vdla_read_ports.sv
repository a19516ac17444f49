// SPDX-License-Identifier: Apache-2.0
// Several read ports as one: bursts go to the ports in turn, and their beats come back in the order
// of the bursts (docs/timing-contract.md, section 2).
//
// Contract: a burst is taken with burst_valid_i && burst_ready_o; its address is at a port in the
// next cycle. A beat reaches its requester MergeDelay cycles after its last part is in the register
// of its port, or one cycle after the beat before it, if that is later. Beats and parts are always
// accepted: no more than PortBursts * AxiPorts bursts may be taken whose last beats have not reached
// their requesters. One burst and one beat per cycle.

`default_nettype none

module vdla_read_ports
  import vdla_pkg::*;
  import vdla_types_pkg::*;
(
  input  logic                      clk_i,
  input  logic                      rst_ni,
  // Bursts.
  input  logic                      burst_valid_i,
  output logic                      burst_ready_o,
  input  requester_t                burst_requester_i,
  input  burst_t                    burst_i,
  // The ports.
  output logic [AxiPorts-1:0][1:0]  m_axi_arid_o,
  output addr_t [AxiPorts-1:0]      m_axi_araddr_o,
  output logic [AxiPorts-1:0][7:0]  m_axi_arlen_o,
  output logic [AxiPorts-1:0]       m_axi_arvalid_o,
  input  logic [AxiPorts-1:0]       m_axi_arready_i,
  input  logic [AxiPorts-1:0][1:0]  m_axi_rid_i,
  input  port_beat_t [AxiPorts-1:0] m_axi_rdata_i,
  input  logic [AxiPorts-1:0][1:0]  m_axi_rresp_i,
  input  logic [AxiPorts-1:0]       m_axi_rlast_i,
  input  logic [AxiPorts-1:0]       m_axi_rvalid_i,
  output logic [AxiPorts-1:0]       m_axi_rready_o,
  // Beats of the requesters, by number.
  output logic [Requesters-1:0]     beat_valid_o,
  output beat_t                     beat_data_o,
  output logic                      beat_last_o,
  output logic                      beat_error_o
);

  typedef logic [$clog2(AxiPorts)-1:0] port_t;

  port_t                next_q;    // of the next burst
  port_t                oldest_q;  // of the burst that is given
  logic  [AxiPorts-1:0] ready, valid, last, error, pop;
  beat_t [AxiPorts-1:0] data;
  logic                 gives, ends;

  // --- bursts to the ports in turn

  assign burst_ready_o = ready[next_q];

  for (genvar port = 0; port < AxiPorts; port++) begin : gen_port
    vdla_read_port u_port (
      .clk_i,
      .rst_ni,
      .burst_valid_i  (burst_valid_i && next_q == port_t'(port)),
      .burst_ready_o  (ready[port]),
      .burst_i        (burst_i),
      .m_axi_araddr_o (m_axi_araddr_o[port]),
      .m_axi_arlen_o  (m_axi_arlen_o[port]),
      .m_axi_arvalid_o(m_axi_arvalid_o[port]),
      .m_axi_arready_i(m_axi_arready_i[port]),
      .m_axi_rdata_i  (m_axi_rdata_i[port]),
      .m_axi_rresp_i  (m_axi_rresp_i[port]),
      .m_axi_rlast_i  (m_axi_rlast_i[port]),
      .m_axi_rvalid_i (m_axi_rvalid_i[port]),
      .beat_valid_o   (valid[port]),
      .beat_data_o    (data[port]),
      .beat_last_o    (last[port]),
      .beat_error_o   (error[port]),
      .beat_pop_i     (pop[port])
    );

    assign pop[port] = valid[port] && oldest_q == port_t'(port);
  end

  assign m_axi_arid_o   = '0;
  assign m_axi_rready_o = '1;

  // A port answers in order, so identifiers say nothing.
  logic unused_ids;
  assign unused_ids = ^m_axi_rid_i;

  // --- beats in the order of the bursts

  requester_t owner;  // of the oldest burst

  vdla_fifo #(
    .T    (requester_t),
    .Depth(MostReads)
  ) u_owners (
    .clk_i,
    .rst_ni,
    .push_i (burst_valid_i),
    .data_i (burst_requester_i),
    .full_o (),
    .head_o (owner),
    .empty_o(),
    .pop_i  (ends),
    .level_o()
  );

  assign gives = valid[oldest_q];
  assign ends  = gives && last[oldest_q];

  logic [Requesters-1:0] beat_valid_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      next_q       <= '0;
      oldest_q     <= '0;
      beat_valid_q <= '0;
    end else begin
      next_q   <= next_q + port_t'(burst_valid_i);
      oldest_q <= oldest_q + port_t'(ends);
      for (int unsigned number = 0; number < Requesters; number++) begin
        beat_valid_q[number] <= gives && owner == requester_t'(number);
      end
    end
  end

  always_ff @(posedge clk_i) begin
    beat_data_o  <= data[oldest_q];
    beat_last_o  <= last[oldest_q];
    beat_error_o <= error[oldest_q];
  end

  assign beat_valid_o = beat_valid_q;

`ifndef SYNTHESIS
  // The FIFO of a port and this module's register.
  if (MergeDelay != 2) begin : gen_delay
    $error("vdla_read_ports: MergeDelay must be 2");
  end

  // A burst is offered only where its port takes it.
  BurstTaken_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      burst_valid_i |-> burst_ready_o);
  // A later burst waits for the oldest one; a burst follows another without a pause.
  Waits_C: cover property (@(posedge clk_i) disable iff (!rst_ni) !gives && valid != '0);
  Follows_C: cover property (@(posedge clk_i) disable iff (!rst_ni) $past(ends) && gives);
`endif

endmodule

`default_nettype wire
