// SPDX-License-Identifier: Apache-2.0
// Proof: the arbiter grants one burst at a time in the order of priority, in every cycle in which it
// may, keeps to the limit of outstanding bursts and to its own, grants none when halted, presents
// what it granted in order until it is accepted, and routes each beat to its requester.
module vdla_read_arbiter_proof
  import vdla_pkg::*;
  import vdla_types_pkg::*;
  import vdla_regs_pkg::*;
(
  input logic                       clk_i,
  input logic                       halt_i,
  input logic   [ReadLimitBits-1:0] read_limit_i,
  input logic   [   Requesters-1:0] req_valid_i,
  input burst_t [   Requesters-1:0] req_burst_i,
  input logic                       m_axi_arready_i,
  input logic   [              1:0] m_axi_rid_i,
  input logic                       m_axi_rlast_i,
  input logic                       m_axi_rvalid_i
);
  typedef struct packed {
    logic [1:0] id;
    burst_t burst;
  } address_t;

  logic   rst_ni = 1'b0;  // low in the first cycle
  logic   arvalid, rready, outstanding, before_q;
  address_t ar;
  logic   [Requesters-1:0] grant, beat_valid;
  logic   beat_last;

  vdla_read_arbiter u_arbiter (
    .clk_i,
    .rst_ni,
    .halt_i,
    .read_limit_i,
    .req_valid_i,
    .req_burst_i,
    .req_grant_o    (grant),
    .m_axi_arid_o   (ar.id),
    .m_axi_araddr_o (ar.burst.addr),
    .m_axi_arlen_o  (ar.burst.len),
    .m_axi_arsize_o (),
    .m_axi_arburst_o(),
    .m_axi_arcache_o(),
    .m_axi_arprot_o (),
    .m_axi_arvalid_o(arvalid),
    .m_axi_arready_i,
    .m_axi_rid_i,
    .m_axi_rdata_i  ('0),
    .m_axi_rresp_i  ('0),
    .m_axi_rlast_i,
    .m_axi_rvalid_i,
    .m_axi_rready_o (rready),
    .beat_valid_o   (beat_valid),
    .beat_data_o    (),
    .beat_last_o    (beat_last),
    .beat_error_o   (),
    .outstanding_o  (outstanding)
  );

  // The requester with priority.
  logic [1:0] first;
  always_comb begin
    first = 2'd2;
    if (req_valid_i[1]) first = 2'd1;
    if (req_valid_i[0]) first = 2'd0;
  end

  // The previous cycle.
  logic [ReadLimitBits-1:0] limit_q;
  logic       rvalid_q, rlast_q;
  logic [1:0] rid_q;
  // Granted and not accepted, the oldest first; accepted by the memory without their last beat.
  address_t   oldest_q, newest_q, granted;
  logic [1:0] held_q;
  logic [9:0] memory_q;
  logic       accepted, returned;
  logic [9:0] count;  // granted, and the last beat is yet to be seen by the requester

  assign granted  = '{id: first, burst: req_burst_i[first]};
  assign accepted = arvalid && m_axi_arready_i;
  assign returned = m_axi_rvalid_i && m_axi_rlast_i;
  assign count    = 10'(held_q) + memory_q + 10'(rvalid_q && rlast_q);

  always_ff @(posedge clk_i) begin
    rst_ni   <= 1'b1;
    before_q <= rst_ni;
    limit_q  <= read_limit_i;
    rid_q    <= m_axi_rid_i;
    rlast_q  <= m_axi_rlast_i;
    if (!rst_ni) begin
      rvalid_q <= 1'b0;
      held_q   <= '0;
      memory_q <= '0;
    end else begin
      rvalid_q <= m_axi_rvalid_i;
      held_q   <= held_q + 2'(grant != '0) - 2'(accepted);
      memory_q <= memory_q + 10'(accepted) - 10'(returned);
    end
    if (accepted && held_q == 2'd2) oldest_q <= newest_q;
    else if (grant != '0 && (held_q == '0 || accepted)) oldest_q <= granted;
    if (grant != '0) newest_q <= granted;
  end

  logic below;  // one more burst may be granted
  assign below = count < 10'(read_limit_i) && count < 10'(MaxOutstanding);

  always_comb begin
    if (rst_ni) begin
      // The contract of the memory and of the registers.
      if (before_q) assume (read_limit_i == limit_q);
      if (m_axi_rvalid_i) assume (memory_q != '0 && 32'(m_axi_rid_i) < Requesters);

      // A grant goes to the first requester, in every cycle in which it may, and in no other.
      if (grant != '0) assert (req_valid_i != '0 && grant == Requesters'(1) << first);
      if (grant != '0) assert (!halt_i && below && held_q < 2'd2);
      if (before_q && |req_valid_i && !halt_i && below && held_q < 2'd2) assert (grant != '0);
      // Granted bursts are presented in order, from the next cycle until accepted.
      assert (arvalid == (held_q != '0));
      if (arvalid) assert (ar == oldest_q);
      // Each beat reaches its requester in the next cycle.
      for (int unsigned r = 0; r < Requesters; r++) begin
        assert (beat_valid[r] == (rvalid_q && 32'(rid_q) == r));
      end
      if (rvalid_q) assert (beat_last == rlast_q);
      assert (rready);
      // The limits hold, and the machine knows when the bus is quiet.
      assert (count <= 10'(read_limit_i) && count <= 10'(MaxOutstanding));
      assert (outstanding == (count != '0));

      // Invariants for the induction.
      assert (10'(u_arbiter.u_limit.level_q) == count);
      assert (u_arbiter.u_limit.may_begin_q == (before_q && below));
      assert (u_arbiter.gen_port.u_addresses.ready_q == (held_q < 2'd2));
      assert (u_arbiter.gen_port.returned_q == (rvalid_q && rlast_q));
      assert (held_q <= 2'd2 && memory_q <= 10'(MaxOutstanding));
      if (held_q == 2'd2) assert (u_arbiter.gen_port.u_addresses.spare_q == newest_q);
      if (held_q == 2'd1) assert (oldest_q == newest_q);
      if (!before_q) assert (count == '0);
    end
  end
endmodule
