// SPDX-License-Identifier: Apache-2.0
// The loops of a GEMM, VECTOR or extension: reads the micro-ops and issues the pipeline's slots.
//
// Contract: start_i is in cycle S. The micro-op of the first iteration is read in S + 1 and arrives
// in S + 3, in which it is added to the indices; the first slot is valid in S + 4, IssueDelay
// cycles after the read. An iteration that reads two entries of one half of the accumulator, or
// multiplies what the slot before it writes, takes two slots and holds up those behind it. last_o:
// the last slot of an instruction. busy_o: S < t < F, where in F the last micro-op of a GEMM is
// read, or last_o is set for a VECTOR; the next instruction may start in F. One slot per cycle. Of
// an extension, the slots are what vdla_ext_steps makes the pipeline's from, when it is due.

`default_nettype none

module vdla_sequencer
  import vdla_pkg::*, vdla_types_pkg::*, vdla_compute_pkg::*, vdla_ext_pkg::*;
(
  input  logic                    clk_i,
  input  logic                    rst_ni,
  input  logic                    start_i,
  // verilator lint_off UNUSEDSIGNAL
  input  vector_t                 command_i,  // fields that a GEMM lacks are 0
  // verilator lint_on UNUSEDSIGNAL
`ifdef VDLA_EXTENSIONS
  input  instr_t                  word_i,     // of an extension, the same
  input  logic                    waits_i,    // the slot is a step that takes more cycles
  output logic                    enters_o,   // a step is the slot of the next cycle
  output ext_cycles_t             cycles_o,   // of that step
  output ext_latency_t            latency_o,  // of its result
  output ext_step_t               step_o,     // of the slot
