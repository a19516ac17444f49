// SPDX-License-Identifier: Apache-2.0
// Checks that a word is a valid instruction and selects the unit that executes it. Combinational.
//
// Accepts exactly the words that the encoder produces (docs/isa.md): known opcode, known values of
// enumerations, 0 in unused bits, and the rules of the format.

`default_nettype none

module vdla_check
  import vdla_pkg::*;
  import vdla_types_pkg::*;
  import vdla_ext_pkg::*;
(
  input  instr_t word_i,  // of an extension, straightened (vdla_ext_pkg)
  output logic   valid_o,
  output unit_e  unit_o   // of a valid word
);

  // --- the word as each format sees it

  load_t   load;
  store_t  store;
  gemm_t   looped;  // the first fields of a VECTOR are those of a GEMM
  vector_t vector;
  sync_t   sync;

  assign load   = load_t'(word_i);
  assign store  = store_t'(word_i);
  assign looped = gemm_t'(word_i);
  assign vector = vector_t'(word_i);
  assign sync   = sync_t'(word_i);

  // --- unused bits are 0

  // The unused bits are those above the topmost field: a format without unused bits has no field
  // `reserved`.
  function automatic instr_t down_from(instr_t word);
    instr_t mask;
    mask = word;
    for (int unsigned bit_index = InstrBits - 1; bit_index > 0; bit_index--) begin
      if (mask[bit_index]) mask[bit_index-1] = 1'b1;
    end
    return mask;
  endfunction

  function automatic instr_t load_bits();
    load_t top;
    top = load_t'(instr_t'(0));
    top.pad_value = '1;
    return down_from(instr_t'(top));
  endfunction

  function automatic instr_t store_bits();
    store_t top;
    top = store_t'(instr_t'(0));
    top.y_stride = '1;
    return down_from(instr_t'(top));
  endfunction

  function automatic instr_t gemm_bits();
    gemm_t top;
    top = gemm_t'(instr_t'(0));
    top.clip_hi = '1;
    return down_from(instr_t'(top));
  endfunction

  function automatic instr_t vector_bits();
    vector_t top;
    top = vector_t'(instr_t'(0));
    top.imm = '1;
    return down_from(instr_t'(top));
  endfunction

  function automatic instr_t sync_bits();
    instr_t top;
    top = '0;
    top[$bits(tokens_t)+$bits(opcode_e)+$bits(unit_e)-1] = 1'b1;
    return down_from(top);
  endfunction

  localparam instr_t LoadBits = load_bits();
  localparam instr_t StoreBits = store_bits();
  localparam instr_t GemmBits = gemm_bits();
  localparam instr_t VectorBits = vector_bits();
  localparam instr_t SyncBits = sync_bits();

  // --- tokens: load has no previous unit, store no next one

  logic tokens_of_load, tokens_of_store, tokens_of_unit;

  assign tokens_of_load  = !sync.pop_prev && !sync.push_prev;
  assign tokens_of_store = !sync.pop_next && !sync.push_next;

  always_comb begin
    unique case (unit_o)
      UnitLoad:    tokens_of_unit = tokens_of_load;
      UnitStore:   tokens_of_unit = tokens_of_store;
      UnitCompute: tokens_of_unit = 1'b1;
      default:     tokens_of_unit = 1'b0;
    endcase
  end

  // --- LOAD

  localparam int unsigned SignBits = 33 - InpBits;  // of a pad value, the sign and above

  logic to_acc, to_known, paddable, padding, data, pad_fits, has_rows, has_columns, load_valid;

  assign to_acc      = load.buffer == BufAcc;
  assign to_known    = load.buffer inside {BufInp, BufWgt, BufScl, BufUop, BufAcc};
  assign paddable    = load.buffer == BufInp || to_acc;
  assign padding     = |{load.y_before, load.y_after, load.x_before, load.x_after};
  assign data        = |load.y_size && |load.x_size;
  assign pad_fits    = ~|load.pad_value[31-:SignBits] || &load.pad_value[31-:SignBits];
  assign has_rows    = |{load.y_before, load.y_size, load.y_after};
  assign has_columns = |{load.x_before, load.x_size, load.x_after};

  assign load_valid = to_known && has_rows && has_columns && |load.z_size
      && (to_acc || !load.widen)
      && (paddable || !padding)
      && (padding || load.pad_value == '0)
      && (to_acc || pad_fits)
      && (data || ~|{load.dram, load.z_stride, load.y_stride})
      && (word_i & ~LoadBits) == '0;

  // --- STORE

  logic store_valid;

  assign store_valid = |store.z_size && |store.y_size && |store.x_size
      && (word_i & ~StoreBits) == '0;

  // --- GEMM, and the fields that VECTOR shares with it

  logic emit_known, has_uops, has_loops, requantises, emits, clips, looped_valid, gemm_valid;

  if (HasStage) begin : gen_emit_known
    assign emit_known = looped.emit inside {EmitNone, EmitRequant, EmitRaw, EmitStage};
  end else begin : gen_emit_known
    assign emit_known = looped.emit inside {EmitNone, EmitRequant, EmitRaw};
  end
  assign has_uops    = looped.uop_end > looped.uop_begin;
  assign has_loops   = |looped.loop0 && |looped.loop1;
  if (HasStage) begin : gen_requantises
    assign requantises = looped.emit inside {EmitRequant, EmitStage};
  end else begin : gen_requantises
    assign requantises = looped.emit == EmitRequant;
  end
  assign emits       = looped.emit != EmitNone;
  assign clips       = looped.clip_lo <= looped.clip_hi;

  assign looped_valid = emit_known && has_uops && has_loops && clips
      && (emits || looped.out == '0)
      && (requantises || ~|{looped.scl, looped.scl0, looped.scl1,
                            looped.zero_point, looped.clip_lo, looped.clip_hi});

  assign gemm_valid = looped_valid && (word_i & ~GemmBits) == '0;

  // --- VECTOR

  logic op_known, operand_known, reads_source, reads_weights, reads_immediate, vector_valid;

  assign op_known        = vector.op <= VecMac;
  assign operand_known   = vector.operand inside {OperandSrc, OperandWgt, OperandImm};
  assign reads_source    = vector.operand == OperandSrc || vector.op == VecMac;
  assign reads_weights   = vector.operand == OperandWgt;
  assign reads_immediate = vector.operand == OperandImm;

  assign vector_valid = looped_valid && op_known && operand_known
      && (reads_source || vector.source == SourceAcc)
      && (reads_source || ~|{vector.src, vector.src0, vector.src1})
      && (reads_weights || ~|{vector.wgt, vector.wgt0, vector.wgt1})
      && (reads_immediate || vector.imm == '0)
      && (word_i & ~VectorBits) == '0;

  // --- SYNC

  logic sync_valid;

  assign sync_valid = sync.unit inside {UnitLoad, UnitCompute, UnitStore}
      && (word_i & ~SyncBits) == '0;

  // --- the verdict

  logic format_valid;

  always_comb begin
    unit_o       = UnitCompute;
    format_valid = 1'b0;
    unique case (sync.opcode)
      OpLoad: begin
        unit_o       = load.buffer inside {BufUop, BufAcc} ? UnitCompute : UnitLoad;
        format_valid = load_valid;
      end
      OpStore: begin
        unit_o       = UnitStore;
        format_valid = store_valid;
      end
      OpGemm:   format_valid = gemm_valid;
      OpVector: format_valid = vector_valid;
      OpSync: begin
        unit_o       = sync.unit;
        format_valid = sync_valid;
      end
      default:  format_valid = 1'b0;
    endcase
  end

  // The instruction of an extension has none of these formats.
  if (HasExtensions) begin : gen_extension
    logic extension_valid;

    assign extension_valid = sync.opcode == OpExtension && looped_valid && ext_valid(word_i);
    assign valid_o = (format_valid || extension_valid) && tokens_of_unit;
  end else begin : gen_no_extension
    assign valid_o = format_valid && tokens_of_unit;
  end

  // Fields without a rule are not used.
  logic unused_fields;
  assign unused_fields = ^{load, store, looped, vector, sync};

endmodule

`default_nettype wire
