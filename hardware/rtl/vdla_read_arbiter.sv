// The AXI4 read master: arbitrates the bursts of three requesters and routes their beats.
//
// Contract: a requester holds its burst until req_grant_o, which is the address handshake. The
// requester with the lowest number has priority; an address stays until it is accepted. An address
// is presented only while fewer than read_limit_i bursts are outstanding, from address handshake to
// last beat; a change counts from the next cycle. halt_i: no new address is presented, a presented
// one completes. Beats are always accepted. Latency 0 in both directions; one grant and one beat
// per cycle.

module vdla_read_arbiter
  import vdla_pkg::*;
  import vdla_types_pkg::*;
(
  input  logic                    clk_i,
  input  logic                    rst_ni,
  input  logic                    halt_i,
  input  logic   [           8:0] read_limit_i,
  // Requests.
  input  logic   [Requesters-1:0] req_valid_i,
  input  burst_t [Requesters-1:0] req_burst_i,
  output logic   [Requesters-1:0] req_grant_o,
  // Addresses.
  output logic   [           1:0] m_axi_arid_o,
  output addr_t                   m_axi_araddr_o,
  output logic   [           7:0] m_axi_arlen_o,
  output logic   [           2:0] m_axi_arsize_o,
  output logic   [           1:0] m_axi_arburst_o,
  output logic   [           3:0] m_axi_arcache_o,
  output logic   [           2:0] m_axi_arprot_o,
  output logic                    m_axi_arvalid_o,
  input  logic                    m_axi_arready_i,
  // Data.
  input  logic   [           1:0] m_axi_rid_i,
  input  beat_t                   m_axi_rdata_i,
  input  logic   [           1:0] m_axi_rresp_i,
  input  logic                    m_axi_rlast_i,
  input  logic                    m_axi_rvalid_i,
  output logic                    m_axi_rready_o,
  // Beats of the requesters, by number.
  output logic   [Requesters-1:0] beat_valid_o,
  output beat_t                   beat_data_o,
  output logic                    beat_last_o,
  output logic                    beat_error_o,
  output logic                    outstanding_o
);

  typedef logic [1:0] requester_t;
  typedef logic [8:0] level_t;

  logic [Requesters-1:0] first, presented, locked_id_q;  // one bit each
  requester_t            chosen;
  logic                  locked_q;  // an address is presented and not accepted
  level_t                level_q;   // accepted bursts without their last beat
  logic                  may_present, accepted, returned;

  // --- requests

  // The monitors of the requesters have room for MaxOutstanding bursts, the largest limit.
  assign may_present = !halt_i && level_q < read_limit_i && level_q < level_t'(MaxOutstanding);

  // Requests and grants arrive late, so the choice is one-hot, not encoded.
  always_comb begin
    first = '0;
    for (int unsigned number = Requesters; number > 0; number--) begin
      if (req_valid_i[number-1]) first = Requesters'(1) << (number - 1);
    end
    if (!may_present) first = '0;
  end

  assign presented = locked_q ? locked_id_q : first;

  assign m_axi_arvalid_o = presented != '0;
  assign accepted = m_axi_arvalid_o && m_axi_arready_i;
  assign req_grant_o = presented & {Requesters{m_axi_arready_i}};

  always_comb begin
    chosen = requester_t'(ReqFetch);
    m_axi_araddr_o = req_burst_i[ReqFetch].addr;
    m_axi_arlen_o  = req_burst_i[ReqFetch].len;
    for (int unsigned number = 1; number < Requesters; number++) begin
      if (presented[number]) begin
        chosen = requester_t'(number);
        m_axi_araddr_o = req_burst_i[number].addr;
        m_axi_arlen_o  = req_burst_i[number].len;
      end
    end
  end

  assign m_axi_arid_o    = chosen;
  assign m_axi_arsize_o  = 3'(AxiShift);
  assign m_axi_arburst_o = 2'b01;  // incrementing
  assign m_axi_arcache_o = 4'b0011;  // normal memory, not cached, bufferable
  assign m_axi_arprot_o  = 3'b000;

  // --- beats

  assign m_axi_rready_o = 1'b1;
  assign returned = m_axi_rvalid_i && m_axi_rlast_i;

  always_comb begin
    for (int unsigned number = 0; number < Requesters; number++) begin
      beat_valid_o[number] = m_axi_rvalid_i && m_axi_rid_i == requester_t'(number);
    end
  end

  assign beat_data_o  = m_axi_rdata_i;
  assign beat_last_o  = m_axi_rlast_i;
  assign beat_error_o = m_axi_rresp_i[1];

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      locked_q    <= 1'b0;
      locked_id_q <= '0;
      level_q     <= '0;
    end else begin
      locked_q    <= m_axi_arvalid_o && !m_axi_arready_i;
      locked_id_q <= presented;
      level_q     <= level_q + level_t'(accepted) - level_t'(returned);
    end
  end

  assign outstanding_o = locked_q || level_q != '0;

  // SLVERR and DECERR are errors; OKAY and EXOKAY are not.
  logic unused_response;
  assign unused_response = m_axi_rresp_i[0];

`ifndef SYNTHESIS
  // An address stays valid and stable until it is accepted.
  AddressStable_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      m_axi_arvalid_o && !m_axi_arready_i |=> m_axi_arvalid_o && $stable(m_axi_arid_o)
          && $stable(m_axi_araddr_o) && $stable(m_axi_arlen_o));
  // No burst crosses a page.
  WithinPage_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      m_axi_arvalid_o |-> 32'(m_axi_araddr_o[11:0])
          + AxiBytes * (32'(m_axi_arlen_o) + 1) <= PageBytes);
  // The memory returns only requested beats.
  BeatHasBurst_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      m_axi_rvalid_i |-> level_q != '0 && 32'(m_axi_rid_i) < Requesters);
`endif

endmodule