`endif
  output logic                    busy_o,
  output logic                    last_o,
  output logic                    advance_o,  // all stages move
  output logic                    uop_re_o,
  output logic [UopIndexBits-1:0] uop_index_o,
  // verilator lint_off UNUSEDSIGNAL
  input  uop_t                    uop_i,
  // verilator lint_on UNUSEDSIGNAL
  output slot_valid_t             valid_o,
  output slot_t                   slot_o
);

  typedef logic [UopIndexBits-1:0] uop_index_t;
  typedef logic [AccIndexBits-1:0] index_t;
  typedef logic [LoopFieldBits-1:0] loop_t;

  // What all slots of an instruction have in common.
  typedef struct packed {
    logic vector;
    logic init;
    logic reads_src;
    emit_e emit;
    vector_op_e op;
    source_e source;
    operand_e operand;
    logic signed [15:0] imm;
    logic signed [OutBits-1:0] zero_point;
    logic signed [OutBits-1:0] clip_lo;
    logic signed [OutBits-1:0] clip_hi;
    logic [OutFieldBits-1:0] out_shift;
  } common_t;

  // An iteration on its way to its slot, but for its micro-op.
  typedef struct packed {
    common_t common;
    logic last;
    logic [AccFieldBits-1:0] acc;
    logic [SrcFieldBits-1:0] src;
    logic [WgtFieldBits-1:0] wgt;
    logic [SclFieldBits-1:0] scl;
  } iteration_t;

  // What the loops need.
  typedef struct packed {
    logic [AccFieldBits-1:0] acc0, acc1;
    logic [SrcFieldBits-1:0] src0, src1;
    logic [WgtFieldBits-1:0] wgt0, wgt1;
    logic [SclFieldBits-1:0] scl0, scl1;
    uop_index_t uop_begin;
    uop_index_t uop_before_last;
    logic one_uop;
    loop_t loop1;
    logic one_inner;
  } loops_t;

  // --- read: the micro-op's address, the loops' indices

  // The head of the command queue is loaded in all cycles in which an instruction could start, so
  // that a start, which is known late, only sets a valid bit.
  logic       advance, load, step, next;
  logic       reading_q;
  loops_t     loops_q;
  common_t    common_q;
  uop_index_t uop_index_q;
  loop_t      inner_q, outer_q;
  logic       one_uop, one_inner, one_outer;
  logic       last_uop_q, last_inner_q, last_outer_q, last_read_q;
  iteration_t read;

  assign load = !reading_q || advance && last_read_q;
  assign step = reading_q && advance;
  assign next = step && last_uop_q;
  assign advance_o = advance;
  assign uop_re_o = step;
  assign uop_index_o = uop_index_q;
  assign read.common = common_q;
  assign read.last = last_read_q;

  always_ff @(posedge clk_i) begin
    if (load) begin
      common_q <= '{
        vector: command_i.opcode == OpVector,
        init: command_i.init,
        reads_src: command_i.opcode == OpVector && command_i.source == SourceAcc
            && (command_i.operand == OperandSrc || command_i.op == VecMac),
        emit: command_i.emit,
        op: command_i.op,
        source: command_i.source,
        operand: command_i.operand,
        imm: command_i.imm,
        zero_point: command_i.zero_point,
        clip_lo: command_i.clip_lo,
        clip_hi: command_i.clip_hi,
        out_shift: command_i.out - OutFieldBits'(command_i.acc)
      };
      loops_q <= '{
        acc0: command_i.acc0,
        acc1: command_i.acc1,
        src0: command_i.src0,
        src1: command_i.src1,
        wgt0: command_i.wgt0,
        wgt1: command_i.wgt1,
        scl0: command_i.scl0,
        scl1: command_i.scl1,
        uop_begin: uop_index_t'(command_i.uop_begin),
        uop_before_last: uop_index_t'(command_i.uop_end - UopFieldBits'(2)),
        one_uop: one_uop,
        loop1: command_i.loop1,
        one_inner: one_inner
      };
      uop_index_q <= uop_index_t'(command_i.uop_begin);
      inner_q <= command_i.loop1;
      outer_q <= command_i.loop0;
    end else if (step) begin
      uop_index_q <= last_uop_q ? loops_q.uop_begin : uop_index_q + 1'b1;
      if (last_uop_q) inner_q <= last_inner_q ? loops_q.loop1 : inner_q - 1'b1;
      if (last_uop_q && last_inner_q) outer_q <= outer_q - 1'b1;
    end
  end

  // Whether the next read is the last of each loop, and of the instruction: known a cycle ahead, so
  // that the next instruction can start in the cycle of the last read.
  logic last_uop_d, last_inner_d, last_outer_d;

  assign one_uop = command_i.uop_end - command_i.uop_begin == UopFieldBits'(1);
  assign one_inner = command_i.loop1 == loop_t'(1);
  assign one_outer = command_i.loop0 == loop_t'(1);

  always_comb begin
    last_uop_d = last_uop_q ? loops_q.one_uop : uop_index_q == loops_q.uop_before_last;
    last_inner_d = last_inner_q;
    last_outer_d = last_outer_q;
    if (last_uop_q) begin
      last_inner_d = last_inner_q ? loops_q.one_inner : inner_q == loop_t'(2);
      if (last_inner_q) last_outer_d = outer_q == loop_t'(2);
    end
    if (load) begin
      last_uop_d = one_uop;
      last_inner_d = one_inner;
      last_outer_d = one_outer;
    end
  end

  always_ff @(posedge clk_i) begin
    if (load || step) begin
      last_uop_q <= last_uop_d;
      last_inner_q <= last_inner_d;
      last_outer_q <= last_outer_d;
      last_read_q <= last_uop_d && last_inner_d && last_outer_d;
    end
  end

  vdla_index #(
    .Bits(AccFieldBits)
  ) u_acc (
    .clk_i,
    .load_i      (load),
    .base_i      (command_i.acc),
    .next_i      (next),
    .outer_i     (last_inner_q),
    .step_outer_i(loops_q.acc0),
    .step_inner_i(loops_q.acc1),
    .index_o     (read.acc)
  );

  vdla_index #(
    .Bits(SrcFieldBits)
  ) u_src (
    .clk_i,
    .load_i      (load),
    .base_i      (command_i.src),
    .next_i      (next),
    .outer_i     (last_inner_q),
    .step_outer_i(loops_q.src0),
    .step_inner_i(loops_q.src1),
    .index_o     (read.src)
  );

  vdla_index #(
    .Bits(WgtFieldBits)
  ) u_wgt (
    .clk_i,
    .load_i      (load),
    .base_i      (command_i.wgt),
    .next_i      (next),
    .outer_i     (last_inner_q),
    .step_outer_i(loops_q.wgt0),
    .step_inner_i(loops_q.wgt1),
    .index_o     (read.wgt)
  );

  vdla_index #(
    .Bits(SclFieldBits)
  ) u_scl (
    .clk_i,
    .load_i      (load),
    .base_i      (command_i.scl),
    .next_i      (next),
    .outer_i     (last_inner_q),
    .step_outer_i(loops_q.scl0),
    .step_inner_i(loops_q.scl1),
    .index_o     (read.scl)
  );

  // --- the micro-op arrives

  logic       fetching_q, adding_q;
  iteration_t fetch_q, add_q;

  always_ff @(posedge clk_i) begin
    if (advance) begin
      fetch_q <= read;
      add_q <= fetch_q;
    end
  end

`ifdef VDLA_EXTENSIONS
  // --- the extension of an iteration, beside its fields in `common`

  typedef struct packed {
    logic active;
    ext_kind_t kind;
    ext_step_t step;
    ext_cycles_t cycles;
    ext_latency_t latency;
  } extension_t;

  extension_t read_extension_q, fetch_extension_q, extension_q;

  always_ff @(posedge clk_i) begin
    if (load) begin
      read_extension_q <= '{
        active: command_i.opcode == OpExtension,
        kind: ext_kind(ext_number(word_i)),
        step: '{number: ext_number(word_i), begins: 1'b0, own: ext_own(word_i)},
        cycles: ext_cycles(word_i),
        latency: ext_latency(word_i)
      };
    end
    if (advance) begin
      fetch_extension_q <= read_extension_q;
      extension_q <= fetch_extension_q;
      step_o <= '{
        number: extension_q.step.number, begins: add_q.common.init && uop_i.first, own: extension_q.step.own
      };
    end
  end

  assign enters_o = advance && adding_q && extension_q.active;
  assign cycles_o = extension_q.cycles;
  assign latency_o = extension_q.latency;

