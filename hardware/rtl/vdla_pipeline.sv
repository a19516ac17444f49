// SPDX-License-Identifier: Apache-2.0
// The path of a slot through buffers, GEMM core, accumulator and requantiser; contains all buffers
// but that of micro-ops.
//
// Contract: a slot arrives in cycle u + 1. The operands of a GEMM, the accumulator and the operands
// of a VECTOR are read so that all operands meet in u + AccStage, a cycle before the ALU; the
// output buffer is written 10 cycles later. clk2x_i is that of vdla_gemm_core. Load's writes and
// store's reads have the contract of the buffers. One slot per cycle.

`default_nettype none

module vdla_pipeline
  import vdla_pkg::*, vdla_types_pkg::*, vdla_compute_pkg::*, vdla_gemm_pkg::*, vdla_ext_pkg::*;
(
  input  logic                    clk_i,
  input  logic                    clk2x_i,
  input  logic                    rst_ni,
  input  slot_valid_t             valid_i,
  input  slot_t                   slot_i,
`ifdef VDLA_EXTENSIONS
  // verilator lint_off UNUSEDSIGNAL
  input  ext_pass_t               pass_i,  // of an extension
  // verilator lint_on UNUSEDSIGNAL
`endif
  // Writes to inp, wgt and scl by the load unit, to acc by this unit's loads.
  input  logic                    load_write_valid_i,
  input  buffer_write_t           load_write_i,
  input  logic                    acc_write_valid_i,
  input  buffer_write_t           acc_write_i,
  // The output buffer's reads by store.
  input  logic                    out_re_i,
  input  logic [OutFieldBits-1:0] out_index_i,
  output logic [OutEntryBits-1:0] out_entry_o
);

  // --- the slot in R - 1, when the accumulator's addresses are chosen, and in R, when memories are
  // read

  slot_valid_t valid_q[ReadDelay];
  slot_valid_t valid_early;
  slot_t       slot_early, slot;
  logic        executes;

  vdla_delay #(
    .Bits  ($bits(slot_t)),
    .Cycles(ReadDelay - 1)
  ) u_slot (
    .clk_i,
    .data_i(slot_i),
    .data_o(slot_early)
  );

  always_ff @(posedge clk_i) begin
    slot <= slot_early;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      for (int unsigned k = 0; k < ReadDelay; k++) valid_q[k] <= '0;
    end else begin
      valid_q[0] <= valid_i;
      for (int unsigned k = 1; k < ReadDelay; k++) valid_q[k] <= valid_q[k-1];
    end
  end
  assign valid_early = valid_q[ReadDelay-2];
  assign executes = valid_q[ReadDelay-1].execute;

  // --- operands: of a GEMM early, for the array; of a VECTOR with the accumulator

  logic                     gemm_reads, vector_reads;
`ifdef VDLA_EXTENSIONS
  logic [ InpGroupBits-1:0] inp_entry, inp_operand_q;
  logic [ WgtGroupBits-1:0] wgt_entry, wgt_operand_q;
`else
  logic [ InpEntryBits-1:0] inp_entry, inp_operand_q;
  logic [ WgtEntryBits-1:0] wgt_entry, wgt_operand_q;
`endif
  logic [InpVectorBits-1:0] inp_vector;
  logic [WgtVectorBits-1:0] wgt_vector;
`ifdef VDLA_EXTENSIONS
  logic [     Lanes*32-1:0] products, sums, result;
`else
  logic [     Lanes*32-1:0] sums, result;
`endif

  logic [SrcFieldBits-1:0] gemm_src;
  logic [WgtFieldBits-1:0] gemm_wgt;

  vdla_delay #(
    .Bits  (1 + SrcFieldBits + WgtFieldBits),
    .Cycles(GemmLatency - ArrayLatency)
  ) u_gemm_reads (
    .clk_i,
`ifdef VDLA_EXTENSIONS
    .data_i({valid_i.execute && !slot_i.vector && !pass_i.writes, slot_i.src, slot_i.wgt}),
`else
    .data_i({valid_i.execute && !slot_i.vector, slot_i.src, slot_i.wgt}),
`endif
    .data_o({gemm_reads, gemm_src, gemm_wgt})
  );

