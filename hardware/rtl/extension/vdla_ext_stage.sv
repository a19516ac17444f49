// SPDX-License-Identifier: Apache-2.0
// The stage on the way out: results that go through the datapath of a unit, others beside it.
//
// Contract: what a slot emits arrives in cycle t, a result or sums, and leaves in t + StageLatency. A
// result with staged_i is replaced by stage_entry_i, which the datapath computes from result_i in
// that time. One slot per cycle; nothing overtakes.

`default_nettype none

module vdla_ext_stage
  import vdla_pkg::*, vdla_types_pkg::*, vdla_ext_pkg::*;
(
  input  logic                    clk_i,
  input  logic                    rst_ni,
  input  logic                    valid_i,
  input  logic                    raw_i,
  input  logic                    staged_i,
  input  logic [OutFieldBits-1:0] index_i,
  input  logic [OutEntryBits-1:0] result_i,
  input  logic [    Lanes*32-1:0] sums_i,
  input  logic [OutEntryBits-1:0] stage_entry_i,
  output logic                    valid_o,
  output logic                    raw_o,
  output logic [OutFieldBits-1:0] index_o,
  output logic [OutEntryBits-1:0] result_o,
  output logic [    Lanes*32-1:0] sums_o
);

  logic                    staged;
  logic [OutEntryBits-1:0] result;

  vdla_delay #(
    .Bits  (2 + OutFieldBits + OutEntryBits + Lanes * 32),
    .Cycles(StageLatency)
  ) u_beside (
    .clk_i,
    .data_i({raw_i, staged_i, index_i, result_i, sums_i}),
    .data_o({raw_o, staged, index_o, result, sums_o})
  );

  assign result_o = staged ? stage_entry_i : result;

  if (StageLatency == 0) begin : gen_at_once
    // verilator lint_off UNUSEDSIGNAL
    logic unused_reset;
    // verilator lint_on UNUSEDSIGNAL
    assign unused_reset = rst_ni;
    assign valid_o = valid_i;
  end else begin : gen_later
    logic [StageLatency-1:0] valid_q;

    always_ff @(posedge clk_i) begin
      if (!rst_ni) valid_q <= '0;
      else valid_q <= StageLatency'({valid_q, valid_i});
    end
    assign valid_o = valid_q[StageLatency-1];
  end

`ifndef SYNTHESIS
  // Sums do not go through the stage.
  StagesResults_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      valid_i && staged_i |-> !raw_i && HasStage);
  // Results that go through the stage and others follow each other without a pause.
  ThenBeside_C: cover property (@(posedge clk_i) disable iff (!rst_ni)
      $past(valid_i && staged_i) && valid_i && !staged_i);
  ThenThrough_C: cover property (@(posedge clk_i) disable iff (!rst_ni)
      $past(valid_i && !staged_i) && valid_i && staged_i);
`endif

endmodule

`default_nettype wire
