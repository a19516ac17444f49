// SPDX-License-Identifier: Apache-2.0
// The accumulator: a memory in two halves, each with one read and one write per cycle, and its
// lanes.
//
// Contract: a slot and its valid bits arrive in cycle R - 1. R: its entries are read. R + 1: vectors
// of the other buffers. R + 2: the GEMM core's sums; the product. R + 3: the ALU. R + 4: result_o,
// which is also written and forwarded to later slots. Factor and second operand of a product must
// not be the result of the slot directly before. Of an extension whose datapath reads the
// accumulator, the operands are at hand in R + 3 of the pass that reads; in R + 3 of the slot that
// writes, the result replaces the second operand. Load writes only while the pipeline is empty. One
// slot per cycle.

`default_nettype none

module vdla_accumulator
  import vdla_pkg::*, vdla_types_pkg::*, vdla_compute_pkg::*, vdla_ext_pkg::*;
(
  input  logic                     clk_i,
  input  logic                     rst_ni,
  input  slot_valid_t              valid_i,
  // verilator lint_off UNUSEDSIGNAL
  input  slot_t                    slot_i,
`ifdef VDLA_EXTENSIONS
  input  ext_pass_t                pass_i,
`endif
  // verilator lint_on UNUSEDSIGNAL
  input  logic [InpVectorBits-1:0] inputs_i,
  input  logic [WgtVectorBits-1:0] weights_i,
  input  logic [     Lanes*32-1:0] sums_i,
`ifdef VDLA_EXTENSIONS
  // Of datapaths that read the accumulator.
  input  logic [     Lanes*32-1:0] results_i,
  output logic [     Lanes*32-1:0] old_o,
  output logic [     Lanes*32-1:0] sum_o,
`endif
  output logic [     Lanes*32-1:0] result_o,
  input  logic                     write_valid_i,
  input  buffer_write_t            write_i
);

  localparam int unsigned Top = AccIndexBits - 1;

  typedef logic [AccIndexBits-1:0] index_t;

  // --- the slots before, by stage: at R, R + 1 (fetch), product, ALU and write

  localparam int unsigned AtRead = 0;
  localparam int unsigned AtFetch = 1;
  localparam int unsigned AtProduct = 2;
  localparam int unsigned AtAlu = 3;
  localparam int unsigned AtWrite = 4;

  logic [AtWrite:0] writes_q;  // the slot of this stage writes
  index_t index_q[AtWrite+1];

  always_ff @(posedge clk_i) begin
    if (!rst_ni) writes_q <= '0;
    else writes_q <= {writes_q[AtAlu:0], valid_i.execute};
  end

  always_ff @(posedge clk_i) begin
    index_q[AtRead] <= index_t'(slot_i.acc);
    for (int unsigned k = AtFetch; k <= AtWrite; k++) index_q[k] <= index_q[k-1];
  end

  // --- R - 1: which of them write what this one reads. A later stage's choice precedes an earlier
  // one's, so the latest result is taken.

  index_t               source;
  logic                 reads_old, reads_x;
  logic [AtAlu:AtRead]  old_written, x_written;

  assign source = index_t'(slot_i.src);
`ifdef VDLA_EXTENSIONS
  assign reads_old = valid_i.execute && slot_i.reads_acc || pass_i.old;
  assign reads_x = (valid_i.hold || valid_i.execute && !slot_i.second) && slot_i.reads_src
      || pass_i.sum;
`else
  assign reads_old = valid_i.execute && slot_i.reads_acc;
  assign reads_x = (valid_i.hold || valid_i.execute && !slot_i.second) && slot_i.reads_src;
`endif

  always_comb begin
    for (int unsigned k = AtRead; k <= AtAlu; k++) begin
      old_written[k] = writes_q[k] && index_q[k] == index_t'(slot_i.acc);
`ifdef VDLA_EXTENSIONS
      x_written[k] = writes_q[k] && index_q[k] == source
          && (slot_i.reads_src || pass_i.from_sum);
`else
      x_written[k] = writes_q[k] && index_q[k] == source && slot_i.reads_src;
`endif
    end
  end

  function automatic entry_from_e entry_from(logic top, logic last, logic older);
    if (last) return FromResult;
    if (older) return FromResultBefore;
    return top ? FromHighHalf : FromLowHalf;
  endfunction

  function automatic factor_e factor_from(logic is_x, logic old_forwarded, logic x_forwarded);
    if (is_x ? x_forwarded : old_forwarded) return FactorResult;
    return is_x ? FactorX : FactorOld;
  endfunction

  function automatic second_e second_from(logic vector, operand_e operand, logic forwarded);
    if (!vector) return SecondSum;
    if (operand != OperandSrc) return SecondOther;
    return forwarded ? SecondResult : SecondX;
  endfunction

  // --- R to R + 2: the lanes' controls, each registered once more in the lanes

  lane_fetch_t                    fetch_q;
  lane_product_t [AtFetch:AtRead] product_q;
  lane_execute_t                  execute_q[AtProduct+1];
  logic signed [15:0]             imm_q[AtFetch+1];

  always_ff @(posedge clk_i) begin
    fetch_q <= '{
      old_from: entry_from(slot_i.acc[Top], old_written[AtProduct], old_written[AtAlu]),
      x_from: entry_from(source[Top], x_written[AtProduct], x_written[AtAlu]),
      x_is_input: slot_i.source == SourceInp,
`ifdef VDLA_EXTENSIONS
      x_is_kept: slot_i.source != SourceInp && (slot_i.second || pass_i.second)
          && !x_written[AtProduct],
