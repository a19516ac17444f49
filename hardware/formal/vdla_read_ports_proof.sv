// SPDX-License-Identifier: Apache-2.0
// Proof: with several ports, the arbiter grants as it does with one, gives its bursts to the ports in
// turn, to none more than it takes, and passes on their beats in the order of the bursts: each in the
// cycle after its port gives it, unchanged, to the requester of its burst, as early as it may.
//
// An arbitrary burst is followed: follow_i is free. Ports and FIFO are what
// the proofs of vdla_read_port and vdla_fifo show of them.
module vdla_read_ports_proof
  import vdla_pkg::*;
  import vdla_types_pkg::*;
  import vdla_regs_pkg::*;
(
  input logic                       clk_i,
  input logic                       halt_i,
  input logic   [ReadLimitBits-1:0] read_limit_i,
  input logic   [   Requesters-1:0] req_valid_i,
  input burst_t [   Requesters-1:0] req_burst_i,
  input logic                       follow_i
);
  typedef logic [$clog2(AxiPorts)-1:0] port_t;
  typedef logic [9:0] count_t;

  logic rst_ni = 1'b0;  // low in the first cycle
  logic before_q, outstanding, beat_last, beat_error;
  logic [Requesters-1:0] grant, beat_valid;
  beat_t beat_data;

  vdla_read_arbiter u_arbiter (
    .clk_i,
    .rst_ni,
    .halt_i,
    .read_limit_i,
    .req_valid_i,
    .req_burst_i,
    .req_grant_o    (grant),
    .m_axi_arid_o   (),
    .m_axi_araddr_o (),
    .m_axi_arlen_o  (),
    .m_axi_arsize_o (),
    .m_axi_arburst_o(),
    .m_axi_arcache_o(),
    .m_axi_arprot_o (),
    .m_axi_arvalid_o(),
    .m_axi_arready_i('0),
    .m_axi_rid_i    ('0),
    .m_axi_rdata_i  ('0),
    .m_axi_rresp_i  ('0),
    .m_axi_rlast_i  ('0),
    .m_axi_rvalid_i ('0),
    .m_axi_rready_o (),
    .beat_valid_o   (beat_valid),
    .beat_data_o    (beat_data),
    .beat_last_o    (beat_last),
    .beat_error_o   (beat_error),
    .outstanding_o  (outstanding)
  );

  // What the ports take and give.
  logic  [AxiPorts-1:0] takes, ready, valid, gives, last, error;
  beat_t [AxiPorts-1:0] data;
  count_t [AxiPorts-1:0] bursts;
  burst_t [AxiPorts-1:0] burst;

  for (genvar p = 0; p < AxiPorts; p++) begin : gen_port
    assign takes[p]  = u_arbiter.gen_ports.u_ports.gen_port[p].u_port.burst_valid_i;
    assign burst[p]  = u_arbiter.gen_ports.u_ports.gen_port[p].u_port.burst_i;
    assign ready[p]  = u_arbiter.gen_ports.u_ports.gen_port[p].u_port.burst_ready_o;
    assign valid[p]  = u_arbiter.gen_ports.u_ports.gen_port[p].u_port.beat_valid_o;
    assign gives[p]  = u_arbiter.gen_ports.u_ports.gen_port[p].u_port.beat_pop_i;
    assign last[p]   = u_arbiter.gen_ports.u_ports.gen_port[p].u_port.beat_last_o;
    assign error[p]  = u_arbiter.gen_ports.u_ports.gen_port[p].u_port.beat_error_o;
    assign data[p]   = u_arbiter.gen_ports.u_ports.gen_port[p].u_port.beat_data_o;
    assign bursts[p] = u_arbiter.gen_ports.u_ports.gen_port[p].u_port.bursts_q;
  end

  // The requester with priority.
  requester_t first;
  always_comb begin
    first = requester_t'(2);
    if (req_valid_i[1]) first = requester_t'(1);
    if (req_valid_i[0]) first = requester_t'(0);
  end

  // Bursts: those whose last beat no port has given, and with those whose last beat is yet to be
  // seen by the requester; where the next one goes, and where the oldest one is.
  logic granted, ends, returned;
  count_t total_q, count;
  port_t  next_q, oldest_q;

  assign granted  = grant != '0;
  assign ends     = |(gives & last);
  assign returned = beat_valid != '0 && beat_last;
  assign count    = total_q + count_t'(returned);

  // The followed burst: its port, requester and the bursts before it; of these, those of its port.
  logic       inside_q;
  requester_t owner_q;
  port_t      port_q, distance;  // distance: from the port of the oldest burst
  count_t     ahead_q;

  assign distance = port_q - oldest_q;

  // What was given in the previous cycle.
  logic  gave_q, mine_q, last_q, error_q;
  beat_t data_q;

  logic [ReadLimitBits-1:0] limit_q;
  logic below;  // one more burst may be granted
  assign below = count < count_t'(read_limit_i) && count < count_t'(MostReads);

  always_ff @(posedge clk_i) begin
    rst_ni   <= 1'b1;
    before_q <= rst_ni;
    limit_q  <= read_limit_i;
    if (!rst_ni) begin
      total_q  <= '0;
      next_q   <= '0;
      oldest_q <= '0;
      inside_q <= 1'b0;
      gave_q   <= 1'b0;
      mine_q   <= 1'b0;
    end else begin
      total_q  <= total_q + count_t'(granted) - count_t'(ends);
      next_q   <= next_q + port_t'(granted);
      oldest_q <= oldest_q + port_t'(ends);
      gave_q   <= gives != '0;
      mine_q   <= gives != '0 && inside_q && ahead_q == '0;
      if (inside_q) begin
        if (ends) ahead_q <= ahead_q - 1'b1;
        if (ends && ahead_q == '0) inside_q <= 1'b0;
      end else if (granted && follow_i) begin
        inside_q <= 1'b1;
        owner_q  <= first;
        port_q   <= next_q;
        ahead_q  <= total_q - count_t'(ends);
      end
    end
    data_q  <= data[port_q];
    last_q  <= last[port_q];
    error_q <= error[port_q];
  end

  port_t  [AxiPorts-1:0] place;  // of a port, behind that of the oldest burst
  count_t [AxiPorts-1:0] share;  // its bursts
  always_comb begin
    for (int unsigned p = 0; p < AxiPorts; p++) begin
      place[p] = port_t'(p) - oldest_q;
      share[p] = (total_q + count_t'(AxiPorts - 1) - count_t'(place[p])) / count_t'(AxiPorts);
    end
  end

  always_comb begin
    if (rst_ni) begin
      // The contract of the registers; the choice of the burst that is followed; the FIFO has
      // requesters only, since no other number is put into it.
      if (before_q) assume (read_limit_i == limit_q);
      assume (u_arbiter.gen_ports.u_ports.u_owners.follow == follow_i);
      assume (32'(u_arbiter.gen_ports.u_ports.owner) < Requesters);

      // A grant goes to the first requester, in every cycle in which it may, and in no other.
      if (granted) assert (req_valid_i != '0 && grant == Requesters'(1) << first);
      if (granted) assert (!halt_i && below && ready[next_q]);
      if (before_q && |req_valid_i && !halt_i && below && ready[next_q]) assert (granted);
      // The burst goes to the next port, which has room for its beats.
      assert (takes == (granted ? AxiPorts'(1) << next_q : '0));
      if (granted) assert (burst[next_q] == req_burst_i[first]);
      for (int unsigned p = 0; p < AxiPorts; p++) begin
        assert (32'(bursts[p]) <= PortBursts);
        if (takes[p]) assert (32'(bursts[p]) < PortBursts);
      end
      // Only the port of the oldest burst gives, as soon as it has a beat.
      assert (gives == (valid & (AxiPorts'(1) << oldest_q)));
      if (inside_q && ahead_q == '0) assert (port_q == oldest_q && bursts[port_q] != '0);
      // The beat is with its requester in the next cycle.
      if (!gave_q) assert (beat_valid == '0);
      else assert (beat_valid == 3'b001 || beat_valid == 3'b010 || beat_valid == 3'b100);
      if (mine_q) begin
        assert (beat_valid == Requesters'(1) << owner_q);
        assert (beat_data == data_q && beat_last == last_q && beat_error == error_q);
      end
      // The limits hold, and the machine knows when the bus is quiet.
      assert (count <= count_t'(read_limit_i) && count <= count_t'(MostReads));
      assert (outstanding == (count != '0));

      // Invariants for the induction.
      assert (u_arbiter.gen_ports.u_ports.next_q == next_q);
      assert (u_arbiter.gen_ports.u_ports.oldest_q == oldest_q);
      assert (next_q == oldest_q + port_t'(total_q));
      assert (count_t'(u_arbiter.u_limit.level_q) == count);
      assert (u_arbiter.u_limit.may_begin_q == (before_q && below));
      for (int unsigned p = 0; p < AxiPorts; p++) assert (bursts[p] == share[p]);
      assert (count_t'(u_arbiter.gen_ports.u_ports.u_owners.level_q) == total_q);
      assert (u_arbiter.gen_ports.u_ports.u_owners.inside_q == inside_q);
      if (inside_q) begin
        assert (ahead_q < total_q && distance == port_t'(ahead_q) && 32'(owner_q) < Requesters);
        assert (count_t'(u_arbiter.gen_ports.u_ports.u_owners.ahead_q) == ahead_q);
        assert (u_arbiter.gen_ports.u_ports.u_owners.value_q == owner_q);
      end
      if (!before_q) assert (count == '0 && !gave_q);
    end
  end
endmodule
