// SPDX-License-Identifier: Apache-2.0
// The types that the stages of the compute unit exchange.

`default_nettype none

package vdla_compute_pkg;
  import vdla_pkg::*;
  import vdla_types_pkg::*;
  import vdla_ext_pkg::*;

  // A package has more parameters than a design uses.
  /* verilator lint_off UNUSEDPARAM */
  // Cycles from a slot's arrival (u + 1) to the read of the accumulator (R), two before the product
  // and the sums of the GEMM core, and from there to the write of the output buffer.
  parameter int unsigned ReadDelay = AccStage - 3;
  parameter int unsigned OutDelay = 12;
  /* verilator lint_on UNUSEDPARAM */

  // The source of the ALU's result.
  typedef enum logic [2:0] {
    PickSum = 3'd0,
    PickShift = 3'd1,
    PickOperand = 3'd2,
    PickMin = 3'd3,
    PickMax = 3'd4,
    PickClip = 3'd5
  } alu_pick_e;

  // The controls of the ALU: sum = (keep ? old : 0) +/- (multiply ? (factor_x ? x : old) * b : b).
  // With pick other than PickSum nothing is multiplied.
  typedef struct packed {
    alu_pick_e pick;
    logic keep;
    logic subtract;
    logic multiply;
    logic factor_x;
    logic left;
  } alu_control_t;

  // One pass through the pipeline: an iteration, or with `hold` the first of the two passes of an
  // iteration that reads two entries of one half of the accumulator. The valid bits are separate
  // (slot_valid_t), since only they are reset.
  typedef struct packed {
    logic vector;
    logic second;  // x was read by the previous pass
    logic reads_acc;  // the old entry is read
    logic reads_src;  // x is read from the accumulator
    logic [AccFieldBits-1:0] acc;
    logic [SrcFieldBits-1:0] src;
    logic [WgtFieldBits-1:0] wgt;
    logic [SclFieldBits-1:0] scl;
    logic [OutFieldBits-1:0] out_shift;  // from acc to the index in the output buffer
    alu_control_t alu;
    source_e source;
    operand_e operand;
    logic signed [15:0] imm;
    emit_e emit;
    logic signed [OutBits-1:0] zero_point;
    logic signed [OutBits-1:0] clip_lo;
    logic signed [OutBits-1:0] clip_hi;
  } slot_t;

  typedef struct packed {
    logic execute;  // the ALU works and the entry is written
    logic hold;  // only x is read
  } slot_valid_t;

  // A step of an extension, for its datapath.
  typedef struct packed {
    ext_number_t number;
    logic begins;  // a sum
    ext_own_t own;
  } ext_step_t;

  // The indices of a step, as rows of private states.
  typedef struct packed {
    logic [AccFieldBits-1:0] acc;
    logic [SrcFieldBits-1:0] src;
    logic [WgtFieldBits-1:0] wgt;
  } ext_rows_t;

  // What a pass of an extension does besides its slot: a step that reads its operands, the result
  // of one that is due, or both.
  typedef struct packed {
    logic reads;
    ext_step_t step;
    logic old;  // the entry is read for the datapath
    logic sum;  // src is read from the accumulator
    logic from_sum;  // src is in the accumulator
    logic second;  // src was read by the previous pass
    logic writes;
    logic fed_back;  // the result is of a datapath that reads the accumulator
    logic stores;  // the result is an entry of the input buffer
  } ext_pass_t;

  // The partial products of a product: low + (middle + other) * 2**17.
  typedef struct packed {
    logic [31:0] low;
    logic [14:0] middle;
    logic [14:0] other;
  } product_t;

  // The source of an entry: a half of the memory, or the result of three or four slots before.
  typedef enum logic [1:0] {
    FromLowHalf = 2'd0,
    FromHighHalf = 2'd1,
    FromResult = 2'd2,
    FromResultBefore = 2'd3
  } entry_from_e;

  // The second operand.
  typedef enum logic [1:0] {
    SecondSum = 2'd0,  // of the GEMM core
    SecondX = 2'd1,
    SecondResult = 2'd2,  // x, the result of two slots before
    SecondOther = 2'd3  // weights or immediate
  } second_e;

  // The first factor of a product.
  typedef enum logic [1:0] {
    FactorOld = 2'd0,
    FactorX = 2'd1,
    FactorResult = 2'd2  // either, the result of two slots before
  } factor_e;

  // The controls of all lanes of the accumulator in the three stages before a result: fetch,
  // product and ALU.
  typedef struct packed {
    entry_from_e old_from;
    entry_from_e x_from;
    logic x_is_input;
    logic x_is_kept;  // for the second pass
    logic by_weights;
  } lane_fetch_t;

  typedef struct packed {
    logic old_is_result;  // of two slots before
    factor_e factor;
    second_e second;
  } lane_product_t;

  typedef struct packed {
    logic old_is_result;  // of the slot before
    logic second_is_result;
    alu_control_t alu;
  } lane_execute_t;

  // The controls of an operation; a micro-op that starts a sum ignores the old entry.
  function automatic alu_control_t alu_control(vector_op_e op, logic start);
    alu_control_t control;
    control = '{pick: PickSum, keep: 1'b1, default: '0};
    case (op)
      VecAdd: ;
      VecSub: control.subtract = 1'b1;
      VecMul: begin
        control.keep = 1'b0;
        control.multiply = !start;
      end
      VecMin: control.pick = PickMin;
      VecMax: control.pick = PickMax;
      VecShl: begin
        control.pick = PickShift;
        control.left = 1'b1;
      end
      VecShr: control.pick = PickShift;
      VecClip: control.pick = PickClip;
      VecMac: begin
        control.keep = !start;
        control.multiply = 1'b1;
        control.factor_x = 1'b1;
      end
      default: control.pick = PickOperand;
    endcase
    control.subtract = control.pick inside {PickMin, PickMax, PickClip} || control.subtract;
    if (start && op != VecMac) control.pick = PickOperand;
    return control;
  endfunction

endpackage

`default_nettype wire
