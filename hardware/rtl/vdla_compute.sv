// SPDX-License-Identifier: Apache-2.0
// The compute unit: executes GEMM, VECTOR, SYNC and the loads of micro-ops and sums; contains all
// buffers.
//
// Contract: docs/timing-contract.md, section 5. A GEMM after a GEMM, or a VECTOR after a VECTOR,
// starts as soon as the issue stage is free, with at most ComputesInFlight in flight; any other
// instruction starts when none is in flight. A GEMM or VECTOR ends ComputeDepth cycles after its
// last slot. One iteration per cycle. With VDLA_EXTENSIONS also the instructions of extensions, each
// of which is a kind of its own.

`default_nettype none

module vdla_compute
  import vdla_pkg::*, vdla_types_pkg::*, vdla_regs_pkg::*, vdla_compute_pkg::*, vdla_ext_pkg::*;
(
  input  logic                       clk_i,
  input  logic                       clk2x_i,
  input  logic                       rst_ni,
  input  logic                       halt_i,
  // The head of the command queue.
  input  logic                       cmd_valid_i,
  input  command_t                   cmd_i,
  output logic                       cmd_take_o,
  // Token queues: load is the previous unit, store the next.
  input  logic                       prev_available_i,
  output logic                       prev_pop_o,
  input  logic                       prev_room_i,
  output logic                       prev_push_o,
  input  logic                       next_available_i,
  output logic                       next_pop_o,
  input  logic                       next_room_i,
  output logic                       next_push_o,
  // The read channel.
  input  logic [ReadLatencyBits-1:0] read_latency_i,
  output logic                       burst_valid_o,
  output burst_t                     burst_o,
  input  logic                       burst_grant_i,
  input  logic                       beat_valid_i,
  input  beat_t                      beat_data_i,
  input  logic                       beat_last_i,
  // Load's writes into inp, wgt and scl; store's reads of out.
  input  logic                       load_write_valid_i,
  input  buffer_write_t              load_write_i,
  input  logic                       out_re_i,
  input  logic [OutFieldBits-1:0]    out_index_i,
  output logic [OutEntryBits-1:0]    out_entry_o,
  // The state of the unit.
  output logic                       busy_o,
  output logic                       ended_o,
  output counter_e                   class_o,
  output logic                       tentative_o
);

  localparam int unsigned LevelBits = $clog2(ComputesInFlight + 1);

  vector_t              command;  // the head of all formats is the same
  tokens_t              tokens;
  logic                 is_load, is_looped;
  logic [LevelBits-1:0] in_flight;

  assign command = vector_t'(cmd_i.word);
  assign tokens = '{
    push_next: command.push_next,
    push_prev: command.push_prev,
    pop_next: command.pop_next,
    pop_prev: command.pop_prev
  };
  assign is_load = command.opcode == OpLoad;
`ifdef VDLA_EXTENSIONS
  assign is_looped = command.opcode inside {OpGemm, OpVector, OpExtension};
`else
  assign is_looped = command.opcode inside {OpGemm, OpVector};
`endif

  // --- which instruction may start

`ifdef VDLA_EXTENSIONS
  logic     is_extension, same_extension;
`endif
  opcode_e  previous_q;
  logic     follows, allow;
  logic     issues, issued, loads, loaded, requesting;
  counter_e current_class, covered_class;
  logic     covered;

  // After an instruction of another kind none may be in flight; the issue stage is then free as
  // well.
`ifdef VDLA_EXTENSIONS
  assign follows = is_looped && command.opcode == previous_q && same_extension;
`else
  assign follows = is_looped && command.opcode == previous_q;
`endif
  assign allow = in_flight == '0
              || (follows && !issues && in_flight < LevelBits'(ComputesInFlight));

  always_ff @(posedge clk_i) begin
    if (!rst_ni) previous_q <= OpSync;
    else if (cmd_take_o) previous_q <= command.opcode;
  end

`ifdef VDLA_EXTENSIONS
  // The next instruction of the same extension starts when the last result is on its way.
  logic extension_issues_q, sequences;

  assign is_extension = command.opcode == OpExtension;
  assign issues = sequences || extension_issues_q && !issued;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) extension_issues_q <= 1'b0;
    else if (cmd_take_o) extension_issues_q <= is_extension;
    else if (issued) extension_issues_q <= 1'b0;
  end

  if (PlugIns > 1) begin : gen_extensions
    ext_number_t number_q;

    always_ff @(posedge clk_i) begin
      if (cmd_take_o && is_extension) number_q <= ext_number(cmd_i.word);
    end
    assign same_extension = !is_extension || ext_number(cmd_i.word) == number_q;
  end else begin : gen_one_extension
    assign same_extension = 1'b1;
  end

