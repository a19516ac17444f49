// The store unit and AXI write master: STOREs of the output buffer, in order, several awaiting
// responses.
//
// Contract: docs/timing-contract.md, section 5. A burst begins while fewer than write_limit_i
// bursts are between first beat and response. A STORE is complete in the cycle after the response
// to its last burst; responses arrive in order and are always accepted. With halt_i no burst begins
// and a begun one finishes; outstanding_o: a transaction is unfinished. An error response is
// reported at once and counts as a response. One beat per cycle.

module vdla_store
  import vdla_pkg::*;
  import vdla_types_pkg::*;
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
  input  logic [8:0]              write_limit_i,
  output logic [1:0]              m_axi_awid_o,
  output addr_t                   m_axi_awaddr_o,
  output logic [7:0]              m_axi_awlen_o,
  output logic [2:0]              m_axi_awsize_o,
  output logic [1:0]              m_axi_awburst_o,
  output logic [3:0]              m_axi_awcache_o,
  output logic [2:0]              m_axi_awprot_o,
  output logic                    m_axi_awvalid_o,
  input  logic                    m_axi_awready_i,
  output beat_t                   m_axi_wdata_o,
  output logic [AxiBytes-1:0]     m_axi_wstrb_o,
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

  // Bursts are numbered; at most MaxOutstanding await a response.
  localparam int unsigned NumberBits = $clog2(MaxOutstanding + 1);
  typedef logic [NumberBits-1:0] number_t;

  store_t               head;
  tokens_t              tokens;
  logic                 sync, unused_bits;
  level_t               in_flight;
  logic                 engine_busy, setup, begun, burst, done;
  burst_t               address;

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

  number_t begun_q, begun_d, answered_q, answered_d, last_burst;
  number_t awaiting;
  logic    answer, none_done, complete, complete_q;

  assign answer     = m_axi_bvalid_i && m_axi_bready_o;
  assign awaiting   = begun_q - answered_q;
  assign begun_d    = begun_q + number_t'(burst);
  assign answered_d = answered_q + number_t'(answer);
  assign complete   = answer && !none_done && answered_d == last_burst;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      begun_q    <= '0;
      answered_q <= '0;
      complete_q <= 1'b0;
    end else begin
      begun_q    <= begun_d;
      answered_q <= answered_d;
      complete_q <= complete;
    end
  end

  // The number of the last burst of each STORE that awaits responses.
  vdla_fifo #(
    .T    (number_t),
    .Depth(StoresInFlight)
  ) u_done (
    .clk_i,
    .rst_ni,
    .push_i (done),
    .data_i (begun_d),
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
    .current_class_i (setup || (m_axi_wvalid_o && m_axi_wready_i) ? CntBusy : CntMemoryBandwidth),
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
    .may_begin_i(!halt_i && awaiting < write_limit_i),
    .busy_o     (engine_busy),
    .setup_o    (setup),
    .begun_o    (begun),
    .burst_o    (burst),
    .done_o     (done),
    .out_re_o,
    .out_index_o,
    .out_entry_i,
    .aw_valid_o (m_axi_awvalid_o),
    .aw_o       (address),
    .aw_ready_i (m_axi_awready_i),
    .w_valid_o  (m_axi_wvalid_o),
    .w_data_o   (m_axi_wdata_o),
    .w_last_o   (m_axi_wlast_o),
    .w_ready_i  (m_axi_wready_i)
  );

  assign m_axi_awid_o    = '0;
  assign m_axi_awaddr_o  = address.addr;
  assign m_axi_awlen_o   = address.len;
  assign m_axi_awsize_o  = 3'(AxiShift);
  assign m_axi_awburst_o = 2'b01;    // incrementing
  assign m_axi_awcache_o = 4'b0011;  // normal memory, not cached, bufferable
  assign m_axi_awprot_o  = 3'b000;
  assign m_axi_wstrb_o   = '1;
  assign m_axi_bready_o  = 1'b1;

  assign busy_o        = in_flight != '0;
  assign outstanding_o = begun || awaiting != '0;
  assign error_o       = answer && m_axi_bresp_i[1];

`ifndef SYNTHESIS
  // A response belongs to a burst whose beats were accepted.
  AnswerAwaited_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      answer |-> awaiting != '0);
  // The limit of outstanding bursts holds.
  Bounded_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      32'(awaiting) <= MaxOutstanding);
`endif

endmodule
