// SPDX-License-Identifier: Apache-2.0
// The accelerator: fetch, load, compute and store with their queues, an AXI4 master, an AXI4-Lite
// slave.
//
//   fetch -> command queues -> load, compute, store     instructions
//   load <-> compute <-> store                          tokens, in four queues
//   fetch, compute, load -> arbiter -> AXI reads;  store -> AXI writes
//   load -> buffers in compute -> store                 data
//
// Contract: docs/timing-contract.md to the cycle; docs/registers.md for software. irq_o is a level.
// trace_o reports the events of the cycle before to observers. m_axi addresses are in bytes; bursts never
// cross 4 KiB. rst_ni is synchronous to clk_i and low for at least two cycles. clk2x_i, which only
// an array_rate of 2 uses, has twice the frequency of clk_i and rises with it; else tie it to 0.

`default_nettype none

module vdla
  import vdla_pkg::*;
  import vdla_types_pkg::*;
  import vdla_regs_pkg::*;
#(
  parameter logic [47:0] Build = '0  // what the registers BUILD_LO and BUILD_HI show
) (
  input  logic                clk_i,
  input  logic                clk2x_i,
  input  logic                rst_ni,
  // Control registers.
  input  reg_addr_t           s_axil_awaddr_i,
  input  logic                s_axil_awvalid_i,
  output logic                s_axil_awready_o,
  input  logic [31:0]         s_axil_wdata_i,
  input  logic [3:0]          s_axil_wstrb_i,
  input  logic                s_axil_wvalid_i,
  output logic                s_axil_wready_o,
  output logic [1:0]          s_axil_bresp_o,
  output logic                s_axil_bvalid_o,
  input  logic                s_axil_bready_i,
  input  reg_addr_t           s_axil_araddr_i,
  input  logic                s_axil_arvalid_i,
  output logic                s_axil_arready_o,
  output logic [31:0]         s_axil_rdata_o,
  output logic [1:0]          s_axil_rresp_o,
  output logic                s_axil_rvalid_o,
  input  logic                s_axil_rready_i,
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
  // Interrupt and trace.
  output logic                irq_o,
  output trace_t              trace_o
);

  // --- the control port

  logic        write, write_error, read_error;
  reg_addr_t   write_addr, read_addr;
  logic [31:0] write_data, read_data;
  logic [3:0]  write_strb;

  logic        start, reset, busy, done, over;
  addr_t       base;
  logic [31:0] count;
  logic [ReadLatencyBits-1:0] read_latency;
  logic [ReadLimitBits-1:0] read_limit;
  logic [WriteLimitBits-1:0] write_limit;
  error_e      error;
  logic [31:0] error_index, dispatched;
  logic [CounterBits-1:0] cycles;
  logic [Units-1:0][31:0] started_count, ended_count;
  logic [Units-1:0][CommandLevelBits-1:0] command_level;
  logic [3:0][TokenLevelBits-1:0] token_level;
  logic [3:0]  read_select, fold_select;
  logic [Units:0][CounterBits-1:0] counter;

  // --- the core

  logic [CoreParts-1:0] core_rst_n;
  logic fetch_start, halt, run, finished, quiet, invalid, clear, fold;
  logic [Units:0] bus_error;  // fetch first
  logic [Units-1:0] started, ended;
  counter_e [Units:0] class_of;  // fetch first
  logic     [Units:0] tentative;
  logic dispatch;

  // Events are counted and traced in the cycle after.
  logic dispatch_q;
  logic [Units-1:0] started_q, ended_q;

  always_ff @(posedge clk_i) begin
    dispatch_q <= dispatch;
    started_q  <= started;
    ended_q    <= ended;
  end

  assign trace_o = '{running: run, dispatch: dispatch_q, started: started_q, ended: ended_q};

  vdla_axil u_axil (
    .clk_i,
    .rst_ni,
    .s_axil_awaddr_i,
    .s_axil_awvalid_i,
    .s_axil_awready_o,
    .s_axil_wdata_i,
    .s_axil_wstrb_i,
    .s_axil_wvalid_i,
    .s_axil_wready_o,
    .s_axil_bresp_o,
    .s_axil_bvalid_o,
    .s_axil_bready_i,
    .s_axil_araddr_i,
    .s_axil_arvalid_i,
    .s_axil_arready_o,
    .s_axil_rdata_o,
    .s_axil_rresp_o,
    .s_axil_rvalid_o,
    .s_axil_rready_i,
    .write_o      (write),
    .write_addr_o (write_addr),
    .write_data_o (write_data),
    .write_strb_o (write_strb),
    .write_error_i(write_error),
    .read_addr_o  (read_addr),
    .read_ready_i (!fold),
    .read_data_i  (read_data),
    .read_error_i (read_error)
  );

  vdla_registers #(
    .Build(Build)
  ) u_registers (
    .clk_i,
    .rst_ni,
    .write_i         (write),
    .write_addr_i    (write_addr),
    .write_data_i    (write_data),
    .write_strb_i    (write_strb),
    .write_error_o   (write_error),
    .read_addr_i     (read_addr),
    .read_data_o     (read_data),
    .read_error_o    (read_error),
    .start_o         (start),
    .reset_o         (reset),
    .base_o          (base),
    .count_o         (count),
    .read_latency_o  (read_latency),
    .read_limit_o    (read_limit),
    .write_limit_o   (write_limit),
    .busy_i          (busy),
    .done_i          (done),
    .over_i          (over),
    .error_i         (error),
    .error_index_i   (error_index),
    .cycles_i        (cycles),
    .dispatched_i    (dispatched),
    .started_i       (started_count),
    .ended_i         (ended_count),
    .commands_i      (command_level),
    .tokens_i        (token_level),
    .counter_select_o(read_select),
    .counters_i      (counter),
    .irq_o
  );

  vdla_control u_control (
    .clk_i,
    .rst_ni,
    .start_i      (start),
    .reset_i      (reset),
    .busy_o       (busy),
    .done_o       (done),
    .over_o       (over),
    .error_o      (error),
    .error_index_o(error_index),
    .cycles_o     (cycles),
    .started_o    (started_count),
    .ended_o      (ended_count),
    .core_rst_no  (core_rst_n),
    .fetch_start_o(fetch_start),
    .halt_o       (halt),
    .run_o        (run),
    .finished_i   (finished),
    .quiet_i      (quiet),
    .invalid_i    (invalid),
    .fetch_error_i(bus_error[0]),
    .unit_error_i (bus_error[Units:1]),
    .dispatched_i (dispatched),
    .started_i    (started_q),
    .ended_i      (ended_q),
    .clear_o      (clear),
    .fold_o       (fold),
    .fold_select_o(fold_select)
  );

  for (genvar u = 0; u <= Units; u++) begin : gen_counters
    vdla_counters u_counters (
      .clk_i,
      .rst_ni,
      .clear_i    (clear),
      .class_i    (class_of[u]),
      .tentative_i(tentative[u]),
      .run_i      (run),
      .fold_i     (fold),
      .select_i   (fold ? fold_select : read_select),
      .value_o    (counter[u])
    );
  end

  vdla_core u_core (
    .clk_i,
    .clk2x_i,
    .part_rst_ni  (core_rst_n),
    .start_i      (fetch_start),
    .halt_i       (halt),
    .base_i       (base),
    .count_i      (count),
    .read_latency_i(read_latency),
    .read_limit_i (read_limit),
    .write_limit_i(write_limit),
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
    .finished_o   (finished),
    .quiet_o      (quiet),
    .invalid_o    (invalid),
    .bus_error_o  (bus_error),
    .dispatched_o (dispatched),
    .commands_o   (command_level),
    .tokens_o     (token_level),
    .class_o      (class_of),
    .tentative_o  (tentative),
    .dispatch_o   (dispatch),
    .started_o    (started),
    .ended_o      (ended)
  );

endmodule

`default_nettype wire
