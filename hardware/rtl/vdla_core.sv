// SPDX-License-Identifier: Apache-2.0
// The core: fetch, load, compute and store, their command and token queues, the arbiter of reads.
//
// Contract: docs/timing-contract.md to the cycle. start_i is a pulse FetchStartDelay
// cycles before cycle 0, after a reset; the set-up is stable from then on. finished_o is high from the cycle after the
// last end and dispatch. halt_i: no dispatch, start, end or new AXI transaction, some cycles later;
// quiet_o: no AXI transaction is outstanding.

`default_nettype none

module vdla_core
  import vdla_pkg::*;
  import vdla_types_pkg::*;
  import vdla_regs_pkg::*;
(
  input  logic                clk_i,
  input  logic                clk2x_i,
  input  logic [CoreParts-1:0] part_rst_ni,
  input  logic                start_i,
  input  logic                halt_i,
  // The set-up.
  input  addr_t               base_i,
  input  logic [31:0]         count_i,
  input  logic [ReadLatencyBits-1:0] read_latency_i,
  input  logic [ReadLimitBits-1:0] read_limit_i,
  input  logic [WriteLimitBits-1:0] write_limit_i,
  // Memory, reads.
  output logic [AxiPorts-1:0][1:0]  m_axi_arid_o,
  output addr_t [AxiPorts-1:0]      m_axi_araddr_o,
  output logic [AxiPorts-1:0][7:0]  m_axi_arlen_o,
  output logic [AxiPorts-1:0][2:0]  m_axi_arsize_o,
  output logic [AxiPorts-1:0][1:0]  m_axi_arburst_o,
  output logic [AxiPorts-1:0][3:0]  m_axi_arcache_o,
  output logic [AxiPorts-1:0][2:0]  m_axi_arprot_o,
  output logic [AxiPorts-1:0]       m_axi_arvalid_o,
  input  logic [AxiPorts-1:0]       m_axi_arready_i,
  input  logic [AxiPorts-1:0][1:0]  m_axi_rid_i,
  input  port_beat_t [AxiPorts-1:0] m_axi_rdata_i,
  input  logic [AxiPorts-1:0][1:0]  m_axi_rresp_i,
  input  logic [AxiPorts-1:0]       m_axi_rlast_i,
  input  logic [AxiPorts-1:0]       m_axi_rvalid_i,
  output logic [AxiPorts-1:0]       m_axi_rready_o,
  // Memory, writes.
  output logic [1:0]          m_axi_awid_o,
  output addr_t               m_axi_awaddr_o,
  output logic [7:0]          m_axi_awlen_o,
  output logic [2:0]          m_axi_awsize_o,
  output logic [1:0]          m_axi_awburst_o,
  output logic [3:0]          m_axi_awcache_o,
  output logic [2:0]          m_axi_awprot_o,
  output logic                m_axi_awvalid_o,
  input  logic                m_axi_awready_i,
  output port_beat_t          m_axi_wdata_o,
  output logic [PortBytes-1:0] m_axi_wstrb_o,
  output logic                m_axi_wlast_o,
  output logic                m_axi_wvalid_o,
  input  logic                m_axi_wready_i,
  input  logic [1:0]          m_axi_bid_i,
  input  logic [1:0]          m_axi_bresp_i,
  input  logic                m_axi_bvalid_i,
  output logic                m_axi_bready_o,
  // State.
  output logic                finished_o,
  output logic                quiet_o,
  output logic                invalid_o,  // the next word is an invalid instruction
  output logic [Units:0]      bus_error_o,  // fetch first
  output logic [31:0]         dispatched_o,
  output logic [Units-1:0][CommandLevelBits-1:0] commands_o,
  output logic [3:0][TokenLevelBits-1:0] tokens_o,  // in the order of their registers
  // The counter of a cycle, fetch first, and its events.
  output counter_e [Units:0]  class_o,
  output logic [Units:0]      tentative_o,
  output logic                dispatch_o,
  output logic [Units-1:0]    started_o,
  output logic [Units-1:0]    ended_o
);

  localparam int unsigned Load = 32'(UnitLoad);
  localparam int unsigned Compute = 32'(UnitCompute);
  localparam int unsigned Store = 32'(UnitStore);

  // Token queues, in the order of their registers.
  localparam int unsigned TokenQueues = 4;
  localparam int unsigned LoadToCompute = 0;
  localparam int unsigned ComputeToLoad = 1;
  localparam int unsigned ComputeToStore = 2;
  localparam int unsigned StoreToCompute = 3;

  logic     [Units-1:0] dispatch, full, valid, empty, busy;
  command_t             command;
  command_t [Units-1:0] head;
  logic     [TokenQueues-1:0] push, pop, room, available;

  burst_t [Requesters-1:0] burst;
  logic   [Requesters-1:0] burst_valid, burst_grant, beat_valid;
  beat_t                   beat_data;
  logic                    beat_last, beat_error;
  logic                    all_dispatched, reads_outstanding, writes_outstanding, store_error;

  logic          load_write_valid;
  buffer_write_t load_write;
  logic          out_re;
  logic [OutFieldBits-1:0] out_index;
  logic [OutEntryBits-1:0] out_entry;

  assign finished_o     = all_dispatched && (&empty) && busy == '0;
  assign quiet_o        = !reads_outstanding && !writes_outstanding;
  assign dispatch_o     = |dispatch;
  assign tentative_o[0] = 1'b0;
  assign bus_error_o    = {
    store_error,
    beat_error && beat_valid[ReqCompute],
    beat_error && beat_valid[ReqLoad],
    beat_error && beat_valid[ReqFetch]
  };

  // --- queues

  for (genvar u = 0; u < Units; u++) begin : gen_commands
    vdla_command_queue #(
      .T    (command_t),
      .Depth(CommandDepth)
    ) u_commands (
      .clk_i,
      .rst_ni (part_rst_ni[PartFetch]),
      .push_i (dispatch[u]),
      .data_i (command),
      .full_o (full[u]),
      .head_o (head[u]),
      .valid_o(valid[u]),
      .pop_i  (started_o[u]),
      .empty_o(empty[u]),
      .level_o(commands_o[u])
    );
  end

  for (genvar q = 0; q < TokenQueues; q++) begin : gen_tokens
    vdla_counter_queue #(
      .Depth(TokenDepth)
    ) u_tokens (
      .clk_i,
      .rst_ni (part_rst_ni[PartFetch]),
      .push_i     (push[q]),
      .pop_i      (pop[q]),
      .available_o(available[q]),
      .room_o     (room[q]),
      .level_o    (tokens_o[q])
    );
  end

  // --- memory

  vdla_fetch u_fetch (
    .clk_i,
    .rst_ni(part_rst_ni[PartFetch]),
    .start_i,
    .halt_i,
    .base_i,
    .count_i,
    .read_latency_i,
    .burst_valid_o   (burst_valid[ReqFetch]),
    .burst_o         (burst[ReqFetch]),
    .burst_grant_i   (burst_grant[ReqFetch]),
    .beat_valid_i    (beat_valid[ReqFetch]),
    .beat_data_i     (beat_data),
    .beat_last_i     (beat_last),
    .dispatch_o      (dispatch),
    .command_o       (command),
    .queue_full_i    (full),
    .all_dispatched_o(all_dispatched),
    .invalid_o,
    .dispatched_o,
    .class_o         (class_o[0])
  );

  vdla_read_arbiter u_arbiter (
    .clk_i,
    .rst_ni(part_rst_ni[PartArbiter]),
    .halt_i,
    .read_limit_i,
    .req_valid_i  (burst_valid),
    .req_burst_i  (burst),
    .req_grant_o  (burst_grant),
    .m_axi_arid_o,
    .m_axi_araddr_o,
    .m_axi_arlen_o,
    .m_axi_arsize_o,
    .m_axi_arburst_o,
    .m_axi_arcache_o,
    .m_axi_arprot_o,
    .m_axi_arvalid_o,
    .m_axi_arready_i,
    .m_axi_rid_i,
    .m_axi_rdata_i,
    .m_axi_rresp_i,
    .m_axi_rlast_i,
    .m_axi_rvalid_i,
    .m_axi_rready_o,
    .beat_valid_o (beat_valid),
    .beat_data_o  (beat_data),
    .beat_last_o  (beat_last),
    .beat_error_o (beat_error),
    .outstanding_o(reads_outstanding)
  );

  // --- units

  vdla_load u_load (
    .clk_i,
    .rst_ni(part_rst_ni[PartLoad]),
    .halt_i,
    .cmd_valid_i     (valid[Load]),
    .cmd_i           (head[Load]),
    .cmd_take_o      (started_o[Load]),
    .next_available_i(available[ComputeToLoad]),
    .next_pop_o      (pop[ComputeToLoad]),
    .next_room_i     (room[LoadToCompute]),
    .next_push_o     (push[LoadToCompute]),
    .read_latency_i,
    .burst_valid_o   (burst_valid[ReqLoad]),
    .burst_o         (burst[ReqLoad]),
    .burst_grant_i   (burst_grant[ReqLoad]),
    .beat_valid_i    (beat_valid[ReqLoad]),
    .beat_data_i     (beat_data),
    .beat_last_i     (beat_last),
    .write_valid_o   (load_write_valid),
    .write_o         (load_write),
    .busy_o          (busy[Load]),
    .ended_o         (ended_o[Load]),
    .class_o         (class_o[1+Load]),
    .tentative_o     (tentative_o[1+Load])
  );

  vdla_compute u_compute (
    .clk_i,
    .clk2x_i,
    .rst_ni(part_rst_ni[PartCompute]),
    .halt_i,
    .cmd_valid_i       (valid[Compute]),
    .cmd_i             (head[Compute]),
    .cmd_take_o        (started_o[Compute]),
    .prev_available_i  (available[LoadToCompute]),
    .prev_pop_o        (pop[LoadToCompute]),
    .prev_room_i       (room[ComputeToLoad]),
    .prev_push_o       (push[ComputeToLoad]),
    .next_available_i  (available[StoreToCompute]),
    .next_pop_o        (pop[StoreToCompute]),
    .next_room_i       (room[ComputeToStore]),
    .next_push_o       (push[ComputeToStore]),
    .read_latency_i,
    .burst_valid_o     (burst_valid[ReqCompute]),
    .burst_o           (burst[ReqCompute]),
    .burst_grant_i     (burst_grant[ReqCompute]),
    .beat_valid_i      (beat_valid[ReqCompute]),
    .beat_data_i       (beat_data),
    .beat_last_i       (beat_last),
    .load_write_valid_i(load_write_valid),
    .load_write_i      (load_write),
    .out_re_i          (out_re),
    .out_index_i       (out_index),
    .out_entry_o       (out_entry),
    .busy_o            (busy[Compute]),
    .ended_o           (ended_o[Compute]),
    .class_o           (class_o[1+Compute]),
    .tentative_o       (tentative_o[1+Compute])
  );

  vdla_store u_store (
    .clk_i,
    .rst_ni(part_rst_ni[PartStore]),
    .halt_i,
    .cmd_valid_i     (valid[Store]),
    .cmd_i           (head[Store]),
    .cmd_take_o      (started_o[Store]),
    .prev_available_i(available[ComputeToStore]),
    .prev_pop_o      (pop[ComputeToStore]),
    .prev_room_i     (room[StoreToCompute]),
    .prev_push_o     (push[StoreToCompute]),
    .out_re_o        (out_re),
    .out_index_o     (out_index),
    .out_entry_i     (out_entry),
    .write_limit_i,
    .m_axi_awid_o,
    .m_axi_awaddr_o,
    .m_axi_awlen_o,
    .m_axi_awsize_o,
    .m_axi_awburst_o,
    .m_axi_awcache_o,
    .m_axi_awprot_o,
    .m_axi_awvalid_o,
    .m_axi_awready_i,
    .m_axi_wdata_o,
    .m_axi_wstrb_o,
    .m_axi_wlast_o,
    .m_axi_wvalid_o,
    .m_axi_wready_i,
    .m_axi_bid_i,
    .m_axi_bresp_i,
    .m_axi_bvalid_i,
    .m_axi_bready_o,
    .busy_o          (busy[Store]),
    .ended_o         (ended_o[Store]),
    .outstanding_o   (writes_outstanding),
    .error_o         (store_error),
    .class_o         (class_o[1+Store]),
    .tentative_o     (tentative_o[1+Store])
  );

endmodule

`default_nettype wire