`ifdef VDLA_EXTENSIONS
  // --- a pass of an extension in R - 1 and in R, and what its step reads

  // verilator lint_off UNUSEDSIGNAL
  ext_pass_t pass_early, pass;
  ext_kind_t kind;
  // verilator lint_on UNUSEDSIGNAL
  ext_pass_t pass_q[ReadDelay];
  logic      step_inp_entry, step_inp_vector, step_wgt_entry, step_wgt_vector;
  // verilator lint_off UNUSEDSIGNAL
  logic [3:0]              store_q;
  logic [AccFieldBits-1:0] store_index;
  logic [InpEntryBits-1:0] store_entry_q;
  // verilator lint_on UNUSEDSIGNAL

  always_ff @(posedge clk_i) begin
    pass_q[0] <= pass_i;
    for (int unsigned k = 1; k < ReadDelay; k++) pass_q[k] <= pass_q[k-1];
    if (!rst_ni) begin
      for (int unsigned k = 0; k < ReadDelay; k++) begin
        pass_q[k].reads <= 1'b0;
        pass_q[k].old <= 1'b0;
        pass_q[k].sum <= 1'b0;
        pass_q[k].writes <= 1'b0;
        pass_q[k].stores <= 1'b0;
      end
    end
  end

  assign pass_early = pass_q[ReadDelay-2];
  assign pass = pass_q[ReadDelay-1];
  assign kind = ext_kind(pass.step.number);
  assign step_inp_entry = pass.reads && kind.reads_inp && !kind.src_vector;
  assign step_inp_vector = pass.reads && kind.reads_inp && kind.src_vector;
  assign step_wgt_entry = pass.reads && kind.reads_wgt && !kind.wgt_vector;
  assign step_wgt_vector = pass.reads && kind.reads_wgt && kind.wgt_vector;

  assign vector_reads = executes && slot.vector && !pass.writes;
`else
  assign vector_reads = executes && slot.vector;
`endif

  vdla_inp_buffer u_inp (
    .clk_i,
    .rst_ni,
    .write_valid_i (load_write_valid_i),
    .write_i       (load_write_i),
`ifdef VDLA_EXTENSIONS
    .store_i       (store_q[3]),
    .store_index_i (store_index),
    .store_entry_i (store_entry_q),
    .entry_re_i    (gemm_reads || step_inp_entry),
    .entry_index_i (step_inp_entry ? slot.src << kind.src_scale : gemm_src),
    .vector_re_i   (vector_reads || step_inp_vector),
