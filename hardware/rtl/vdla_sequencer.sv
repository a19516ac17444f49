// The loops of a GEMM or VECTOR: reads the micro-ops and issues the pipeline's slots.
//
// Contract: start_i is in cycle S; the first micro-op is read in S + 1, its indices are added in S
// + 2, its slot is valid in S + 3. An iteration that reads two entries of one half of the
// accumulator takes two slots. busy_o: S < t < F; done_o: t = F - 1. One slot per cycle.

module vdla_sequencer
  import vdla_pkg::*, vdla_types_pkg::*, vdla_compute_pkg::*;
(
  input  logic                    clk_i,
  input  logic                    rst_ni,
  input  logic                    start_i,
  // verilator lint_off UNUSEDSIGNAL
  input  vector_t                 command_i,  // fields that a GEMM lacks are 0
  // verilator lint_on UNUSEDSIGNAL
  output logic                    busy_o,
  output logic                    done_o,
  output logic                    uop_re_o,
  output logic [UopIndexBits-1:0] uop_index_o,
  // verilator lint_off UNUSEDSIGNAL
  input  uop_t                    uop_i,
  // verilator lint_on UNUSEDSIGNAL
  output slot_valid_t             valid_o,
  output slot_t                   slot_o
);

  typedef logic [UopIndexBits-1:0] uop_index_t;
  typedef logic [LoopFieldBits-1:0] loop_t;

  // The constants of the instruction's slots.
  typedef struct packed {
    logic vector;
    logic init;
    emit_e emit;
    vector_op_e op;
    source_e source;
    operand_e operand;
    logic signed [15:0] imm;
    logic signed [OutBits-1:0] zero_point;
    logic signed [OutBits-1:0] clip_lo;
    logic signed [OutBits-1:0] clip_hi;
    logic [OutFieldBits-1:0] out_shift;
    logic [AccFieldBits-1:0] acc0, acc1;
    logic [SrcFieldBits-1:0] src0, src1;
    logic [WgtFieldBits-1:0] wgt0, wgt1;
    logic [SclFieldBits-1:0] scl0, scl1;
    uop_index_t uop_begin;
    uop_index_t uop_last;
    loop_t loop1;
  } command_q_t;

  command_q_t command_q;
  logic       advance;

  always_ff @(posedge clk_i) begin
    if (start_i) begin
      command_q <= '{
        vector: command_i.opcode == OpVector,
        init: command_i.init,
        emit: command_i.emit,
        op: command_i.op,
        source: command_i.source,
        operand: command_i.operand,
        imm: command_i.imm,
        zero_point: command_i.zero_point,
        clip_lo: command_i.clip_lo,
        clip_hi: command_i.clip_hi,
        out_shift: command_i.out - OutFieldBits'(command_i.acc),
        acc0: command_i.acc0,
        acc1: command_i.acc1,
        src0: command_i.src0,
        src1: command_i.src1,
        wgt0: command_i.wgt0,
        wgt1: command_i.wgt1,
        scl0: command_i.scl0,
        scl1: command_i.scl1,
        uop_begin: uop_index_t'(command_i.uop_begin),
        uop_last: uop_index_t'(command_i.uop_end - 1'b1),
        loop1: command_i.loop1
      };
    end
  end

  // --- the micro-op's address, and the loops it ends

  logic       reading_q;
  uop_index_t uop_index_q;
  loop_t      inner_q, outer_q;
  logic       ends_uops, ends_inner, ends_outer;

  assign ends_uops = uop_index_q == command_q.uop_last;
  assign ends_inner = ends_uops && inner_q == loop_t'(1);
  assign ends_outer = ends_inner && outer_q == loop_t'(1);
  assign uop_re_o = reading_q && advance;
  assign uop_index_o = uop_index_q;

  always_ff @(posedge clk_i) begin
    if (start_i) begin
      uop_index_q <= uop_index_t'(command_i.uop_begin);
      inner_q <= command_i.loop1;
      outer_q <= command_i.loop0;
    end else if (uop_re_o) begin
      uop_index_q <= ends_uops ? command_q.uop_begin : uop_index_q + 1'b1;
      if (ends_uops) inner_q <= ends_inner ? command_q.loop1 : inner_q - 1'b1;
      if (ends_inner) outer_q <= outer_q - 1'b1;
    end
  end

  // --- the micro-op's indices

  logic adding_q;
  logic ends_uops_q, ends_inner_q, ends_outer_q;
  logic next;
  logic [AccFieldBits-1:0] acc;
  logic [SrcFieldBits-1:0] src;
  logic [WgtFieldBits-1:0] wgt;
  logic [SclFieldBits-1:0] scl;

  assign next = adding_q && advance && ends_uops_q;

  always_ff @(posedge clk_i) begin
    if (uop_re_o) begin
      ends_uops_q <= ends_uops;
      ends_inner_q <= ends_inner;
      ends_outer_q <= ends_outer;
    end
  end

  vdla_index #(
    .Bits(AccFieldBits)
  ) u_acc (
    .clk_i,
    .start_i,
    .base_i      (command_i.acc),
    .next_i      (next),
    .outer_i     (ends_inner_q),
    .step_outer_i(command_q.acc0),
    .step_inner_i(command_q.acc1),
    .index_o     (acc)
  );

  vdla_index #(
    .Bits(SrcFieldBits)
  ) u_src (
    .clk_i,
    .start_i,
    .base_i      (command_i.src),
    .next_i      (next),
    .outer_i     (ends_inner_q),
    .step_outer_i(command_q.src0),
    .step_inner_i(command_q.src1),
    .index_o     (src)
  );

  vdla_index #(
    .Bits(WgtFieldBits)
  ) u_wgt (
    .clk_i,
    .start_i,
    .base_i      (command_i.wgt),
    .next_i      (next),
    .outer_i     (ends_inner_q),
    .step_outer_i(command_q.wgt0),
    .step_inner_i(command_q.wgt1),
    .index_o     (wgt)
  );

  vdla_index #(
    .Bits(SclFieldBits)
  ) u_scl (
    .clk_i,
    .start_i,
    .base_i      (command_i.scl),
    .next_i      (next),
    .outer_i     (ends_inner_q),
    .step_outer_i(command_q.scl0),
    .step_inner_i(command_q.scl1),
    .index_o     (scl)
  );

  // --- the slot

  slot_t slot;
  logic  starts, conflict, second_q;

  assign starts = command_q.init && uop_i.first;

  always_comb begin
    slot.vector = command_q.vector;
    slot.second = second_q;
    slot.reads_acc = !starts && !(command_q.vector && command_q.op == VecMov);
    slot.reads_src = command_q.vector && command_q.source == SourceAcc
        && (command_q.operand == OperandSrc || command_q.op == VecMac);
    slot.acc = acc + uop_i.acc;
    slot.src = src + uop_i.src;
    slot.wgt = wgt + uop_i.wgt;
    slot.scl = scl;
    slot.out_shift = command_q.out_shift;
    slot.alu = alu_control(command_q.op, starts);  // VecAdd in a GEMM
    slot.source = command_q.source;
    slot.operand = command_q.operand;
    slot.imm = command_q.imm;
    slot.emit = uop_i.last ? command_q.emit : EmitNone;
    slot.zero_point = command_q.zero_point;
    slot.clip_lo = command_q.clip_lo;
    slot.clip_hi = command_q.clip_hi;
  end

  assign conflict = slot.reads_acc && slot.reads_src && !second_q
      && slot.acc[AccIndexBits-1] == slot.src[AccIndexBits-1];
  assign advance = !(adding_q && conflict);
  assign done_o = adding_q && advance && ends_outer_q;

  always_ff @(posedge clk_i) begin
    slot_o <= slot;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      busy_o <= 1'b0;
      reading_q <= 1'b0;
      adding_q <= 1'b0;
      second_q <= 1'b0;
      valid_o <= '0;
    end else begin
      busy_o <= start_i || busy_o && !done_o;
      reading_q <= start_i || reading_q && !(advance && ends_outer);
      if (advance) adding_q <= reading_q;
      second_q <= !advance;
      valid_o.execute <= adding_q && advance;
      valid_o.hold <= !advance;
    end
  end

`ifndef SYNTHESIS
  // An instruction starts after the previous one has issued its last slot.
  StartWhenFree_A: assert property (@(posedge clk_i) disable iff (!rst_ni) start_i |-> !busy_o);
  // Loops and micro-op ranges are not empty.
  StartHasWork_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      start_i |-> command_i.loop0 != '0 && command_i.loop1 != '0
          && command_i.uop_end > command_i.uop_begin);
`endif

endmodule
