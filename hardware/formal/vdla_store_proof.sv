// SPDX-License-Identifier: Apache-2.0
// Proof: the store unit keeps to the rules of its AXI port, whatever it stores and however the
// memory answers. Addresses and beats stay until they are accepted; a burst stays within its
// page of 4 KiB and within the configured length; its beats follow its address, as many as it says,
// and only the last one is marked; no more bursts are outstanding than the limit.
module vdla_store_proof
  import vdla_pkg::*;
  import vdla_types_pkg::*;
  import vdla_regs_pkg::*;
(
  input logic                      clk_i,
  input logic                      halt_i,
  input logic                      cmd_valid_i,
  input command_t                  cmd_i,
  input logic                      prev_available_i,
  input logic                      prev_room_i,
  input logic [  OutEntryBits-1:0] out_entry_i,
  input logic [WriteLimitBits-1:0] write_limit_i,
  input logic                      m_axi_awready_i,
  input logic                      m_axi_wready_i,
  input logic                      m_axi_bvalid_i
);
  localparam int unsigned PageBeats = PageBytes / AxiBytes;
  localparam int unsigned PageBits = $clog2(PageBeats);

  logic rst_ni = 1'b0;  // low in the first cycle
  logic before_q;
  addr_t aw_addr;
  logic [7:0] aw_len;
  logic aw_valid, w_valid, w_last, outstanding;
  port_beat_t w_data;
  logic [PortBytes-1:0] w_strb;

  vdla_store u_store (
    .clk_i,
    .rst_ni,
    .halt_i,
    .cmd_valid_i,
    .cmd_i,
    .cmd_take_o     (),
    .prev_available_i,
    .prev_pop_o     (),
    .prev_room_i,
    .prev_push_o    (),
    .out_re_o       (),
    .out_index_o    (),
    .out_entry_i,
    .write_limit_i,
    .m_axi_awid_o   (),
    .m_axi_awaddr_o (aw_addr),
    .m_axi_awlen_o  (aw_len),
    .m_axi_awsize_o (),
    .m_axi_awburst_o(),
    .m_axi_awcache_o(),
    .m_axi_awprot_o (),
    .m_axi_awvalid_o(aw_valid),
    .m_axi_awready_i,
    .m_axi_wdata_o  (w_data),
    .m_axi_wstrb_o  (w_strb),
    .m_axi_wlast_o  (w_last),
    .m_axi_wvalid_o (w_valid),
    .m_axi_wready_i,
    .m_axi_bid_i    ('0),
    .m_axi_bresp_i  ('0),
    .m_axi_bvalid_i,
    .m_axi_bready_o (),
    .busy_o         (),
    .ended_o        (),
    .outstanding_o  (outstanding),
    .error_o        (),
    .class_o        (),
    .tentative_o    ()
  );

  // --- the port, as an observer sees it

  logic aw_valid_q, aw_ready_q, w_valid_q, w_ready_q, w_last_q;  // of the previous cycle
  addr_t aw_addr_q;
  logic [7:0] aw_len_q;
  port_beat_t w_data_q;
  logic [WriteLimitBits-1:0] limit_q;

  logic [9:0] begun_q;     // bursts whose address was offered and that are not answered
  logic [9:0] complete_q;  // of these, those whose last beat was accepted
  logic [8:0] left_q;      // beats to come of the burst whose beats are offered; 0 before the first
  logic       first_aw;    // an address is offered for the first time
  logic [8:0] left;        // with this one

  assign first_aw = aw_valid && !(aw_valid_q && !aw_ready_q);
  assign left     = left_q == '0 ? 9'(aw_len) + 1'b1 : left_q;

  always_ff @(posedge clk_i) begin
    rst_ni     <= 1'b1;
    before_q   <= rst_ni;
    limit_q    <= write_limit_i;
    aw_addr_q  <= aw_addr;
    aw_len_q   <= aw_len;
    aw_ready_q <= m_axi_awready_i;
    w_ready_q  <= m_axi_wready_i;
    w_last_q   <= w_last;
    w_data_q   <= w_data;
    if (!rst_ni) begin
      aw_valid_q <= 1'b0;
      w_valid_q  <= 1'b0;
      begun_q    <= '0;
      complete_q <= '0;
      left_q     <= '0;
    end else begin
      aw_valid_q <= aw_valid;
      w_valid_q  <= w_valid;
      begun_q    <= begun_q + 10'(first_aw) - 10'(m_axi_bvalid_i);
      complete_q <= complete_q + 10'(w_valid && w_last && m_axi_wready_i) - 10'(m_axi_bvalid_i);
      if (w_valid) left_q <= left - 9'(m_axi_wready_i);
    end
  end

  // Shorter names of what the invariants are about.
  localparam int unsigned BurstCap = BurstBeats < PageBeats ? BurstBeats : PageBeats;
  logic [PageBits-1:0] cut_room, burst_place, address_place;
  logic [2:0] setup;
  logic busy, cuts, valid, begun;
  logic [31:0] port_left;  // parts of the beat that the port offers
  logic [31:0] later;      // of those behind it
  assign cut_room      = ~u_store.u_engine.u_bursts.addr_q[PageBits-1:0];
  assign burst_place   = u_store.u_engine.burst_q.addr[AxiShift+:PageBits];
  assign address_place = u_store.aw_q.addr[AxiShift+:PageBits];
  assign setup         = u_store.u_engine.setup_q;
  assign busy          = u_store.u_engine.busy_q;
  assign cuts          = u_store.u_engine.cuts_q;
  assign valid         = u_store.u_engine.valid_q;
  assign begun         = u_store.u_engine.begun_q;
  assign later = begun ? AxiPorts * (32'(u_store.u_engine.burst_q.len) + 1) : '0;
  if (AxiPorts == 1) begin : gen_whole
    assign port_left = 32'd1;
    always_comb if (rst_ni && w_valid) assert (w_last == !begun);
  end else begin : gen_parts
    assign port_left = AxiPorts - 32'(u_store.u_engine.gen_parts.part_q);
    always_comb begin
      if (rst_ni && w_valid) begin
        assert (u_store.u_engine.gen_parts.is_last_q == !begun);
        assert (w_last == (!begun && port_left == 32'd1));
      end
    end
  end

  always_comb begin
    if (rst_ni) begin
      // The contract of the registers and of the memory.
      if (before_q) assume (write_limit_i == limit_q);
      if (m_axi_bvalid_i) assume (complete_q != '0 && begun_q != 10'(aw_valid && !first_aw));

      // Stable until accepted.
      if (aw_valid_q && !aw_ready_q) begin
        assert (aw_valid && aw_addr == aw_addr_q && aw_len == aw_len_q);
      end
      if (w_valid_q && !w_ready_q) begin
        assert (w_valid && w_last == w_last_q && w_data == w_data_q);
      end
      assert (w_strb == '1);
      // Within a page, and within the length.
      if (aw_valid) begin
        assert (32'(aw_addr[11:0]) + PortBytes * (32'(aw_len) + 1) <= PageBytes);
        assert (32'(aw_len) < AxiPorts * BurstBeats);
      end
      // The limits hold.
      assert (begun_q <= 10'(write_limit_i) && begun_q <= 10'(MaxOutstanding));
      if (begun_q != '0 || aw_valid || w_valid) assert (outstanding);
      // The first beat of a burst comes with its address, the last one is marked.
      if (w_valid && left_q == '0) assert (first_aw);
      if (w_valid) assert (w_last == (left == 9'd1));

      // Invariants for the induction: the bursts of the cutter, of the engine and of the port.
      assert (setup == '0 || setup == 3'b001 || setup == 3'b010 || setup == 3'b100);
      assert (u_store.u_engine.u_bursts.begin_q == setup[0]);
      if (setup[0]) assert (busy && !cuts && !valid && !w_valid);
      if (setup[1]) assert (cuts && !valid);
      if (!busy) assert (!cuts && !valid && !w_valid && setup == '0);
      if (valid && u_store.u_engine.burst_is_last_q) assert (!cuts);
      if (w_valid && u_store.u_engine.w_is_end_q) assert (!cuts && !valid);
      if (cuts) begin
        assert (32'(u_store.u_engine.u_bursts.cap_q)
                == (32'(cut_room) < BurstCap ? 32'(cut_room) : BurstCap - 1));
        assert (u_store.u_engine.u_bursts.run_ends_q
                == (32'(u_store.u_engine.u_bursts.left_q)
                    <= 32'(u_store.u_engine.u_bursts.cap_q)));
      end
      if (valid) begin
        assert (begun || 32'(burst_place) + 32'(u_store.u_engine.burst_q.len) < PageBeats);
        assert (32'(u_store.u_engine.burst_q.len) < BurstBeats);
        assert (u_store.u_engine.burst_q.addr[AxiShift-1:0] == '0);
        assert (u_store.u_engine.beat_is_last_q == (u_store.u_engine.burst_q.len == '0));
      end
      if (begun) assert (valid);
      if (aw_valid) begin
        assert (32'(address_place) + 32'(u_store.aw_q.len) < PageBeats);
        assert (32'(u_store.aw_q.len) < BurstBeats);
        assert (u_store.aw_q.addr[AxiShift-1:0] == '0);
      end
      // Outstanding bursts, and beats to come.
      assert (10'(u_store.u_limit.level_q) == begun_q + 10'(first_aw) + 10'(u_store.answer_q));
      if (u_store.u_limit.may_begin_q) begin
        assert (10'(u_store.u_limit.level_q) < 10'(write_limit_i));
        assert (10'(u_store.u_limit.level_q) < 10'(MaxOutstanding));
      end
      assert (10'(u_store.u_limit.level_q) <= 10'(write_limit_i));
      assert (10'(u_store.u_limit.level_q) <= 10'(MaxOutstanding));
      assert (begun_q + 10'(first_aw) == complete_q + 10'(w_valid || begun));
      if (w_valid) begin
        assert (32'(left) == port_left + later);
      end else begin
        assert (32'(left_q) == later);
        assert (port_left == AxiPorts);
      end
      assert (port_left != '0 && port_left <= AxiPorts);
      if (!before_q) begin
        assert (begun_q == '0 && complete_q == '0 && !aw_valid && !w_valid);
      end
    end
  end
endmodule