`else
    .entry_re_i    (gemm_reads),
    .entry_index_i (gemm_src),
    .vector_re_i   (vector_reads),
`endif
    .vector_index_i(slot.src),
    .entry_o       (inp_entry),
    .vector_o      (inp_vector)
  );

  vdla_wgt_buffer u_wgt (
    .clk_i,
    .rst_ni,
    .write_valid_i (load_write_valid_i),
    .write_i       (load_write_i),
`ifdef VDLA_EXTENSIONS
    .entry_re_i    (gemm_reads || step_wgt_entry),
    .entry_index_i (step_wgt_entry ? slot.wgt << kind.wgt_scale : gemm_wgt),
    .vector_re_i   (vector_reads || step_wgt_vector),
`else
    .entry_re_i    (gemm_reads),
    .entry_index_i (gemm_wgt),
    .vector_re_i   (vector_reads),
`endif
    .vector_index_i(slot.wgt),
    .entry_o       (wgt_entry),
    .vector_o      (wgt_vector)
  );

  always_ff @(posedge clk_i) begin
    inp_operand_q <= inp_entry;
    wgt_operand_q <= wgt_entry;
  end

`ifdef VDLA_EXTENSIONS
  // verilator lint_off UNUSEDSIGNAL
  logic                                        array_valid;
  logic [Batch*HalfGroups*BlockIn*InpBits-1:0] array_inp;
  logic [              Batch*WgtEntryBits-1:0] array_wgt;
  logic [                        Lanes*32-1:0] array_sums;
  // verilator lint_on UNUSEDSIGNAL

  if (ArrayIsLent) begin : gen_lent
    vdla_ext_array u_array (
      .clk_i,
      .clk2x_i,
      .rst_ni,
      .inp_entry_i (inp_entry[InpEntryBits-1:0]),
      .wgt_entry_i (wgt_entry[WgtEntryBits-1:0]),
      .sums_o      (products),
      .drive_i     (array_valid),
      .drive_inp_i (array_inp),
      .drive_wgt_i (array_wgt),
      .drive_sums_o(array_sums)
    );
  end else begin : gen_alone
    vdla_gemm_core u_core (
      .clk_i,
      .clk2x_i,
      .rst_ni,
      .inp_i (inp_operand_q[InpEntryBits-1:0]),
      .wgt_i (wgt_operand_q[WgtEntryBits-1:0]),
      .sums_o(products)
    );

    assign array_sums = '0;
  end
`else
  vdla_gemm_core u_core (
    .clk_i,
    .clk2x_i,
    .rst_ni,
    .inp_i (inp_operand_q),
    .wgt_i (wgt_operand_q),
    .sums_o(sums)
  );
`endif

`ifdef VDLA_EXTENSIONS
  // --- R + 2: a step of an extension meets its operands, those of the accumulator in R + 3

  logic                     reads_q[2];
  logic                     sums_are_steps_q[3];
  ext_step_t                step_q[2];
  ext_rows_t                rows_q[2];
  logic [InpVectorBits-1:0] inp_vector_q;
  logic [WgtVectorBits-1:0] wgt_vector_q;
  logic [     Lanes*32-1:0] step_sums, step_old, step_sum, step_result;
  logic [ InpEntryBits-1:0] step_inputs;
  // verilator lint_off UNUSEDSIGNAL
  logic                     stage_valid;
  logic [ OutEntryBits-1:0] stage_entry, staged_entry;
  // verilator lint_on UNUSEDSIGNAL

  always_ff @(posedge clk_i) begin
    step_q <= '{pass.step, step_q[0]};
    rows_q <= '{'{acc: slot.acc, src: slot.src, wgt: slot.wgt}, rows_q[0]};
    sums_are_steps_q <= '{
      pass_early.writes && !pass_early.fed_back, sums_are_steps_q[0], sums_are_steps_q[1]
    };
    inp_vector_q <= inp_vector;
    wgt_vector_q <= wgt_vector;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) reads_q <= '{default: 1'b0};
    else reads_q <= '{pass.reads, reads_q[0]};
  end

  vdla_ext_datapaths u_datapaths (
    .clk_i,
    .rst_ni,
    .valid_i      (reads_q[1]),
    .step_i       (step_q[1]),
    .rows_i       (rows_q[1]),
    .inp_entry_i  (inp_operand_q),
    .inp_vector_i (inp_vector_q),
    .wgt_entry_i  (wgt_operand_q),
    .wgt_vector_i (wgt_vector_q),
    .old_i        (step_old),
    .sum_i        (step_sum),
    .sums_o       (step_sums),
    .results_o    (step_result),
    .inputs_o     (step_inputs),
    .array_valid_o(array_valid),
    .array_inp_o  (array_inp),
    .array_wgt_o  (array_wgt),
    .array_sums_i (array_sums),
    .stage_valid_i(stage_valid),
    .stage_entry_i(stage_entry),
    .stage_entry_o(staged_entry)
  );

  assign sums = sums_are_steps_q[2] ? step_sums : products;

  // --- R + 3: a result that is an entry of the input buffer; R + 4: its write

  always_ff @(posedge clk_i) begin
    if (!rst_ni) store_q <= '0;
    else store_q <= {store_q[2:0], pass.stores};
  end

  always_ff @(posedge clk_i) begin
    store_entry_q <= step_inputs;
  end

  vdla_delay #(
    .Bits  (AccFieldBits),
    .Cycles(4)
  ) u_store_index (
    .clk_i,
    .data_i(slot.acc),
    .data_o(store_index)
  );

`endif
  // --- R + 2: the product; R + 3: the ALU; R + 4: its result

  vdla_accumulator u_accumulator (
    .clk_i,
    .rst_ni,
    .valid_i      (valid_early),
    .slot_i       (slot_early),
    .inputs_i     (inp_vector),
    .weights_i    (wgt_vector),
    .sums_i       (sums),
`ifdef VDLA_EXTENSIONS
    .pass_i       (pass_early),
    .results_i    (step_result),
    .old_o        (step_old),
    .sum_o        (step_sum),
`endif
    .result_o     (result),
    .write_valid_i(acc_write_valid_i),
    .write_i      (acc_write_i)
  );

  // --- R + 1 to R + OutDelay: the output

  vdla_emit u_emit (
    .clk_i,
    .rst_ni,
    .valid_i           (executes),
    .slot_i            (slot),
    .sums_i            (result),
    .load_write_valid_i,
    .load_write_i,
`ifdef VDLA_EXTENSIONS
    .stage_valid_o     (stage_valid),
    .stage_entry_o     (stage_entry),
    .stage_entry_i     (staged_entry),
`else
    .stage_valid_o     (),
    .stage_entry_o     (),
    .stage_entry_i     ('0),
`endif
    .out_re_i,
    .out_index_i,
    .out_entry_o
  );

`ifndef SYNTHESIS
  // What reads the buffers of inputs and weights is never in the pipeline together.
`ifdef VDLA_EXTENSIONS
  OneKind_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      32'(gemm_reads) + 32'(vector_reads) + 32'(pass.reads) <= 1);
  // A datapath has the array while no operands of a GEMM are on their way to it.
  ArrayIsFree_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      $past(gemm_reads) |-> !array_valid);
`else
  OneKind_A: assert property (@(posedge clk_i) disable iff (!rst_ni) !(gemm_reads && vector_reads));
`endif
`endif

endmodule

`default_nettype wire
