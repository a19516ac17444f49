// SPDX-License-Identifier: Apache-2.0
// The path of finished sums, requantised or raw, from the accumulator into the output buffer.
//
// Contract: a slot arrives in cycle R, its sums in R + 4; requantisation parameters are read in R +
// 2, the output buffer is written in R + OutDelay. One slot per cycle. On a machine whose
// extensions have a stage, results leave for it in R + OutDelay, and what is emitted is written
// StageLatency cycles later.

`default_nettype none

module vdla_emit
  import vdla_pkg::*, vdla_types_pkg::*, vdla_compute_pkg::*, vdla_ext_pkg::*;
(
  input  logic                    clk_i,
  input  logic                    rst_ni,
  input  logic                    valid_i,
  // verilator lint_off UNUSEDSIGNAL
  input  slot_t                   slot_i,
  // verilator lint_on UNUSEDSIGNAL
  input  logic [    Lanes*32-1:0] sums_i,
  input  logic                    load_write_valid_i,
  input  buffer_write_t           load_write_i,
  // The stage of a unit: its result is valid StageLatency cycles after the entry.
  output logic                    stage_valid_o,
  output logic [OutEntryBits-1:0] stage_entry_o,
  // verilator lint_off UNUSEDSIGNAL
  input  logic [OutEntryBits-1:0] stage_entry_i,
  // verilator lint_on UNUSEDSIGNAL
  input  logic                    out_re_i,
  input  logic [OutFieldBits-1:0] out_index_i,
  output logic [OutEntryBits-1:0] out_entry_o
);

  // --- R + 1 and R + 2: the output index, the parameters' index

  logic [OutDelay:1]       emits_q, raw_q;
  logic [SclFieldBits-1:0] scl_q, scl_late_q;
  logic [OutFieldBits-1:0] place_q, place;
  logic [SclEntryBits-1:0] scale;
  logic [OutEntryBits-1:0] requantised;
  logic [    Lanes*32-1:0] raw;

  always_ff @(posedge clk_i) begin
    raw_q <= {raw_q[OutDelay-1:1], slot_i.emit == EmitRaw};
    scl_q <= slot_i.scl;
    scl_late_q <= scl_q;
    place_q <= OutFieldBits'(slot_i.acc) + slot_i.out_shift;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) emits_q <= '0;
    else emits_q <= {emits_q[OutDelay-1:1], valid_i && slot_i.emit != EmitNone};
  end

  vdla_scl_buffer u_scl (
    .clk_i,
    .rst_ni,
    .write_valid_i(load_write_valid_i),
    .write_i      (load_write_i),
    .re_i         (emits_q[2]),
    .index_i      (scl_late_q),
    .entry_o      (scale)
  );

  // --- R + 3 to R + OutDelay: the zero point is added two cycles before the output is written, the
  // bounds are applied in the cycle before

  logic signed [OutBits-1:0] zero_point, clip_lo, clip_hi;

  vdla_delay #(
    .Bits  (OutBits),
    .Cycles(OutDelay - 2)
  ) u_zero_point (
    .clk_i,
    .data_i(slot_i.zero_point),
    .data_o(zero_point)
  );

  vdla_delay #(
    .Bits  (2 * OutBits),
    .Cycles(OutDelay - 1)
  ) u_clips (
    .clk_i,
    .data_i({slot_i.clip_lo, slot_i.clip_hi}),
    .data_o({clip_lo, clip_hi})
  );

  vdla_delay #(
    .Bits  (OutFieldBits),
    .Cycles(OutDelay - 1)
  ) u_place (
    .clk_i,
    .data_i(place_q),
    .data_o(place)
  );

  vdla_requantise u_requantise (
    .clk_i,
    .scale_i     (scale),
    .raw_i       (raw_q[3]),
    .sums_i,
    .zero_point_i(zero_point),
    .clip_lo_i   (clip_lo),
    .clip_hi_i   (clip_hi),
    .result_o    (requantised),
    .raw_o       (raw)
  );

  // --- R + OutDelay to R + OutDelay + StageLatency: the stage, if there is one

  logic                    write, write_raw;
  logic [OutFieldBits-1:0] write_place;
  logic [OutEntryBits-1:0] write_result;
  logic [    Lanes*32-1:0] write_sums;

  if (HasStage) begin : gen_stage
    logic staged;

    vdla_delay #(
      .Bits  (1),
      .Cycles(OutDelay)
    ) u_staged (
      .clk_i,
      .data_i(slot_i.emit == EmitStage),
      .data_o(staged)
    );

    assign stage_valid_o = emits_q[OutDelay] && staged;
    assign stage_entry_o = requantised;

    vdla_ext_stage u_stage (
      .clk_i,
      .rst_ni,
      .valid_i (emits_q[OutDelay]),
      .raw_i   (raw_q[OutDelay]),
      .staged_i(staged),
      .index_i (place),
      .result_i(requantised),
      .sums_i  (raw),
      .stage_entry_i,
      .valid_o (write),
      .raw_o   (write_raw),
      .index_o (write_place),
      .result_o(write_result),
      .sums_o  (write_sums)
    );
  end else begin : gen_no_stage
    assign stage_valid_o = 1'b0;
    assign stage_entry_o = '0;
    assign write = emits_q[OutDelay];
    assign write_raw = raw_q[OutDelay];
    assign write_place = place;
    assign write_result = requantised;
    assign write_sums = raw;
  end

  vdla_out_buffer u_out (
    .clk_i,
    .rst_ni,
    .write_i   (write),
    .raw_i     (write_raw),
    .index_i   (write_place),
    .result_i  (write_result),
    .sums_i    (write_sums),
    .re_i      (out_re_i),
    .re_index_i(out_index_i),
    .entry_o   (out_entry_o)
  );

`ifndef SYNTHESIS
  // A slot emits nothing, results or sums.
  EmitIsKnown_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      valid_i |-> slot_i.emit inside {EmitNone, EmitRequant, EmitRaw} || HasStage);
  // Parameters and places are inside of their buffers: a slot of sums is several entries.
  ParametersInRange_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      emits_q[2] && !raw_q[2] |-> 32'(scl_late_q) < SclDepth);
  PlaceInRange_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      emits_q[OutDelay] |-> 32'(place) < (raw_q[OutDelay] ? OutSlots : OutDepth));
  // Sums and results follow each other without a pause.
  RawAfterResult_C: cover property (@(posedge clk_i) disable iff (!rst_ni)
      emits_q[2:1] == '1 && raw_q[2:1] == 2'b01);
  ResultAfterRaw_C: cover property (@(posedge clk_i) disable iff (!rst_ni)
      emits_q[2:1] == '1 && raw_q[2:1] == 2'b10);
`endif

endmodule

`default_nettype wire