`endif
  // --- add: the slot

  slot_t   slot, slot_q;
  common_t common;
  logic    begins, conflict;  // the iteration ignores the old entry; it reads one half twice
  logic    last_q, second_q;

  assign common = add_q.common;
  assign begins = common.init && uop_i.first;

  always_comb begin
    slot.vector = common.vector;
    slot.second = 1'b0;
    slot.reads_acc = !begins && !(common.vector && common.op == VecMov);
    slot.reads_src = common.reads_src;
    slot.acc = add_q.acc + uop_i.acc;
    slot.src = add_q.src + uop_i.src;
    slot.wgt = add_q.wgt + uop_i.wgt;
    slot.scl = add_q.scl;
    slot.out_shift = common.out_shift;
    slot.alu = alu_control(common.op, begins);  // VecAdd in a GEMM
    slot.source = common.source;
    slot.operand = common.operand;
    slot.imm = common.imm;
    slot.emit = uop_i.last ? common.emit : EmitNone;
    slot.zero_point = common.zero_point;
    slot.clip_lo = common.clip_lo;
    slot.clip_hi = common.clip_hi;
`ifdef VDLA_EXTENSIONS
    // The slot that writes the result of a step; its operands are read by another pass.
    if (extension_q.active) begin
      slot.vector = extension_q.kind.reads_old || extension_q.kind.reads_sum;
      slot.reads_acc = extension_q.kind.accumulates && !begins;
      slot.alu = alu_control(extension_q.kind.op, begins);
      slot.source = SourceAcc;
      slot.operand = OperandSrc;
    end
`endif
  end

  assign conflict = slot.reads_acc && slot.reads_src
      && slot.acc[AccIndexBits-1] == slot.src[AccIndexBits-1];

  // A product whose factor or second operand is written by the slot directly before: the first of
  // two slots puts a cycle between them.
  logic dependent, two_slots;

  assign dependent = slot.alu.multiply && valid_o.execute
      && (!slot.alu.factor_x && index_t'(slot.acc) == index_t'(slot_q.acc)
          || slot.reads_src && index_t'(slot.src) == index_t'(slot_q.acc));
  assign two_slots = conflict || dependent;

  always_ff @(posedge clk_i) begin
    if (advance) begin
      slot_q <= slot;
      last_q <= add_q.last;
    end
  end

  always_comb begin
    slot_o = slot_q;
    slot_o.second = second_q;
  end

  // --- progress

  logic vector_q;  // a VECTOR has slots to issue

  // Registers alone decide whether the stages move, as this enables all of them.
`ifdef VDLA_EXTENSIONS
  assign advance = !valid_o.hold && !waits_i;
`else
  assign advance = !valid_o.hold;
`endif
  assign busy_o = reading_q && !last_read_q || vector_q && !last_o;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      reading_q <= 1'b0;
      fetching_q <= 1'b0;
      adding_q <= 1'b0;
      vector_q <= 1'b0;
      second_q <= 1'b0;
      last_o <= 1'b0;
      valid_o <= '0;
    end else begin
      reading_q <= start_i || reading_q && !(advance && last_read_q);
      vector_q <= start_i ? command_i.opcode == OpVector : vector_q && !last_o;
      if (advance) begin
        fetching_q <= reading_q;
        adding_q <= fetching_q;
      end
      second_q <= !advance;
      valid_o.hold <= advance && adding_q && two_slots;
      valid_o.execute <= advance ? adding_q && !two_slots : 1'b1;
      last_o <= advance ? adding_q && !two_slots && add_q.last : last_q;
    end
  end

`ifndef SYNTHESIS
  // An instruction starts when the last micro-op of the previous one is read, or later.
  StartWhenFree_A: assert property (@(posedge clk_i) disable iff (!rst_ni) start_i |-> !busy_o);
  // A start finds the instruction loaded.
  StartLoads_A: assert property (@(posedge clk_i) disable iff (!rst_ni) start_i |-> load);
  // Loops and micro-op ranges are not empty.
  StartHasWork_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      start_i |-> command_i.loop0 != '0 && command_i.loop1 != '0
          && command_i.uop_end > command_i.uop_begin);
  // The times of a GEMM do not depend on its data: only a VECTOR is held up.
  HoldIsVector_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      valid_o.hold |-> slot_o.vector);
  // A VECTOR is alone in all stages, so that the stalls of one never hold up another.
  VectorIsAlone_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      start_i && (vector_q || command_i.opcode == OpVector)
          |-> !reading_q && !fetching_q && !adding_q);
  // A GEMM starts in the cycle in which the last micro-op of the one before it is read.
  StartAtLastRead_C: cover property (@(posedge clk_i) disable iff (!rst_ni)
      start_i && reading_q);
  // GEMMs of one iteration start in successive cycles.
  StartsInARow_C: cover property (@(posedge clk_i) disable iff (!rst_ni)
      start_i && reading_q && $past(start_i));
`endif

endmodule

`default_nettype wire