`endif
  // --- completion: of a GEMM or VECTOR a fixed time after its last slot

  logic [ComputeDepth-1:0] completes_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) completes_q <= '0;
    else completes_q <= {completes_q[ComputeDepth-2:0], issued};
  end

  assign current_class = requesting ? CntMemoryBandwidth : CntBusy;

  vdla_unit_control #(
    .InFlight(ComputesInFlight),
    .Held    (CntBusy),
    .PopPrev (CntWaitLoadToCompute),
    .PopNext (CntWaitStoreToCompute),
    .PushPrev(CntWaitComputeToLoad),
    .PushNext(CntWaitComputeToStore)
  ) u_control (
    .clk_i,
    .rst_ni,
    .halt_i,
    .cmd_valid_i,
    .cmd_tokens_i    (tokens),
    .cmd_sync_i      (command.opcode == OpSync),
    .cmd_take_o,
    .prev_available_i,
    .next_available_i,
    .prev_pop_o,
    .next_pop_o,
    .prev_room_i,
    .next_room_i,
    .prev_push_o,
    .next_push_o,
    .allow_i         (allow),
    .complete_i      (completes_q[ComputeDepth-1] || loaded),
    .in_flight_o     (in_flight),
    .ended_o,
    .current_i       (issues || loads),
    .current_class_i (current_class),
    .current_waits_i (1'b0),
    .covered_i       (covered),
    .covered_class_i (covered_class),
    .class_o,
    .tentative_o
  );

  assign busy_o = in_flight != '0;

  // --- loads of micro-ops and sums: one at a time, with no other instruction in flight

  logic          write_valid;
  buffer_write_t write;

  vdla_load_engine u_load (
    .clk_i,
    .rst_ni,
    .start_i        (cmd_take_o && is_load),
    .command_i      (cmd_i),
    .alone_i        (1'b1),
    .busy_o         (loads),
    .requesting_o   (requesting),
    .padding_waits_o(),
    .burst_valid_o,
    .burst_o,
    .burst_grant_i,
    .beat_valid_i,
    .beat_data_i,
    .write_valid_o  (write_valid),
    .write_o        (write),
    .complete_o     (loaded)
  );

  vdla_read_monitor u_monitor (
    .clk_i,
    .rst_ni,
    .latency_i(read_latency_i),
    .grant_i  (burst_grant_i),
    .beat_i   (beat_valid_i),
    .last_i   (beat_last_i),
    .covered_o(covered),
    .class_o  (covered_class)
  );

  // --- GEMM and VECTOR

  logic                    advance, uop_re;
  logic [UopIndexBits-1:0] uop_index;
  uop_t                    uop;
`ifdef VDLA_EXTENSIONS
  slot_valid_t             valid, slot_valid;
  slot_t                   slot, sequenced;
  logic                    sequenced_last, waits, enters;
  ext_cycles_t             cycles;
  ext_latency_t            latency;
  ext_step_t               step;
  ext_pass_t               pass;
`else
  slot_valid_t             valid;
  slot_t                   slot;
`endif

  vdla_uop_buffer u_uop (
    .clk_i,
    .rst_ni,
    .write_valid_i(write_valid),
    .write_i      (write),
    .re_i         (uop_re),
    .advance_i    (advance),
    .index_i      (uop_index),
    .uop_o        (uop)
  );

  vdla_sequencer u_sequencer (
    .clk_i,
    .rst_ni,
    .start_i    (cmd_take_o && is_looped),
    .command_i  (command),
`ifdef VDLA_EXTENSIONS
    .word_i     (cmd_i.word),
    .waits_i    (waits),
    .enters_o   (enters),
    .cycles_o   (cycles),
    .latency_o  (latency),
    .step_o     (step),
    .busy_o     (sequences),
    .last_o     (sequenced_last),
`else
    .busy_o     (issues),
    .last_o     (issued),
`endif
    .advance_o  (advance),
    .uop_re_o   (uop_re),
    .uop_index_o(uop_index),
    .uop_i      (uop),
`ifdef VDLA_EXTENSIONS
    .valid_o    (slot_valid),
    .slot_o     (sequenced)
  );

  vdla_ext_steps u_steps (
    .clk_i,
    .rst_ni,
    .enters_i (enters),
    .cycles_i (cycles),
    .latency_i(latency),
    .step_i   (step),
    .valid_i  (slot_valid),
    .slot_i   (sequenced),
    .last_i   (sequenced_last),
    .waits_o  (waits),
    .valid_o  (valid),
    .slot_o   (slot),
    .last_o   (issued),
    .pass_o   (pass)
`else
    .valid_o    (valid),
    .slot_o     (slot)
`endif
  );

  vdla_pipeline u_pipeline (
    .clk_i,
    .clk2x_i,
    .rst_ni,
    .valid_i          (valid),
    .slot_i           (slot),
`ifdef VDLA_EXTENSIONS
    .pass_i           (pass),
`endif
    .load_write_valid_i,
    .load_write_i,
    .acc_write_valid_i(write_valid),
    .acc_write_i      (write),
    .out_re_i,
    .out_index_i,
    .out_entry_o
  );

`ifndef SYNTHESIS
  // A load of the compute unit is alone, so its accesses never conflict with those of a GEMM or
  // VECTOR.
  LoadIsAlone_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      loads |-> 32'(in_flight) == 1 && !issues);
  // The pipeline is empty when an instruction that drains it starts.
  DrainIsDone_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      cmd_take_o && !follows |-> completes_q == '0 && !issues && !loads);
`endif

endmodule

`default_nettype wire
