// The path of a slot through buffers, GEMM core, accumulator and requantiser; contains all buffers
// but that of micro-ops.
//
// Contract: a slot arrives in cycle u + 1. The operands of a GEMM, the accumulator and the operands
// of a VECTOR are read so that all operands meet in u + AccStage, a cycle before the ALU; the
// output buffer is written 10 cycles later. clk2x_i is that of vdla_gemm_core. Load's writes and
// store's reads have the contract of the buffers. One slot per cycle.

`default_nettype none

module vdla_pipeline
  import vdla_pkg::*, vdla_types_pkg::*, vdla_compute_pkg::*, vdla_gemm_pkg::*;
(
  input  logic                    clk_i,
  input  logic                    clk2x_i,
  input  logic                    rst_ni,
  input  slot_valid_t             valid_i,
  input  slot_t                   slot_i,
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
  logic [ InpEntryBits-1:0] inp_entry, inp_operand_q;
  logic [ WgtEntryBits-1:0] wgt_entry, wgt_operand_q;
  logic [InpVectorBits-1:0] inp_vector;
  logic [WgtVectorBits-1:0] wgt_vector;
  logic [     Lanes*32-1:0] sums, result;

  logic [SrcFieldBits-1:0] gemm_src;
  logic [WgtFieldBits-1:0] gemm_wgt;

  vdla_delay #(
    .Bits  (1 + SrcFieldBits + WgtFieldBits),
    .Cycles(GemmLatency - ArrayLatency)
  ) u_gemm_reads (
    .clk_i,
    .data_i({valid_i.execute && !slot_i.vector, slot_i.src, slot_i.wgt}),
    .data_o({gemm_reads, gemm_src, gemm_wgt})
  );

  assign vector_reads = executes && slot.vector;

  vdla_inp_buffer u_inp (
    .clk_i,
    .write_valid_i (load_write_valid_i),
    .write_i       (load_write_i),
    .entry_re_i    (gemm_reads),
    .entry_index_i (gemm_src),
    .vector_re_i   (vector_reads),
    .vector_index_i(slot.src),
    .entry_o       (inp_entry),
    .vector_o      (inp_vector)
  );

  vdla_wgt_buffer u_wgt (
    .clk_i,
    .write_valid_i (load_write_valid_i),
    .write_i       (load_write_i),
    .entry_re_i    (gemm_reads),
    .entry_index_i (gemm_wgt),
    .vector_re_i   (vector_reads),
    .vector_index_i(slot.wgt),
    .entry_o       (wgt_entry),
    .vector_o      (wgt_vector)
  );

  always_ff @(posedge clk_i) begin
    inp_operand_q <= inp_entry;
    wgt_operand_q <= wgt_entry;
  end

  vdla_gemm_core u_core (
    .clk_i,
    .clk2x_i,
    .rst_ni,
    .inp_i (inp_operand_q),
    .wgt_i (wgt_operand_q),
    .sums_o(sums)
  );

  // --- R + 2: the product; R + 3: the ALU; R + 4: its result

  vdla_accumulator u_accumulator (
    .clk_i,
    .rst_ni,
    .valid_i      (valid_early),
    .slot_i       (slot_early),
    .inputs_i     (inp_vector),
    .weights_i    (wgt_vector),
    .sums_i       (sums),
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
    .out_re_i,
    .out_index_i,
    .out_entry_o
  );

`ifndef SYNTHESIS
  // GEMM and VECTOR are never in the pipeline together.
  OneKind_A: assert property (@(posedge clk_i) disable iff (!rst_ni) !(gemm_reads && vector_reads));
`endif

endmodule

`default_nettype wire
