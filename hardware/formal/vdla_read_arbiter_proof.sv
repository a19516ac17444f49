// Proof: the arbiter presents a burst until it is accepted, grants one at a time in the order of
// priority, keeps to the limit of outstanding bursts, presents no new burst when halted, and routes
// each beat to its requester.
module vdla_read_arbiter_proof
  import vdla_pkg::*;
  import vdla_types_pkg::*;
(
  input logic                    clk_i,
  input logic                    halt_i,
  input logic   [           8:0] read_limit_i,
  input logic   [Requesters-1:0] req_valid_i,
  input burst_t [Requesters-1:0] req_burst_i,
  input logic                    m_axi_arready_i,
  input logic   [           1:0] m_axi_rid_i,
  input logic                    m_axi_rlast_i,
  input logic                    m_axi_rvalid_i
);
  logic   rst_ni = 1'b0;  // low in the first cycle
  logic   arvalid, rready, outstanding, before_q;
  addr_t  araddr;
  logic   [1:0] arid;
  logic   [7:0] arlen;
  logic   [Requesters-1:0] grant, beat_valid;

  vdla_read_arbiter u_arbiter (
    .clk_i,
    .rst_ni,
    .halt_i,
    .read_limit_i,
    .req_valid_i,
    .req_burst_i,
    .req_grant_o    (grant),
    .m_axi_arid_o   (arid),
    .m_axi_araddr_o (araddr),
    .m_axi_arlen_o  (arlen),
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
    .beat_last_o    (),
    .beat_error_o   (),
    .outstanding_o  (outstanding)
  );

  // The previous cycle.
  logic   [Requesters-1:0] valid_q, grant_q;
  burst_t [Requesters-1:0] burst_q;
  logic   [8:0] limit_q;
  logic   arvalid_q, arready_q;
  addr_t  araddr_q;
  logic   [1:0] arid_q;
  logic   [7:0] arlen_q;
  // Bursts accepted and not completed; a bit wider, to show an overflow.
  logic   [9:0] count_q;

  always_ff @(posedge clk_i) begin
    rst_ni    <= 1'b1;
    before_q  <= rst_ni;
    valid_q   <= req_valid_i;
    burst_q   <= req_burst_i;
    grant_q   <= grant;
    limit_q   <= read_limit_i;
    arvalid_q <= arvalid;
    arready_q <= m_axi_arready_i;
    arid_q    <= arid;
    araddr_q  <= araddr;
    arlen_q   <= arlen;
    if (!rst_ni) count_q <= '0;
    else begin
      count_q <= count_q + 10'(arvalid && m_axi_arready_i)
                         - 10'(m_axi_rvalid_i && m_axi_rlast_i);
    end
  end

  logic held;  // presented and not yet accepted
  assign held = before_q && arvalid_q && !arready_q;

  // The requester with priority.
  logic [1:0] first;
  always_comb begin
    first = 2'd2;
    if (req_valid_i[1]) first = 2'd1;
    if (req_valid_i[0]) first = 2'd0;
  end

  always_comb begin
    if (rst_ni) begin
      // The contract of the requesters, of the memory and of the registers.
      if (before_q) begin
        assume (read_limit_i == limit_q);
        for (int unsigned r = 0; r < Requesters; r++) begin
          if (valid_q[r] && !grant_q[r]) assume (req_valid_i[r] && req_burst_i[r] == burst_q[r]);
        end
      end
      assume (read_limit_i <= 9'(MaxOutstanding));
      if (m_axi_rvalid_i) assume (count_q != '0 && 32'(m_axi_rid_i) < Requesters);

      // A presented burst stays stable.
      if (held) assert (arvalid && arid == arid_q && araddr == araddr_q && arlen == arlen_q);
      // It is a requester's burst, a new one that of the first requester; none is new when halted
      // or full.
      if (arvalid) begin
        assert (32'(arid) < Requesters && req_valid_i[arid]);
        assert (araddr == req_burst_i[arid].addr && arlen == req_burst_i[arid].len);
        if (!held) assert (arid == first && !halt_i && count_q < 10'(read_limit_i));
      end
      // No burst waits that could be presented.
      if (|req_valid_i && !halt_i && count_q < 10'(read_limit_i)) assert (arvalid);
      // A grant is the handshake of the presented burst.
      for (int unsigned r = 0; r < Requesters; r++) begin
        assert (grant[r] == (arvalid && m_axi_arready_i && 32'(arid) == r));
        assert (beat_valid[r] == (m_axi_rvalid_i && 32'(m_axi_rid_i) == r));
      end
      assert (rready);
      // The limit holds, and the machine knows when the bus is quiet.
      assert (count_q <= 10'(read_limit_i));
      assert (outstanding == (count_q != '0 || held));

      // Invariants for the induction.
      assert (10'(u_arbiter.level_q) == count_q);
      assert (u_arbiter.locked_q == held);
      if (held) assert (u_arbiter.locked_id_q == Requesters'(1) << arid_q);
      if (held) assert (32'(arid_q) < Requesters && valid_q[arid_q]);
      if (held) assert (count_q < 10'(read_limit_i) && grant_q == '0);
      if (held) assert (araddr_q == burst_q[arid_q].addr && arlen_q == burst_q[arid_q].len);
    end
  end
endmodule
