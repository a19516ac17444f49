// The accumulator: a memory in two halves, each with one read and one write per cycle, and its
// lanes.
//
// Contract: a slot and its valid bits arrive in cycle R, in which its entries are read. R + 1:
// vectors of the other buffers. R + 2: the GEMM core's sums; the ALU. R + 3: result_o, which is
// also written and forwarded to later slots. Load writes only while the pipeline is empty. One slot
// per cycle.

module vdla_accumulator
  import vdla_pkg::*, vdla_types_pkg::*, vdla_compute_pkg::*;
(
  input  logic                     clk_i,
  input  logic                     rst_ni,
  input  slot_valid_t              valid_i,
  // verilator lint_off UNUSEDSIGNAL
  input  slot_t                    slot_i,
  // verilator lint_on UNUSEDSIGNAL
  input  logic [InpVectorBits-1:0] inputs_i,
  input  logic [WgtVectorBits-1:0] weights_i,
  input  logic [     Lanes*32-1:0] sums_i,
  output logic [     Lanes*32-1:0] result_o,
  input  logic                     write_valid_i,
  input  buffer_write_t            write_i
);

  localparam int unsigned Top = AccIndexBits - 1;

  typedef logic [AccIndexBits-1:0] index_t;

  // --- R: addresses, and which earlier slots write what this one reads

  index_t source;
  logic   reads_old, reads_x, old_is_result, x_is_result;
  logic   at_fetch_q, at_alu_q, at_write_q;  // a slot that writes is in this stage
  index_t fetch_index_q, alu_index_q, write_index_q;

  assign source = index_t'(slot_i.src);
  assign reads_old = valid_i.execute && slot_i.reads_acc;
  assign reads_x = (valid_i.hold || valid_i.execute && !slot_i.second) && slot_i.reads_src;
  assign old_is_result = reads_old && at_fetch_q && fetch_index_q == slot_i.acc;
  assign x_is_result = reads_x && at_fetch_q && fetch_index_q == source;

  function automatic entry_from_e entry_from(index_t index, logic at_alu, index_t alu_index,
                                             logic at_write, index_t write_index);
    if (at_alu && alu_index == index) return FromResult;
    if (at_write && write_index == index) return FromResultBefore;
    return index[Top] ? FromHighHalf : FromLowHalf;
  endfunction

  function automatic second_e second_from(logic vector, operand_e operand, logic forwarded);
    if (!vector) return SecondSum;
    if (operand != OperandSrc) return SecondOther;
    return forwarded ? SecondResult : SecondX;
  endfunction

  // --- R + 1 and R + 2: the lanes' controls

  typedef struct packed {
    logic old_is_result;
    logic x_is_result;
    second_e second;
    alu_control_t alu;
    logic signed [15:0] imm;
  } late_t;

  late_t         late_q;
  lane_fetch_t   fetch, fetch_q;
  lane_execute_t execute_q;

  // The second pass of an iteration keeps x, or takes it from the result that the first pass found.
  always_comb begin
    fetch = fetch_q;
    if (fetch_q.x_keeps) begin
      fetch.x_keeps = !execute_q.x_is_result;
      fetch.x_from = FromResult;
    end
  end

  always_ff @(posedge clk_i) begin
    fetch_q <= '{
      old_from: entry_from(slot_i.acc, at_alu_q, alu_index_q, at_write_q, write_index_q),
      x_from: entry_from(source, at_alu_q, alu_index_q, at_write_q, write_index_q),
      x_keeps: slot_i.second,
      x_is_input: slot_i.source == SourceInp,
      by_weights: slot_i.operand == OperandWgt
    };
    late_q <= '{
      old_is_result: old_is_result,
      x_is_result: x_is_result,
      second: second_from(slot_i.vector, slot_i.operand, x_is_result),
      alu: slot_i.alu,
      imm: slot_i.imm
    };
    execute_q.old_is_result <= late_q.old_is_result;
    execute_q.x_is_result <= late_q.x_is_result;
    execute_q.second <= late_q.second;
    execute_q.alu <= late_q.alu;
    fetch_index_q <= slot_i.acc;
    alu_index_q <= fetch_index_q;
    write_index_q <= alu_index_q;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) {at_fetch_q, at_alu_q, at_write_q} <= '0;
    else {at_fetch_q, at_alu_q, at_write_q} <= {valid_i.execute, at_fetch_q, at_alu_q};
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

  assign write_index = at_write_q ? write_index_q : load_index;
  assign write_data = at_write_q ? result_o : load_data;

  for (genvar h = 0; h < 2; h++) begin : gen_half
    logic old_here, x_here;

    assign old_here = reads_old && slot_i.acc[Top] == 1'(h);
    assign x_here = reads_x && source[Top] == 1'(h);

    vdla_ram #(
      .Depth   (AccDepth / 2),
      .LaneBits(AxiBits),
      .Lanes   (AccBeats)
    ) u_ram (
      .clk_i,
      .we_i   ((load_we | {AccBeats{at_write_q}}) & {AccBeats{write_index[Top] == 1'(h)}}),
      .waddr_i(write_index[Top-1:0]),
      .wdata_i(write_data),
      .re_i   (old_here || x_here),
      .raddr_i(old_here ? slot_i.acc[Top-1:0] : source[Top-1:0]),
      .rdata_o(half[h])
    );
`ifndef SYNTHESIS
    // An iteration that reads two entries of one half takes two passes.
    OneRead_A: assert property (@(posedge clk_i) disable iff (!rst_ni) !(old_here && x_here));
`endif
  end

  for (genvar lane = 0; lane < Lanes; lane++) begin : gen_lane
    vdla_accumulator_lane u_lane (
      .clk_i,
      .fetch_i    (fetch),
      .low_half_i (half[0][lane*32+:32]),
      .high_half_i(half[1][lane*32+:32]),
      .input_i    (inputs_i[lane*InpBits+:InpBits]),
      .weight_i   (weights_i[(lane%BlockOut)*WgtBits+:WgtBits]),
      .imm_i      (late_q.imm),
      .execute_i  (execute_q),
      .sum_i      (sums_i[lane*32+:32]),
      .result_o   (result_o[lane*32+:32])
    );
  end

`ifndef SYNTHESIS
  // A load writes only while no result is written.
  OneWriter_A: assert property (@(posedge clk_i) disable iff (!rst_ni) !(at_write_q && |load_we));
  // The second pass of an iteration follows the first directly.
  SecondFollows_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      valid_i.hold |=> valid_i.execute && slot_i.second);
`endif

endmodule
