// SPDX-License-Identifier: Apache-2.0
// The store unit and AXI write master: STOREs of the output buffer, in order, several awaiting
// responses.
//
// Contract: docs/timing-contract.md, section 5. A burst begins while fewer than write_limit_i
// bursts are between their first beat and the cycle in which the unit sees the response, the next
// one after it was accepted. A STORE is complete StoreTail cycles after the response to its last
// burst; responses arrive in order and are always accepted. With halt_i no burst begins and a begun
// one finishes; outstanding_o: a begun burst, whether or not its address or a beat was accepted,
// awaits its response. An error response is reported once and counts as a response. All outputs of
// the port are registers. One beat of the port per cycle.

`default_nettype none

module vdla_store
  import vdla_pkg::*;
  import vdla_types_pkg::*;
  import vdla_regs_pkg::*;
(
  input  logic                    clk_i,
  input  logic                    rst_ni,
  input  logic                    halt_i,
  // The head of the command queue.
  input  logic                    cmd_valid_i,
  input  command_t                cmd_i,
  output logic                    cmd_take_o,
  // The token queues from and to compute.
  input  logic                    prev_available_i,
  output logic                    prev_pop_o,
  input  logic                    prev_room_i,
  output logic                    prev_push_o,
  // The output buffer.
  output logic                    out_re_o,
  output logic [OutFieldBits-1:0] out_index_o,
  input  logic [OutEntryBits-1:0] out_entry_i,
  // The write channel.
  input  logic [WriteLimitBits-1:0] write_limit_i,
  output logic [1:0]              m_axi_awid_o,
  output addr_t                   m_axi_awaddr_o,
  output logic [7:0]              m_axi_awlen_o,
  output logic [2:0]              m_axi_awsize_o,
  output logic [1:0]              m_axi_awburst_o,
  output logic [3:0]              m_axi_awcache_o,
  output logic [2:0]              m_axi_awprot_o,
  output logic                    m_axi_awvalid_o,
  input  logic                    m_axi_awready_i,
  output port_beat_t              m_axi_wdata_o,
  output logic [PortBytes-1:0]    m_axi_wstrb_o,
  output logic                    m_axi_wlast_o,
  output logic                    m_axi_wvalid_o,
  input  logic                    m_axi_wready_i,
  input  logic [1:0]              m_axi_bid_i,
  input  logic [1:0]              m_axi_bresp_i,
  input  logic                    m_axi_bvalid_i,
  output logic                    m_axi_bready_o,
  // For observers.
  output logic                    busy_o,            // an instruction is in flight
  output logic                    ended_o,
  output logic                    outstanding_o,     // an address, beat or response is outstanding
  output logic                    error_o,
  output counter_e                class_o,
  output logic                    tentative_o
);

  localparam int unsigned LevelBits = $clog2(StoresInFlight + 1);
  typedef logic [LevelBits-1:0] level_t;

  // Bursts are numbered, modulo more than the MaxOutstanding that may await a response.
  localparam int unsigned NumberBits = $clog2(MaxOutstanding + 1);
  typedef logic [NumberBits-1:0] number_t;

  store_t               head;
  tokens_t              tokens;
  logic                 sync, unused_bits;
  level_t               in_flight;
  logic                 engine_busy, setup, begins, may_begin, beat_done, done;
  burst_t               address, aw_q;
  logic                 address_valid, address_ready, aw_valid_q;

  assign head   = store_t'(cmd_i.word);
  assign sync   = head.opcode == OpSync;
  assign tokens = '{
    push_next: head.push_next,
    push_prev: head.push_prev,
    pop_next: head.pop_next,
    pop_prev: head.pop_prev
  };
  assign unused_bits = ^{head, m_axi_bid_i, m_axi_bresp_i[0]};

  // --- bursts that await a response

  number_t begun_q;     // the number of the last burst that has begun; the first one is 1
  number_t answers_q;   // the number of the burst that is answered next
  number_t last_burst;  // the last burst of the oldest STORE that awaits responses
  logic    answer_q, error_q, none_done, complete, complete_q;

  assign complete = answer_q && !none_done && answers_q == last_burst;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      begun_q    <= '0;
      answers_q  <= number_t'(1);
      answer_q   <= 1'b0;
      error_q    <= 1'b0;
      complete_q <= 1'b0;
    end else begin
      begun_q    <= begun_q + number_t'(begins);
      answers_q  <= answers_q + number_t'(answer_q);
      answer_q   <= m_axi_bvalid_i;
      error_q    <= m_axi_bvalid_i && m_axi_bresp_i[1];
      complete_q <= complete;
    end
  end

  vdla_burst_limit #(
    .LimitBits(WriteLimitBits)
  ) u_limit (
    .clk_i,
    .rst_ni,
    .limit_i    (write_limit_i),
    .begin_i    (begins),
    .end_i      (answer_q),
    .may_begin_o(may_begin),
    .outstanding_o
  );

  // A STORE is done when its last beat is accepted, which is later than the begin of its last burst.
  vdla_fifo #(
    .T    (number_t),
    .Depth(StoresInFlight)
  ) u_done (
    .clk_i,
    .rst_ni,
    .push_i (done),
    .data_i (begun_q),
    .full_o (),
    .head_o (last_burst),
    .empty_o(none_done),
    .pop_i  (complete),
    .level_o()
  );

  // --- the unit

  vdla_unit_control #(
    .InFlight(StoresInFlight),
    .Held    (CntMemoryLatency),
    .PopPrev (CntWaitComputeToStore),
    .PushPrev(CntWaitStoreToCompute)
  ) u_control (
    .clk_i,
    .rst_ni,
    .halt_i,
    .cmd_valid_i,
    .cmd_tokens_i    (tokens),
    .cmd_sync_i      (sync),
    .cmd_take_o,
    .prev_available_i,
    .next_available_i(1'b1),
    .prev_pop_o,
    .next_pop_o      (),
    .prev_room_i,
    .next_room_i     (1'b1),
    .prev_push_o,
    .next_push_o     (),
    .allow_i         (!engine_busy && in_flight < level_t'(StoresInFlight)),
    .complete_i      (complete_q),
    .in_flight_o     (in_flight),
    .ended_o,
    .current_i       (engine_busy),
    .current_class_i (setup || beat_done ? CntBusy : CntMemoryBandwidth),
    .current_waits_i (1'b0),
    .covered_i       (1'b0),
    .covered_class_i (CntBusy),
    .class_o,
    .tentative_o
  );

  vdla_store_engine u_engine (
    .clk_i,
    .rst_ni,
    .start_i    (cmd_take_o && !sync),
    .command_i  (cmd_i),
    .may_begin_i(!halt_i && may_begin),
    .busy_o     (engine_busy),
    .setup_o    (setup),
    .begin_o    (begins),
    .beat_done_o(beat_done),
    .done_o     (done),
    .out_re_o,
    .out_index_o,
    .out_entry_i,
    .aw_valid_o (address_valid),
    .aw_o       (address),
    .aw_ready_i (address_ready),
    .w_valid_o  (m_axi_wvalid_o),
    .w_data_o   (m_axi_wdata_o),
    .w_last_o   (m_axi_wlast_o),
    .w_ready_i  (m_axi_wready_i)
  );

  // One register, not a slice: no beat is offered before the address of its burst.
  assign address_ready = !aw_valid_q || m_axi_awready_i;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) aw_valid_q <= 1'b0;
    else aw_valid_q <= address_valid || !address_ready;
  end

  always_ff @(posedge clk_i) begin
    if (address_ready) aw_q <= address;
  end

  assign m_axi_awvalid_o = aw_valid_q;
  assign m_axi_awid_o    = '0;
  assign m_axi_awaddr_o  = aw_q.addr;
  assign m_axi_awlen_o   = 8'(AxiPorts * (32'(aw_q.len) + 1) - 1);
  assign m_axi_awsize_o  = 3'(PortShift);
  assign m_axi_awburst_o = 2'b01;    // incrementing
  assign m_axi_awcache_o = 4'b0011;  // normal memory, not cached, bufferable
  assign m_axi_awprot_o  = 3'b000;
  assign m_axi_wstrb_o   = '1;
  assign m_axi_bready_o  = 1'b1;

  assign busy_o  = in_flight != '0;
  assign error_o = error_q;

`ifndef SYNTHESIS
  if (StoreTail != 2 || PortDelay != 2) begin : gen_delays
    $error("vdla_store: StoreTail and PortDelay must be 2");
  end

  // What is offered to the memory, or awaited from it, is outstanding.
  Outstanding_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      m_axi_awvalid_o || m_axi_wvalid_o || m_axi_bvalid_i || answer_q |-> outstanding_o);
  // A halt leaves an address or a beat that the memory has not accepted.
  HaltWithAddress_C: cover property (@(posedge clk_i) disable iff (!rst_ni)
      halt_i && m_axi_awvalid_o && !m_axi_awready_i && !m_axi_wvalid_o);
  HaltWithBeat_C: cover property (@(posedge clk_i) disable iff (!rst_ni)
      halt_i && m_axi_wvalid_o && !m_axi_wready_i && !m_axi_awvalid_o);
`endif

endmodule

`default_nettype wire