`else
      x_is_kept: slot_i.source != SourceInp && slot_i.second && !x_written[AtProduct],
`endif
      by_weights: slot_i.operand == OperandWgt
    };
    product_q[AtRead] <= '{
      old_is_result: old_written[AtFetch],
      factor: factor_from(slot_i.alu.factor_x, old_written[AtFetch], x_written[AtFetch]),
      second: second_from(slot_i.vector, slot_i.operand, x_written[AtFetch])
    };
    product_q[AtFetch] <= product_q[AtRead];
    execute_q[AtRead] <= '{
      old_is_result: old_written[AtRead],
      second_is_result: slot_i.vector && slot_i.operand == OperandSrc && x_written[AtRead],
      alu: slot_i.alu
    };
    for (int unsigned k = AtFetch; k <= AtProduct; k++) execute_q[k] <= execute_q[k-1];
    imm_q <= '{slot_i.imm, imm_q[AtRead]};
  end

  // --- the memory

  logic [ AccBeats-1:0] load_we;
  index_t               load_index;
  logic [AccEntryBits-1:0] load_data, write_data;
  index_t               write_index;
  logic [AccEntryBits-1:0] half[2];

  vdla_accumulator_load u_load (
    .clk_i,
    .rst_ni,
    .write_valid_i,
    .write_i,
    .we_o   (load_we),
    .index_o(load_index),
    .data_o (load_data)
  );

  assign write_index = writes_q[AtWrite] ? index_q[AtWrite] : load_index;
  assign write_data = writes_q[AtWrite] ? result_o : load_data;

  for (genvar h = 0; h < 2; h++) begin : gen_half
    logic old_here, x_here, reads_q;
    logic [Top-1:0] address_q;

    assign old_here = reads_old && slot_i.acc[Top] == 1'(h);
    assign x_here = reads_x && source[Top] == 1'(h);

    always_ff @(posedge clk_i) begin
      reads_q <= old_here || x_here;
      address_q <= old_here ? slot_i.acc[Top-1:0] : source[Top-1:0];
    end

    vdla_ram #(
      .Depth    (AccDepth / 2),
      .LaneBits (AxiBits),
      .Lanes    (AccBeats),
      .ManyWords(1'b1)
    ) u_ram (
      .clk_i,
      .rst_ni,
      .we_i   ((load_we | {AccBeats{writes_q[AtWrite]}}) & {AccBeats{write_index[Top] == 1'(h)}}),
      .waddr_i(write_index[Top-1:0]),
      .wdata_i(write_data),
      .re_i   (reads_q),
      .raddr_i(address_q),
      .rdata_o(half[h])
    );
`ifndef SYNTHESIS
    // An iteration that reads two entries of one half takes two passes.
    OneRead_A: assert property (@(posedge clk_i) disable iff (!rst_ni) !(old_here && x_here));
`endif
  end

`ifdef VDLA_EXTENSIONS
  // The result of a datapath that reads the accumulator takes the place of the second operand.
  logic fed_back;

  if (FeedsBack) begin : gen_fed_back
    logic fed_back_q[AtProduct+1];

    always_ff @(posedge clk_i) begin
      fed_back_q[AtRead] <= pass_i.fed_back;
      for (int unsigned k = AtFetch; k <= AtProduct; k++) fed_back_q[k] <= fed_back_q[k-1];
    end
    assign fed_back = fed_back_q[AtProduct];
  end else begin : gen_not_fed_back
    assign fed_back = 1'b0;
  end

`endif
  for (genvar lane = 0; lane < Lanes; lane++) begin : gen_lane
    vdla_accumulator_lane u_lane (
      .clk_i,
      .fetch_i    (fetch_q),
      .low_half_i (half[0][lane*32+:32]),
      .high_half_i(half[1][lane*32+:32]),
      .input_i    (inputs_i[lane*InpBits+:InpBits]),
      .weight_i   (weights_i[(lane%BlockOut)*WgtBits+:WgtBits]),
      .imm_i      (imm_q[AtFetch]),
      .product_i  (product_q[AtFetch]),
      .sum_i      (sums_i[lane*32+:32]),
      .execute_i  (execute_q[AtProduct]),
`ifdef VDLA_EXTENSIONS
      .fed_back_i (fed_back),
      .fed_i      (results_i[lane*32+:32]),
      .old_o      (old_o[lane*32+:32]),
      .x_o        (sum_o[lane*32+:32]),
`endif
      .result_o   (result_o[lane*32+:32])
    );
  end

`ifndef SYNTHESIS
  // A load writes only while no result is written.
  OneWriter_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      !(writes_q[AtWrite] && |load_we));
  // The second pass of an iteration follows the first directly.
  SecondFollows_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      valid_i.hold |=> valid_i.execute && slot_i.second);
  // The factor and the second operand of a product were not written by the slot directly before.
  NoDependentProduct_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      valid_i.execute && slot_i.alu.multiply
      |-> !x_written[AtRead] && (slot_i.alu.factor_x || !old_written[AtRead]));

  // Every forwarding, and a product right after a slot that writes its sum.
  for (genvar k = AtRead; k <= AtAlu; k++) begin : gen_cover
    OldForwarded_C: cover property (@(posedge clk_i) disable iff (!rst_ni)
        reads_old && old_written[k]);
    XForwarded_C: cover property (@(posedge clk_i) disable iff (!rst_ni)
        reads_x && x_written[k]);
  end
  SumFollows_C: cover property (@(posedge clk_i) disable iff (!rst_ni)
      reads_old && slot_i.alu.multiply && old_written[AtRead]);
`endif

endmodule

`default_nettype wire
