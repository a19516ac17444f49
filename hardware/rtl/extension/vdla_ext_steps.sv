// SPDX-License-Identifier: Apache-2.0
// The steps of an extension's instruction: spaces its iterations, starts its datapath and, when the
// result is due, sends the pass that writes it.
//
// Contract: the slots are the sequencer's. A step is the slot from the cycle after enters_i on, for
// cycles_i cycles; waits_o, a register, holds up those behind it. In its last cycle its operands are
// read, two entries of the accumulator in the last two cycles (pass_o). Its slot passes latency_i
// cycles later, with last_o if it is the instruction's last, and writes if the instruction has sums;
// the next instruction's first step enters behind that. Slots of others pass unchanged.

`default_nettype none

module vdla_ext_steps
  import vdla_pkg::*, vdla_ext_pkg::*, vdla_compute_pkg::*;
(
  input  logic         clk_i,
  input  logic         rst_ni,
  input  logic         enters_i,
  input  ext_cycles_t  cycles_i,
  input  ext_latency_t latency_i,
  output logic         waits_o,
  // The slot of the sequencer, and its step if it is one.
  input  ext_step_t    step_i,
  input  slot_valid_t  valid_i,
  input  slot_t        slot_i,
  input  logic         last_i,
  // What passes the pipeline.
  output slot_valid_t  valid_o,
  output slot_t        slot_o,
  output logic         last_o,
  output ext_pass_t    pass_o
);

  // --- the cycles of an iteration

  ext_cycles_t  rest_q;     // cycles after this one
  ext_latency_t latency_q;  // of the instruction that has steps here
  logic         waits_q, reads_q;

  always_ff @(posedge clk_i) begin
    if (enters_i) rest_q <= cycles_i - 1'b1;
    else rest_q <= rest_q - 1'b1;
    if (enters_i) latency_q <= latency_i;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      waits_q <= 1'b0;
      reads_q <= 1'b0;
    end else if (enters_i) begin
      waits_q <= cycles_i != ext_cycles_t'(1);
      reads_q <= cycles_i == ext_cycles_t'(1);
    end else begin
      waits_q <= waits_q && rest_q != ext_cycles_t'(1);
      reads_q <= waits_q && rest_q == ext_cycles_t'(1);
    end
  end

  assign waits_o = waits_q;

  // --- the pass that writes

  logic      due, due_last, writes;
  // verilator lint_off UNUSEDSIGNAL
  ext_kind_t kind, writing_kind;
  slot_t     writing;  // its operands are not read
  // verilator lint_on UNUSEDSIGNAL

  assign kind = ext_kind(step_i.number);

  if (MostLatency == 0) begin : gen_at_once
    assign due = reads_q;
    assign due_last = reads_q && last_i;
    assign writing = slot_i;
    assign writing_kind = kind;
  end else begin : gen_later
    logic        valid_q[MostLatency+1];
    logic        last_q[MostLatency+1];
    slot_t       slot_q[MostLatency+1];
    ext_number_t number_q[MostLatency+1];
    logic        is_due[MostLatency+1];

    // Only what is the latency of an instruction is compared.
    for (genvar k = 0; k <= MostLatency; k++) begin : gen_latency
      if (Latencies[k]) begin : gen_some
        assign is_due[k] = valid_q[k] && 32'(latency_q) == k;
      end else begin : gen_none
        assign is_due[k] = 1'b0;
      end
    end

    always_comb begin
      valid_q[0] = reads_q;
      last_q[0] = last_i;
      slot_q[0] = slot_i;
      number_q[0] = step_i.number;
    end

    for (genvar k = 1; k <= MostLatency; k++) begin : gen_delay
      always_ff @(posedge clk_i) begin
        last_q[k] <= last_q[k-1];
        slot_q[k] <= slot_q[k-1];
        number_q[k] <= number_q[k-1];
      end

      always_ff @(posedge clk_i) begin
        if (!rst_ni) valid_q[k] <= 1'b0;
        else valid_q[k] <= valid_q[k-1] && !is_due[k-1];
      end
    end

    // One instruction at a time has steps, so at most one is due. A step that was due is gone: the
    // next instruction may have a longer latency.
    always_comb begin
      due = 1'b0;
      due_last = 1'b0;
      writing = slot_i;
      writing_kind = kind;
      for (int unsigned k = 0; k <= MostLatency; k++) begin
        if (is_due[k]) begin
          due = 1'b1;
          due_last = last_q[k];
          writing = slot_q[k];
          writing_kind = ext_kind(number_q[k]);
        end
      end
    end
  end

  logic is_step, stores;

  assign writes = due && writing_kind.writes_sums;
  assign stores = due && writing_kind.writes_inputs;
  assign is_step = waits_q || reads_q;
  assign valid_o = '{execute: writes || valid_i.execute && !is_step, hold: valid_i.hold};
  assign last_o = due_last || last_i && !is_step;

  // A pass that writes and one that only reads src may share a cycle. Behind the last step the slot of
  // the sequencer may be none, with any fields.
  always_comb begin
    slot_o = slot_i;
    slot_o.second = slot_i.second && !is_step;
    if (writes) begin
      slot_o.vector = writing.vector;
      slot_o.reads_acc = writing.reads_acc;
      slot_o.reads_src = 1'b0;
      slot_o.acc = writing.acc;
      slot_o.scl = writing.scl;
      slot_o.out_shift = writing.out_shift;
      slot_o.alu = writing.alu;
      slot_o.emit = writing.emit;
      slot_o.zero_point = writing.zero_point;
      slot_o.clip_lo = writing.clip_lo;
      slot_o.clip_hi = writing.clip_hi;
    end else if (stores) begin
      slot_o.acc = writing.acc;
    end
  end

  // --- the pass that reads: of two entries of the accumulator, src comes first

  logic two_entries, reads_first;

  assign two_entries = kind.reads_sum
      && (kind.reads_old || kind.accumulates && latency_q == '0);
  assign reads_first = waits_q && rest_q == ext_cycles_t'(1) && two_entries;

  always_comb begin
    pass_o.reads = reads_q;
    pass_o.step = step_i;
    pass_o.old = reads_q && kind.reads_old;
    pass_o.sum = reads_first || reads_q && kind.reads_sum && !two_entries;
    pass_o.from_sum = (reads_first || reads_q) && kind.reads_sum;
    pass_o.second = reads_q && two_entries;
    pass_o.writes = writes;
    pass_o.stores = stores;
    pass_o.fed_back = writes && (writing_kind.reads_old || writing_kind.reads_sum);
  end

`ifndef SYNTHESIS
  int unsigned pending_q;  // steps whose results are to come

  always_ff @(posedge clk_i) begin
    if (!rst_ni) pending_q <= 0;
    else pending_q <= pending_q + 32'(enters_i) - 32'(due);
  end

  // An iteration enters when the one before it has read its operands.
  EntersWhenFree_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      enters_i |-> !waits_q && cycles_i != '0);
  // A step that reads the accumulator follows the result of the one before it.
  FollowsResult_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      reads_q && writes && latency_q != '0 |-> !kind.reads_old && !kind.reads_sum);
  // An instruction enters behind the last result of the one before it.
  LatencyIsKept_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      enters_i && latency_i != latency_q |-> pending_q == 0);
  // Steps follow each other without a pause, and wait for each other.
  InARow_C: cover property (@(posedge clk_i) disable iff (!rst_ni) reads_q && $past(reads_q));
  Waits_C: cover property (@(posedge clk_i) disable iff (!rst_ni) waits_q);
`endif

endmodule

`default_nettype wire
