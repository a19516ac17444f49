# SPDX-License-Identifier: Apache-2.0
"""Units with private state and a datapath: rows that a step reads and writes, in a memory and in
registers, with operands of the input buffer and of the accumulator; a stage on the way out.
"""

from vdla import te
from vdla.compiler.extensions import EmitStage, Extension, State
from vdla.hardware.isa import PlugInField

SUMS = "[Batch-1:0][BlockOut-1:0][31:0]"

_TALLY = f"""
module ext_tally
  import vdla_pkg::*;
(
  // verilator lint_off UNUSEDSIGNAL
  input  logic clk_i,
  input  logic rst_ni,
  input  logic tally_valid_i,
  input  logic tally_begin_i,
  input  logic [Batch-1:0][BlockOut-1:0][InpBits-1:0] tally_src_i,
  input  logic [2:0] tally_counts_row_i,
  input  logic signed [3:0] tally_by_i,
  input  logic tally_set_valid_i,
  input  logic [BlockOut-1:0][WgtBits-1:0] tally_set_wgt_i,
  input  logic [2:0] tally_set_counts_row_i,
  // verilator lint_on UNUSEDSIGNAL
  output logic {SUMS} tally_result_o
);
  logic {SUMS} counts_q[6], counted, set;

  for (genvar b = 0; b < Batch; b++) begin : gen_row
    for (genvar o = 0; o < BlockOut; o++) begin : gen_column
      assign counted[b][o] = counts_q[tally_counts_row_i][b][o]
          + 32'(signed'(tally_src_i[b][o])) * 32'(tally_by_i);
      assign set[b][o] = 32'(signed'(tally_set_wgt_i[o]));
    end
  end

  always_ff @(posedge clk_i) begin
    if (tally_valid_i) counts_q[tally_counts_row_i] <= counted;
    if (tally_set_valid_i) counts_q[tally_set_counts_row_i] <= set;
    tally_result_o <= counted;
  end
endmodule
"""


def tally(config):
    """Each step adds to a row of six and gives it; another instruction sets a row from weights."""
    pixel, lanes = (config.batch, config.block_out), config.block_out
    counts = State("counts", 6, pixel, "int32")
    x, old = te.placeholder(pixel, config.inp_dtype, "x"), te.placeholder(pixel, "int32", "old")
    by, vector = te.placeholder((1,), "int32", "by"), te.placeholder((lanes,), config.wgt_dtype, "vector")

    def counted(b, o):
        return old[b, o] + te.cast("int32", x[b, o]) * by[0]

    count = Extension(
        name="tally",
        doc="Adds a vector to a row, and gives the row.",
        output=te.compute(pixel, counted, "acc"),
        scopes={"x": "inp", "old": counts, "by": "immediate", "acc": "acc"},
        updates={counts: te.compute(pixel, counted, "counted")},
        fields=[PlugInField("by", 4, "The factor.", signed=True)],
        latency=1,
        datapath=_TALLY,
    )
    first = Extension(
        name="tally_set",
        doc="Sets a row to a vector of weights.",
        scopes={"vector": "wgt"},
        updates={counts: te.compute(pixel, lambda b, o: te.cast("int32", vector[o]), "first")},
        interval=3,
    )
    return [count, first]


_ECHO = f"""
module ext_echo_keep
  import vdla_pkg::*;
(
  // verilator lint_off UNUSEDSIGNAL
  input  logic clk_i,
  input  logic rst_ni,
  input  logic echo_keep_valid_i,
  input  logic {SUMS} echo_keep_src_i,
  input  logic echo_valid_i,
  input  logic echo_begin_i,
  input  logic {SUMS} echo_src_i,
  input  logic {SUMS} echo_old_i,
  // verilator lint_on UNUSEDSIGNAL
  output logic {SUMS} echo_result_o
);
  logic {SUMS} kept_q, sum;

  for (genvar b = 0; b < Batch; b++) begin : gen_row
    for (genvar o = 0; o < BlockOut; o++) begin : gen_column
      assign sum[b][o] = echo_old_i[b][o] + kept_q[b][o] - echo_src_i[b][o];
    end
  end

  always_ff @(posedge clk_i) begin
    if (echo_keep_valid_i) kept_q <= echo_keep_src_i;
    if (echo_valid_i) kept_q <= echo_old_i;
    echo_result_o <= sum;
  end
endmodule
"""


