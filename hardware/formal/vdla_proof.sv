// SPDX-License-Identifier: Apache-2.0
// Proof: the machine keeps to the rules of its AXI port over starts, errors and resets by software in
// any cycle. Read addresses stay until they are accepted, within a page of 4 KiB and the configured
// length; no more bursts are outstanding than the limit; no part of the core is reset, and no run
// ends or begins, while a read or a write is outstanding.
//
// Fetch, units, queues, registers and counters are free within what is proved or tested of them,
// which is assumed below; control, arbiter and the wiring between them are the machine's. The rules
// of writes are proved of vdla_store, those of one of several read ports of vdla_read_port.
module vdla_proof
  import vdla_pkg::*;
  import vdla_types_pkg::*;
  import vdla_regs_pkg::*;
(
  input logic                      clk_i,
  input logic [AxiPorts-1:0]       m_axi_arready_i,
  input logic [AxiPorts-1:0][1:0]  m_axi_rid_i,
  input logic [AxiPorts-1:0]       m_axi_rlast_i,
  input logic [AxiPorts-1:0]       m_axi_rvalid_i
);
  localparam int unsigned Idle = 0, Clear = 1, Run = 2, Fold = 3, Stop = 4;

  logic rst_ni = 1'b0;  // low in the first cycle
  logic before_q;
  logic [AxiPorts-1:0][1:0] arid;
  addr_t [AxiPorts-1:0] araddr;
  logic [AxiPorts-1:0][7:0] arlen;
  logic [AxiPorts-1:0][2:0] arsize;
  logic [AxiPorts-1:0][1:0] arburst;
  logic [AxiPorts-1:0] arvalid;
  logic awvalid, wvalid;

  vdla u_vdla (
    .clk_i,
    .clk2x_i         (1'b0),
    .rst_ni,
    .s_axil_awaddr_i ('0),
    .s_axil_awvalid_i('0),
    .s_axil_awready_o(),
    .s_axil_wdata_i  ('0),
    .s_axil_wstrb_i  ('0),
    .s_axil_wvalid_i ('0),
    .s_axil_wready_o (),
    .s_axil_bresp_o  (),
    .s_axil_bvalid_o (),
    .s_axil_bready_i ('0),
    .s_axil_araddr_i ('0),
    .s_axil_arvalid_i('0),
    .s_axil_arready_o(),
    .s_axil_rdata_o  (),
    .s_axil_rresp_o  (),
    .s_axil_rvalid_o (),
    .s_axil_rready_i ('0),
    .m_axi_arid_o    (arid),
    .m_axi_araddr_o  (araddr),
    .m_axi_arlen_o   (arlen),
    .m_axi_arsize_o  (arsize),
    .m_axi_arburst_o (arburst),
    .m_axi_arcache_o (),
    .m_axi_arprot_o  (),
    .m_axi_arvalid_o (arvalid),
    .m_axi_arready_i,
    .m_axi_rid_i,
    .m_axi_rdata_i   ('0),
    .m_axi_rresp_i   ('0),
    .m_axi_rlast_i,
    .m_axi_rvalid_i,
    .m_axi_rready_o  (),
    .m_axi_awid_o    (),
    .m_axi_awaddr_o  (),
    .m_axi_awlen_o   (),
    .m_axi_awsize_o  (),
    .m_axi_awburst_o (),
    .m_axi_awcache_o (),
    .m_axi_awprot_o  (),
    .m_axi_awvalid_o (awvalid),
    .m_axi_awready_i ('0),
    .m_axi_wdata_o   (),
    .m_axi_wstrb_o   (),
    .m_axi_wlast_o   (),
    .m_axi_wvalid_o  (wvalid),
    .m_axi_wready_i  ('0),
    .m_axi_bid_i     ('0),
    .m_axi_bresp_i   ('0),
    .m_axi_bvalid_i  ('0),
    .m_axi_bready_o  (),
    .irq_o           (),
    .trace_o         ()
  );

  // Shorter names.
  burst_t [Requesters-1:0] burst, burst_q;
  logic   [Requesters-1:0] valid, grant;
  logic   [CoreParts-1:0] core_rst_n;
  logic   [2:0] state;
  logic   [3:0] step;
  logic   halt, finished, fetch_start, reads, writes;
  logic [ReadLimitBits-1:0] limit, limit_q;

  assign burst       = u_vdla.u_core.burst;
  assign valid       = u_vdla.u_core.burst_valid;
  assign grant       = u_vdla.u_core.burst_grant;
  assign reads       = u_vdla.u_core.reads_outstanding;
  assign writes      = u_vdla.u_core.writes_outstanding;
  assign core_rst_n  = u_vdla.core_rst_n;
  assign state       = u_vdla.u_control.state_q;
  assign step        = u_vdla.u_control.step_q;
  assign halt        = u_vdla.halt;
  assign finished    = u_vdla.finished;
  assign fetch_start = u_vdla.fetch_start;
  assign limit       = u_vdla.read_limit;

  logic running, quiet;
  assign running = &core_rst_n;
  assign quiet   = !reads && !writes && arvalid == '0 && !awvalid && !wvalid;

  // The previous cycle, and the cycles since fetch was started, 3 at most.
  logic [Requesters-1:0] waits_q;
  logic running_q, finished_q, halt_q, writes_q, busy_q;
  logic [1:0] since_q;
  always_ff @(posedge clk_i) begin
    rst_ni     <= 1'b1;
    before_q   <= rst_ni;
    burst_q    <= burst;
    waits_q    <= valid & ~grant;
    running_q  <= running;
    finished_q <= finished;
    halt_q     <= halt;
    writes_q   <= writes;
    limit_q    <= limit;
    if (!running) since_q <= '0;
    else if (fetch_start) since_q <= 2'd1;
    else if (since_q != '0 && since_q != 2'd3) since_q <= since_q + 1'b1;
  end

  always_comb begin
    if (rst_ni) begin
      // The registers: a start finds the machine idle, limits stay.
      if (u_vdla.busy) assume (!u_vdla.start);
      if (before_q) assume (limit == limit_q);
      for (int unsigned r = 0; r < Requesters; r++) begin
        // Fetch and load engines offer a burst until it is granted, within a page and the length,
        // from three cycles after fetch was started.
        if (before_q && running_q && waits_q[r]) assume (valid[r] && burst[r] == burst_q[r]);
        if (valid[r]) begin
          assume (since_q == 2'd3);
          assume (32'(burst[r].addr[11:0]) + AxiBytes * (32'(burst[r].len) + 1) <= PageBytes);
          assume (32'(burst[r].len) < BurstBeats && burst[r].addr[AxiShift-1:0] == '0);
        end
      end
      // Store: what it offers is outstanding, and a halt or a reset lets no burst begin.
      if (awvalid || wvalid) assume (writes);
      if (!before_q || (!writes_q && (halt_q || !running_q || since_q != 2'd3))) assume (!writes);
      // A program has finished when its instructions have ended, each after its last beat or response.
      if (finished) assume (valid == '0 && !reads && !writes && since_q == 2'd3);
      if (before_q && running_q && finished_q) assume (finished || !running);
    end
  end

  always_comb begin
    if (rst_ni) begin
      // No part is reset while a transaction is outstanding, and a run begins and ends with none.
      if (!running) assert (quiet);
      if (32'(state) inside {Idle, Clear, Fold}) assert (quiet);
      if (u_vdla.quiet) assert (quiet);

      // Invariants for the induction: a halt reaches the core within a cycle, and stays.
      assert (32'(state) <= Stop && (core_rst_n == '0 || running));
      assert (u_vdla.busy == (32'(state) != Idle));
      if (32'(state) == Idle) assert (halt || finished || since_q == '0);
      if (32'(state) == Fold) assert (halt || (finished && step == '0));
      if (32'(state) == Fold || 32'(state) == Idle) assert (running || !before_q || 32'(state) == Idle);
      if (32'(state) == Stop && step != '0) assert (halt);
      if (32'(state) == Clear) begin
        assert (step < 4'd12);
        assert (halt == (step <= 4'd5));
        assert (running == (step == '0 ? running : step > 4'd4));
        if (step >= 4'd2 && !u_vdla.u_control.starting_q) assert (since_q == '0 && !fetch_start);
        if (step >= 4'd2) assert (since_q <= (step < 4'd10 ? 2'd0 : 2'(step - 4'd9)));
      end
      if (fetch_start) assert (32'(state) == Stop && step == '0 || 32'(state) == Clear && step == 4'd9);
      if (32'(state) == Stop && u_vdla.u_control.quiet_q && step > 4'd1) assert (quiet);
      if (u_vdla.u_control.finished_q && 32'(state) == Run && u_vdla.u_control.running_q) begin
        assert (finished);
      end
    end
  end

  // --- the read port

  if (AxiPorts == 1) begin : gen_port
    addr_t      addr_q;
    logic [7:0] len_q;
    logic [1:0] id_q;
    logic       waits_q;
    logic [9:0] memory_q;  // accepted, and not answered
    logic       returned_q, accepted;
    logic [1:0] held;      // granted, and not accepted
    burst_t     first, spare;

    assign accepted = arvalid[0] && m_axi_arready_i[0];
    assign held     = 2'(arvalid[0]) + 2'(!u_vdla.u_core.u_arbiter.gen_port.u_addresses.ready_q);
    assign first    = u_vdla.u_core.u_arbiter.gen_port.u_addresses.data_q.burst;
    assign spare    = u_vdla.u_core.u_arbiter.gen_port.u_addresses.spare_q.burst;

    always_ff @(posedge clk_i) begin
      addr_q <= araddr[0];
      len_q  <= arlen[0];
      id_q   <= arid[0];
      if (!rst_ni) begin
        waits_q    <= 1'b0;
        memory_q   <= '0;
        returned_q <= 1'b0;
      end else begin
        waits_q    <= arvalid[0] && !m_axi_arready_i[0];
        memory_q   <= memory_q + 10'(accepted) - 10'(m_axi_rvalid_i[0] && m_axi_rlast_i[0]);
        returned_q <= m_axi_rvalid_i[0] && m_axi_rlast_i[0];
      end
    end

    always_comb begin
      if (rst_ni) begin
        if (m_axi_rvalid_i[0]) assume (memory_q != '0 && 32'(m_axi_rid_i[0]) < Requesters);

        if (waits_q) begin
          assert (arvalid[0] && araddr[0] == addr_q && arlen[0] == len_q && arid[0] == id_q);
        end
        if (arvalid[0]) begin
          assert (32'(araddr[0][11:0]) + AxiBytes * (32'(arlen[0]) + 1) <= PageBytes);
          assert (32'(arlen[0]) < BurstBeats && araddr[0][AxiShift-1:0] == '0);
          assert (32'(arsize[0]) == AxiShift && arburst[0] == 2'b01 && 32'(arid[0]) < Requesters);
        end
        assert (10'(held) + memory_q <= 10'(limit) && 10'(held) + memory_q <= 10'(MaxOutstanding));

        // Invariants for the induction.
        assert (memory_q <= 10'(MaxOutstanding));
        assert (10'(u_vdla.u_core.u_arbiter.u_limit.level_q)
                == 10'(held) + memory_q + 10'(returned_q));
        assert (u_vdla.u_core.u_arbiter.gen_port.returned_q == returned_q);
        assert (10'(u_vdla.u_core.u_arbiter.u_limit.level_q) <= 10'(limit));
        assert (10'(u_vdla.u_core.u_arbiter.u_limit.level_q) <= 10'(MaxOutstanding));
        if (u_vdla.u_core.u_arbiter.u_limit.may_begin_q) begin
          assert (10'(u_vdla.u_core.u_arbiter.u_limit.level_q) < 10'(limit));
          assert (10'(u_vdla.u_core.u_arbiter.u_limit.level_q) < 10'(MaxOutstanding));
        end
        if (!u_vdla.u_core.u_arbiter.gen_port.u_addresses.ready_q) begin
          assert (arvalid[0] && 32'(spare.len) < BurstBeats && spare.addr[AxiShift-1:0] == '0);
          assert (32'(spare.addr[11:0]) + AxiBytes * (32'(spare.len) + 1) <= PageBytes);
          assert (32'(u_vdla.u_core.u_arbiter.gen_port.u_addresses.spare_q.id) < Requesters);
        end
      end
    end
  end else begin : gen_ports
    logic [AxiPorts-1:0][9:0] bursts;  // of each port, without those whose last beat it has given
    logic [9:0] total;

    for (genvar p = 0; p < AxiPorts; p++) begin : gen_bursts
      assign bursts[p] = u_vdla.u_core.u_arbiter.gen_ports.u_ports.gen_port[p].u_port.bursts_q;
    end

    always_comb begin
      total = 10'(u_vdla.u_core.u_arbiter.returned);
      for (int unsigned p = 0; p < AxiPorts; p++) total += bursts[p];
    end

    always_comb begin
      if (rst_ni) begin
        // Ports offer addresses of bursts that they have taken; the FIFO has requesters only.
        if (arvalid != '0) assume (reads);
        assume (32'(u_vdla.u_core.u_arbiter.gen_ports.u_ports.owner) < Requesters);

        assert (total <= 10'(limit) && total <= 10'(MostReads));

        // Invariants for the induction.
        assert (10'(u_vdla.u_core.u_arbiter.u_limit.level_q) == total);
        for (int unsigned p = 0; p < AxiPorts; p++) assert (bursts[p] <= 10'(MostReads));
        if (u_vdla.u_core.u_arbiter.u_limit.may_begin_q) begin
          assert (total < 10'(limit) && total < 10'(MostReads));
        end
      end
    end
  end
endmodule
