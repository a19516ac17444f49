// SPDX-License-Identifier: Apache-2.0
// The AXI4 read master: arbitrates the bursts of three requesters and routes their beats.
//
// Contract: a requester holds its burst until req_grant_o. The requester with the lowest number has
// priority. A burst is granted only while fewer than read_limit_i bursts are outstanding, from the
// grant to the last beat at the requester; a change of the limit counts from the next cycle but
// one. halt_i: nothing is granted; what was granted completes. Beats are always accepted. One grant
// and one beat per cycle.
//
// All outputs of a port are registers: the address is there in the cycle after its grant, and the
// requesters see a beat in the cycle after it was there, PortDelay cycles together. Several ports
// need MergeDelay cycles more (vdla_read_ports).

`default_nettype none

module vdla_read_arbiter
  import vdla_pkg::*;
  import vdla_types_pkg::*;
  import vdla_regs_pkg::*;
(
  input  logic                       clk_i,
  input  logic                       rst_ni,
  input  logic                       halt_i,
  input  logic   [ReadLimitBits-1:0] read_limit_i,
  // Requests.
  input  logic   [   Requesters-1:0] req_valid_i,
  input  burst_t [   Requesters-1:0] req_burst_i,
  output logic   [   Requesters-1:0] req_grant_o,
  // Addresses.
  output logic [AxiPorts-1:0][1:0]   m_axi_arid_o,
  output addr_t [AxiPorts-1:0]       m_axi_araddr_o,
  output logic [AxiPorts-1:0][7:0]   m_axi_arlen_o,
  output logic [AxiPorts-1:0][2:0]   m_axi_arsize_o,
  output logic [AxiPorts-1:0][1:0]   m_axi_arburst_o,
  output logic [AxiPorts-1:0][3:0]   m_axi_arcache_o,
  output logic [AxiPorts-1:0][2:0]   m_axi_arprot_o,
  output logic [AxiPorts-1:0]        m_axi_arvalid_o,
  input  logic [AxiPorts-1:0]        m_axi_arready_i,
  // Data.
  input  logic [AxiPorts-1:0][1:0]   m_axi_rid_i,
  input  port_beat_t [AxiPorts-1:0]  m_axi_rdata_i,
  input  logic [AxiPorts-1:0][1:0]   m_axi_rresp_i,
  input  logic [AxiPorts-1:0]        m_axi_rlast_i,
  input  logic [AxiPorts-1:0]        m_axi_rvalid_i,
  output logic [AxiPorts-1:0]        m_axi_rready_o,
  // Beats of the requesters, by number.
  output logic   [   Requesters-1:0] beat_valid_o,
  output beat_t                      beat_data_o,
  output logic                       beat_last_o,
  output logic                       beat_error_o,
  output logic                       outstanding_o
);

  typedef struct packed {
    requester_t id;
    burst_t burst;
  } address_t;

  logic [Requesters-1:0] first;  // one bit
  address_t              chosen;
  logic                  may_begin, has_room, granted, returned;

  // --- grants

  // Requests arrive late, so the choice is one-hot, not encoded.
  always_comb begin
    first = '0;
    for (int unsigned number = Requesters; number > 0; number--) begin
      if (req_valid_i[number-1]) first = Requesters'(1) << (number - 1);
    end
  end

  assign req_grant_o = may_begin && has_room && !halt_i ? first : '0;
  assign granted     = req_grant_o != '0;

  always_comb begin
    chosen = '{id: requester_t'(ReqFetch), burst: req_burst_i[ReqFetch]};
    for (int unsigned number = 1; number < Requesters; number++) begin
      if (first[number]) chosen = '{id: requester_t'(number), burst: req_burst_i[number]};
    end
  end

  vdla_burst_limit #(
    .LimitBits(ReadLimitBits),
    .Most     (MostReads)
  ) u_limit (
    .clk_i,
    .rst_ni,
    .limit_i    (read_limit_i),
    .begin_i    (granted),
    .end_i      (returned),
    .may_begin_o(may_begin),
    .outstanding_o
  );

  // --- one port, or several

  if (AxiPorts == 1) begin : gen_port
    address_t              presented;
    logic [Requesters-1:0] beat_valid_q;
    logic                  returned_q;

    vdla_slice #(
      .T(address_t)
    ) u_addresses (
      .clk_i,
      .rst_ni,
      .in_valid_i (granted),
      .in_ready_o (has_room),
      .in_data_i  (chosen),
      .out_valid_o(m_axi_arvalid_o[0]),
      .out_ready_i(m_axi_arready_i[0]),
      .out_data_o (presented)
    );

    assign m_axi_arid_o[0]   = presented.id;
    assign m_axi_araddr_o[0] = presented.burst.addr;
    assign m_axi_arlen_o[0]  = presented.burst.len;
    assign m_axi_rready_o[0] = 1'b1;

    always_ff @(posedge clk_i) begin
      if (!rst_ni) begin
        beat_valid_q <= '0;
        returned_q   <= 1'b0;
      end else begin
        for (int unsigned number = 0; number < Requesters; number++) begin
          beat_valid_q[number] <= m_axi_rvalid_i[0] && m_axi_rid_i[0] == requester_t'(number);
        end
        returned_q <= m_axi_rvalid_i[0] && m_axi_rlast_i[0];
      end
    end

    always_ff @(posedge clk_i) begin
      beat_data_o  <= m_axi_rdata_i[0];
      beat_last_o  <= m_axi_rlast_i[0];
      beat_error_o <= m_axi_rresp_i[0][1];
    end

    assign beat_valid_o = beat_valid_q;
    assign returned     = returned_q;

    // SLVERR and DECERR are errors; OKAY and EXOKAY are not.
    logic unused_response;
    assign unused_response = m_axi_rresp_i[0][0];
  end else begin : gen_ports
    vdla_read_ports u_ports (
      .clk_i,
      .rst_ni,
      .burst_valid_i    (granted),
      .burst_ready_o    (has_room),
      .burst_requester_i(chosen.id),
      .burst_i          (chosen.burst),
      .m_axi_arid_o,
      .m_axi_araddr_o,
      .m_axi_arlen_o,
      .m_axi_arvalid_o,
      .m_axi_arready_i,
      .m_axi_rid_i,
      .m_axi_rdata_i,
      .m_axi_rresp_i,
      .m_axi_rlast_i,
      .m_axi_rvalid_i,
      .m_axi_rready_o,
      .beat_valid_o,
      .beat_data_o,
      .beat_last_o,
      .beat_error_o
    );

    assign returned = beat_valid_o != '0 && beat_last_o;
  end

  for (genvar port = 0; port < AxiPorts; port++) begin : gen_constant
    assign m_axi_arsize_o[port]  = 3'(PortShift);
    assign m_axi_arburst_o[port] = 2'b01;    // incrementing
    assign m_axi_arcache_o[port] = 4'b0011;  // normal memory, not cached, bufferable
    assign m_axi_arprot_o[port]  = 3'b000;
  end

`ifndef SYNTHESIS
  if (PortDelay != 2) begin : gen_delay
    $error("vdla_read_arbiter: PortDelay must be 2");
  end

  // An address stays valid and stable until it is accepted.
  // No burst crosses a page.
  // The memory returns only requested beats.
  for (genvar port = 0; port < AxiPorts; port++) begin : gen_checks
    AddressStable_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
        m_axi_arvalid_o[port] && !m_axi_arready_i[port] |=> m_axi_arvalid_o[port]
            && $stable(m_axi_arid_o[port]) && $stable(m_axi_araddr_o[port])
            && $stable(m_axi_arlen_o[port]));
    WithinPage_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
        m_axi_arvalid_o[port] |-> 32'(m_axi_araddr_o[port][11:0])
            + PortBytes * (32'(m_axi_arlen_o[port]) + 1) <= PageBytes);
    BeatHasBurst_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
        m_axi_rvalid_i[port] |-> outstanding_o
            && 32'(m_axi_rid_i[port]) < (AxiPorts == 1 ? Requesters : 1));
  end

  // A presented address and an expected beat are outstanding.
  Outstanding_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      m_axi_arvalid_o != '0 || beat_valid_o != '0 |-> outstanding_o);
  // A halt leaves an address that the memory has not accepted.
  HaltDrains_C: cover property (@(posedge clk_i) disable iff (!rst_ni)
      halt_i && (m_axi_arvalid_o & ~m_axi_arready_i) != '0);
`endif

endmodule

`default_nettype wire