def echo(config):
    """A row of state between steps that read two entries of the accumulator and write one."""
    pixel = (config.batch, config.block_out)
    kept = State("kept", 1, pixel, "int32")
    names = ("x", "old", "last", "next")
    x, old, last, following = (te.placeholder(pixel, "int32", name) for name in names)
    keep = Extension(
        name="echo_keep",
        doc="Keeps a sum.",
        scopes={"next": "acc"},
        updates={kept: te.compute(pixel, lambda b, o: following[b, o], "taken")},
        latency=2,
        datapath=_ECHO,
    )
    step = Extension(
        name="echo",
        doc="Adds the sum that the step before found, less another.",
        output=te.compute(pixel, lambda b, o: old[b, o] + last[b, o] - x[b, o], "acc"),
        scopes={"old": "acc", "x": "acc", "last": kept, "acc": "acc"},
        updates={kept: te.compute(pixel, lambda b, o: old[b, o], "found")},
        in_place="old",
        latency=1,
    )
    return [keep, step]


_TINT = """
module ext_tint_load
  import vdla_pkg::*;
(
  // verilator lint_off UNUSEDSIGNAL
  input  logic clk_i,
  input  logic rst_ni,
  input  logic tint_load_valid_i,
  input  logic [BlockOut-1:0][WgtBits-1:0] tint_load_wgt_i,
  input  logic [1:0] tint_load_table_row_i,
  input  logic tint_valid_i,
  input  logic [Batch-1:0][BlockOut-1:0][OutBits-1:0] tint_x_i,
  // verilator lint_on UNUSEDSIGNAL
  output logic [Batch-1:0][BlockOut-1:0][OutBits-1:0] tint_result_o
);
  logic [BlockOut-1:0][OutBits-1:0] table_q[4];
  logic [Batch-1:0][BlockOut-1:0][OutBits-1:0] sum_q;

  for (genvar b = 0; b < Batch; b++) begin : gen_row
    for (genvar o = 0; o < BlockOut; o++) begin : gen_column
      always_ff @(posedge clk_i) sum_q[b][o] <= tint_x_i[b][o] + table_q[tint_x_i[b][o][1:0]][o];
    end
  end

  for (genvar o = 0; o < BlockOut; o++) begin : gen_table
    always_ff @(posedge clk_i) begin
      if (tint_load_valid_i) table_q[tint_load_table_row_i][o] <= OutBits'(signed'(tint_load_wgt_i[o]));
    end
  end

  always_ff @(posedge clk_i) tint_result_o <= sum_q;
endmodule
"""


def tinted(config):
    """A stage that adds a row of a table which the result chooses, and the instruction that writes
    rows.
    """
    lanes, dtype = config.block_out, config.out_dtype
    table = State("table", 4, (lanes,), dtype)
    vector = te.placeholder((lanes,), config.wgt_dtype, "vector")
    load = Extension(
        name="tint_load",
        doc="Writes a row of the table.",
        scopes={"vector": "wgt"},
        updates={table: te.compute((lanes,), lambda o: te.cast(dtype, vector[o]), "row")},
        datapath=_TINT,
    )
    x, rows = te.placeholder((config.batch, lanes), dtype, "x"), te.placeholder((4, lanes), dtype, "rows")
    stage = EmitStage(
        name="tint",
        doc="Adds the row that the low bits of a result choose.",
        output=te.compute(x.shape, lambda b, o: x[b, o] + rows[te.cast("int32", x[b, o]) & 3, o], "y"),
        scopes={"x": "out", "rows": table, "y": "out"},
        latency=2,
    )
    return [load, stage]
