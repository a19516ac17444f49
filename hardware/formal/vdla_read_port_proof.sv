// SPDX-License-Identifier: Apache-2.0
// Proof: a port of several presents the bursts that it takes in order, each until it is accepted and
// within its page, and gives the beats that the memory answers in order, each assembled of its parts
// with an error if one of them has one, two cycles after the last part at the earliest.
//
// An arbitrary beat is followed: follow_i is free. Its FIFO is that of the proof of vdla_fifo.
module vdla_read_port_proof
  import vdla_pkg::*;
  import vdla_types_pkg::*;
(
  input logic       clk_i,
  input logic       wants_burst_i,
  input burst_t     burst_i,
  input logic       m_axi_arready_i,
  input port_beat_t m_axi_rdata_i,
  input logic [1:0] m_axi_rresp_i,
  input logic       m_axi_rlast_i,
  input logic       m_axi_rvalid_i,
  input logic       wants_pop_i,
  input logic       follow_i
);
  localparam int unsigned PartBits = $clog2(AxiPorts);
  localparam int unsigned Depth = PortBursts * BurstBeats;
  localparam int unsigned LevelBits = $clog2(Depth + 1);
  typedef logic [LevelBits-1:0] level_t;
  typedef logic [AxiPorts-1:0][PortBits-1:0] parts_t;
  typedef struct packed {
    logic  error;
    logic  last;
    beat_t data;
  } item_t;

  logic       rst_ni = 1'b0;  // low in the first cycle
  logic       take, pop, ready, arvalid, beat_valid, beat_last, beat_error;
  addr_t      araddr;
  logic [7:0] arlen;
  beat_t      beat_data;

  assign take = wants_burst_i && ready;
  assign pop  = wants_pop_i && beat_valid;

  vdla_read_port u_port (
    .clk_i,
    .rst_ni,
    .burst_valid_i  (take),
    .burst_ready_o  (ready),
    .burst_i,
    .m_axi_araddr_o (araddr),
    .m_axi_arlen_o  (arlen),
    .m_axi_arvalid_o(arvalid),
    .m_axi_arready_i,
    .m_axi_rdata_i,
    .m_axi_rresp_i,
    .m_axi_rlast_i,
    .m_axi_rvalid_i,
    .beat_valid_o   (beat_valid),
    .beat_data_o    (beat_data),
    .beat_last_o    (beat_last),
    .beat_error_o   (beat_error),
    .beat_pop_i     (pop)
  );

  // --- addresses: taken and not accepted, the oldest first

  burst_t     oldest_q, newest_q;
  logic [1:0] held_q;
  logic       accepted;
  assign accepted = arvalid && m_axi_arready_i;

  // --- parts, and the beat of which they are; whole_q: a beat was whole in the cycle before

  logic [PartBits-1:0] part_q;
  parts_t parts, parts_q;
  logic   error, error_q, whole, whole_q, follow_q;
  item_t  item_q;

  assign whole = m_axi_rvalid_i && 32'(part_q) == AxiPorts - 1;
  assign error = m_axi_rresp_i[1] || (part_q != '0 && error_q);

  always_comb begin
    parts = parts_q;
    parts[part_q] = m_axi_rdata_i;
  end

  // --- the followed beat, and how many are given before it

  level_t level_q, ahead_q;  // of beats that could be given, from the cycle after whole_q
  logic   inside_q;
  item_t  value_q;

  always_ff @(posedge clk_i) begin
    rst_ni   <= 1'b1;
    follow_q <= follow_i;
    item_q   <= '{error: error, last: m_axi_rlast_i, data: parts};
    if (!rst_ni) begin
      held_q   <= '0;
      part_q   <= '0;
      whole_q  <= 1'b0;
      level_q  <= '0;
      inside_q <= 1'b0;
    end else begin
      held_q  <= held_q + 2'(take) - 2'(accepted);
      whole_q <= whole;
      level_q <= level_q + level_t'(whole_q) - level_t'(pop);
      if (m_axi_rvalid_i) part_q <= part_q + 1'b1;
      if (inside_q) begin
        if (pop) ahead_q <= ahead_q - 1'b1;
        if (pop && ahead_q == '0) inside_q <= 1'b0;
      end else if (whole_q && follow_q) begin
        inside_q <= 1'b1;
        ahead_q  <= level_q - level_t'(pop);
        value_q  <= item_q;
      end
    end
    if (m_axi_rvalid_i) begin
      parts_q <= parts;
      error_q <= error;
    end
    if (accepted && held_q == 2'd2) oldest_q <= newest_q;
    else if (take && (held_q == '0 || accepted)) oldest_q <= burst_i;
    if (take) newest_q <= burst_i;
  end

  always_comb begin
    if (rst_ni) begin
      // The contract of the users: bursts within a page, and never more beats than there is room for.
      if (take) begin
        assume (32'(burst_i.addr[11:0]) + AxiBytes * (32'(burst_i.len) + 1) <= PageBytes);
        assume (32'(burst_i.len) < BurstBeats);
      end
      assume (32'(level_q) + 32'(whole_q) + 32'(whole) <= Depth);
      assume (u_port.u_beats.follow == follow_q);

      // Addresses in order, from the cycle after the burst is taken until they are accepted.
      assert (arvalid == (held_q != '0) && ready == (held_q < 2'd2));
      if (arvalid) begin
        assert (araddr == oldest_q.addr && 32'(arlen) == AxiPorts * (32'(oldest_q.len) + 1) - 1);
        assert (32'(araddr[11:0]) + PortBytes * (32'(arlen) + 1) <= PageBytes);
      end
      // Beats in order.
      assert (beat_valid == (level_q != '0));
      if (inside_q && ahead_q == '0) begin
        assert ({beat_error, beat_last, beat_data} == {value_q.error, value_q.last, value_q.data});
      end

      // Invariants for the induction.
      assert (held_q <= 2'd2 && 32'(level_q) + 32'(whole_q) <= Depth);
      if (held_q != '0) begin
        assert (32'(oldest_q.addr[11:0]) + AxiBytes * (32'(oldest_q.len) + 1) <= PageBytes);
        assert (32'(newest_q.addr[11:0]) + AxiBytes * (32'(newest_q.len) + 1) <= PageBytes);
        assert (32'(oldest_q.len) < BurstBeats && 32'(newest_q.len) < BurstBeats);
        assert (u_port.u_addresses.data_q == oldest_q);
      end
      if (held_q == 2'd2) assert (u_port.u_addresses.spare_q == newest_q);
      if (held_q == 2'd1) assert (oldest_q == newest_q);
      assert (u_port.whole == whole_q);
      if (whole_q) assert (u_port.assembled == item_q);
      assert (part_q == u_port.part_q + PartBits'(u_port.valid_q));
      for (int unsigned p = 0; p < AxiPorts - 1; p++) begin
        // Those of a beat that is not whole, the latest on top.
        if (p < 32'(part_q)) begin
          assert (u_port.parts[(AxiPorts-32'(part_q)+p-(u_port.valid_q ? 0 : 1))*PortBits+:PortBits]
                  == parts_q[p]);
        end
      end
      if (part_q != '0) begin
        assert (error_q == (u_port.earlier_error_q || (u_port.valid_q && u_port.error_q)));
      end
      if (u_port.part_q == '0) assert (!u_port.earlier_error_q);
      assert (u_port.u_beats.level_q == level_q && u_port.u_beats.inside_q == inside_q);
      if (inside_q) begin
        assert (u_port.u_beats.ahead_q == ahead_q && u_port.u_beats.value_q == value_q);
        assert (ahead_q < level_q);
      end
    end
  end
endmodule
