# SPDX-License-Identifier: Apache-2.0
"""Small extensions in which faults are planted; together they have every kind of operand.

All have datapaths, and stand for those of users: nothing else in verification knows them.
"""

from __future__ import annotations

from collections.abc import Sequence

from vdla.compiler import te
from vdla.compiler.extensions import EmitStage, Extension, State
from vdla.hardware.array_port import array_port
from vdla.hardware.config import Config
from vdla.hardware.isa import PlugInField

SUMS = "[Batch-1:0][BlockOut-1:0][31:0]"
INPUTS = "[Batch-1:0][BlockIn-1:0][InpBits-1:0]"
WEIGHTS = "[BlockOut-1:0][BlockIn-1:0][WgtBits-1:0]"
INPUT_VECTOR = "[Batch-1:0][BlockOut-1:0][InpBits-1:0]"
WEIGHT_VECTOR = "[BlockOut-1:0][WgtBits-1:0]"
RESULTS = "[Batch-1:0][BlockOut-1:0][OutBits-1:0]"


def _datapath(name: str, latency: int, ports: Sequence[str], value: str, terms: str = "1") -> str:
    """A module that adds `value` over `terms` for each lane, and delays it by `latency` cycles."""
    inputs = "".join(f"  input  logic {port},\n" for port in ports)
    return f"""
module ext_{name}
  import vdla_pkg::*;
(
  // verilator lint_off UNUSEDSIGNAL
  input  logic clk_i,
  input  logic rst_ni,
  input  logic valid_i,
  input  logic begin_i,
{inputs}  // verilator lint_on UNUSEDSIGNAL
  output logic {SUMS} result_o
);
  logic {SUMS} stages[{latency}+1];
  for (genvar b = 0; b < Batch; b++) begin : gen_row
    for (genvar o = 0; o < BlockOut; o++) begin : gen_column
      always_comb begin
        stages[0][b][o] = '0;
        for (int i = 0; i < {terms}; i++) stages[0][b][o] += {value};
      end
    end
  end
  for (genvar k = 1; k <= {latency}; k++) begin : gen_delay
    always_ff @(posedge clk_i) stages[k] <= stages[k-1];
  end
  assign result_o = stages[{latency}];
endmodule
"""


def _entry(config: Config, name: str) -> te.Tensor:
    return te.placeholder((config.batch, config.block_out), "int32", name)


def blend(config: Config) -> Extension:
    """Adds another sum, scaled by fields: reads two entries and waits for its own results."""
    old, other = _entry(config, "old"), _entry(config, "other")
    factor, shift = (te.placeholder((1,), "int32", name) for name in ("factor", "shift"))
    output = te.compute(old.shape, lambda b, o: old[b, o] + ((other[b, o] * factor[0]) >> shift[0]), "acc")
    return Extension(
        name="blend",
        doc="Adds another sum, scaled by fields.",
        output=output,
        scopes={"old": "acc", "other": "acc", "factor": "immediate", "shift": "immediate", "acc": "acc"},
        in_place="old",
        fields=[PlugInField("factor", 6, "The factor.", signed=True), PlugInField("shift", 5, "Bits dropped.")],
        interval="1 + shift // 8",
        latency=2,
        datapath=_datapath(
            "blend",
            2,
            [f"{SUMS} src_i", f"{SUMS} old_i", "signed [5:0] factor_i", "[4:0] shift_i"],
            "old_i[b][o] + 32'(signed'(src_i[b][o] * 32'(factor_i)) >>> shift_i)",
        ),
    )


def larger(config: Config) -> Extension:
    """Keeps the larger of two sums, in the cycle of its reads."""
    old, other = _entry(config, "old"), _entry(config, "other")
    output = te.compute(old.shape, lambda b, o: te.maximum(old[b, o], other[b, o] - 1), "acc")
    return Extension(
        name="larger",
        doc="Keeps the larger of two sums.",
        output=output,
        scopes={"old": "acc", "other": "acc", "acc": "acc"},
        in_place="old",
        datapath=_datapath(
            "larger",
            0,
            [f"{SUMS} src_i", f"{SUMS} old_i"],
            "signed'(old_i[b][o]) > signed'(src_i[b][o] - 1) ? old_i[b][o] : src_i[b][o] - 1",
        ),
    )


def rise(config: Config) -> Extension:
    """Adds by how much inputs exceed weights: entries of both buffers, in a sum that may begin."""
    inp = te.placeholder((config.batch, config.block_in), config.inp_dtype, "inp")
    wgt = te.placeholder((config.block_out, config.block_in), config.wgt_dtype, "wgt")
    i = te.reduce_axis(config.block_in, "i")

    def exceeding(b: te.Value, o: te.Value) -> te.Value:
        return te.sum(te.maximum(te.cast("int32", inp[b, i]) - te.cast("int32", wgt[o, i]), 0), axis=i)

    return Extension(
        name="rise",
        doc="Adds by how much inputs exceed weights.",
        output=te.compute((config.batch, config.block_out), exceeding, "acc"),
        scopes={"inp": "inp", "wgt": "wgt", "acc": "acc"},
        latency=3,
        datapath=_datapath(
            "rise",
            3,
            [f"{INPUTS} src_i", f"{WEIGHTS} wgt_i"],
            "signed'(src_i[b][i]) > signed'(wgt_i[o][i]) ? 32'(signed'(src_i[b][i])) - 32'(signed'(wgt_i[o][i])) : '0",
            "BlockIn",
        ),
    )


def product(config: Config) -> Extension:
    """Overwrites an entry by a product of vectors; its latency depends on a field."""
    most = 8
    inp = te.placeholder((config.batch, config.block_out), config.inp_dtype, "inp")
    wgt = te.placeholder((config.block_out,), config.wgt_dtype, "wgt")
    bias, steps = (te.placeholder((1,), "int32", name) for name in ("bias", "steps"))

    def value(b: te.Value, o: te.Value) -> te.Value:
        return (te.cast("int32", inp[b, o]) * te.cast("int32", wgt[o]) + bias[0]) >> steps[0]

    return Extension(
        name="product",
        doc="Multiplies vectors of inputs and weights.",
        output=te.compute((config.batch, config.block_out), value, "acc"),
        scopes={"inp": "inp", "wgt": "wgt", "bias": "immediate", "steps": "immediate", "acc": "acc"},
        fields=[PlugInField("bias", 12, "Added.", signed=True), PlugInField("steps", 3, "Bits dropped.")],
        latency="1 + steps",
        datapath=f"""
module ext_product
  import vdla_pkg::*;
(
  // verilator lint_off UNUSEDSIGNAL
  input  logic clk_i,
  input  logic rst_ni,
  input  logic valid_i,
  input  logic begin_i,
  input  logic {INPUT_VECTOR} src_i,
  input  logic {WEIGHT_VECTOR} wgt_i,
  input  logic signed [11:0] bias_i,
  input  logic [2:0] steps_i,
  // verilator lint_on UNUSEDSIGNAL
  output logic {SUMS} result_o
);
  logic {SUMS} stages[{most}+1];
  logic [3:0] steps_q;
  for (genvar b = 0; b < Batch; b++) begin : gen_row
    for (genvar o = 0; o < BlockOut; o++) begin : gen_column
      assign stages[0][b][o] =
          (32'(signed'(src_i[b][o])) * 32'(signed'(wgt_i[o])) + 32'(bias_i)) >>> steps_i;
    end
  end
  for (genvar k = 1; k <= {most}; k++) begin : gen_delay
    always_ff @(posedge clk_i) stages[k] <= stages[k-1];
  end
  always_ff @(posedge clk_i) if (valid_i) steps_q <= 4'(steps_i);
  assign result_o = stages[1+steps_q];
endmodule
""",
    )


def bundle(config: Config) -> Extension:
    """Adds products of groups: four entries of inputs, two of weights seen as narrower elements."""
    bits, count = config.wgt_bits // 2, 4 * config.block_in
    inp = te.placeholder((config.batch, count), config.inp_dtype, "inp")
    wgt = te.placeholder((config.block_out, count), f"int{bits}", "wgt")
    i = te.reduce_axis(count, "i")

    def products(b: te.Value, o: te.Value) -> te.Value:
        return te.sum(te.cast("int32", inp[b, i]) * te.cast("int32", wgt[o, i]), axis=i)

    return Extension(
        name="bundle",
        doc="Adds products of groups.",
        output=te.compute((config.batch, config.block_out), products, "acc"),
        scopes={"inp": "inp", "wgt": "wgt", "acc": "acc"},
        latency=2,
        datapath=_datapath(
            "bundle",
            2,
            [
                "[Batch-1:0][4*BlockIn-1:0][InpBits-1:0] src_i",
                f"[BlockOut-1:0][2*BlockIn*WgtBits/{bits}-1:0][{bits - 1}:0] wgt_i",
            ],
            "32'(signed'(src_i[b][i])) * 32'(signed'(wgt_i[o][i]))",
            "4*BlockIn",
        ),
    )


_SHELF = f"""
module ext_put
  import vdla_pkg::*;
(
  // verilator lint_off UNUSEDSIGNAL
  input  logic clk_i,
  input  logic rst_ni,
  input  logic put_valid_i,
  input  logic {WEIGHT_VECTOR} put_wgt_i,
  input  logic [1:0] put_shelf_row_i,
  input  logic take_valid_i,
  input  logic take_begin_i,
  input  logic {SUMS} take_old_i,
  input  logic [1:0] take_shelf_row_i,
  input  logic tint_valid_i,
  input  logic {RESULTS} tint_x_i,
  // verilator lint_on UNUSEDSIGNAL
  output logic {SUMS} take_result_o,
  output logic {RESULTS} tint_result_o
);
  logic [BlockOut-1:0][OutBits-1:0] shelf_q[4];
  logic {RESULTS} tinted_q;
  for (genvar o = 0; o < BlockOut; o++) begin : gen_column
    always_ff @(posedge clk_i) begin
      if (put_valid_i) shelf_q[put_shelf_row_i][o] <= OutBits'(signed'(put_wgt_i[o]));
      if (take_valid_i) shelf_q[take_shelf_row_i][o] <= shelf_q[take_shelf_row_i][o] - OutBits'(1);
    end
    for (genvar b = 0; b < Batch; b++) begin : gen_row
      always_ff @(posedge clk_i) begin
        take_result_o[b][o] <= take_old_i[b][o] + 32'(signed'(shelf_q[take_shelf_row_i][o]));
        tinted_q[b][o] <= tint_x_i[b][o] + shelf_q[tint_x_i[b][o][1:0]][o];
      end
    end
  end
  always_ff @(posedge clk_i) tint_result_o <= tinted_q;
endmodule
"""


def shelf(config: Config) -> list[Extension | EmitStage]:
    """Rows of state: one instruction puts them, one takes and changes them, a stage reads all."""
    lanes, dtype = config.block_out, config.out_dtype
    held = State("shelf", 4, (lanes,), dtype)
    vector = te.placeholder((lanes,), config.wgt_dtype, "vector")
    put = Extension(
        name="put",
        doc="Puts a vector of weights on the shelf.",
        scopes={"vector": "wgt"},
        updates={held: te.compute((lanes,), lambda o: te.cast(dtype, vector[o]), "filled")},
        interval=2,
        datapath=_SHELF,
    )
    old, row = _entry(config, "old"), te.placeholder((lanes,), dtype, "row")
    take = Extension(
        name="take",
        doc="Adds a row of the shelf, which counts down.",
        output=te.compute(old.shape, lambda b, o: old[b, o] + te.cast("int32", row[o]), "acc"),
        scopes={"old": "acc", "row": held, "acc": "acc"},
        updates={held: te.compute((lanes,), lambda o: row[o] - 1, "left")},
        in_place="old",
        latency=1,
    )
    x, rows = te.placeholder((config.batch, lanes), dtype, "x"), te.placeholder((4, lanes), dtype, "rows")
    tint = EmitStage(
        name="tint",
        doc="Adds a row of the shelf that the result chooses.",
        output=te.compute(x.shape, lambda b, o: x[b, o] + rows[te.cast("int32", x[b, o]) & 3, o], "y"),
        scopes={"x": "out", "rows": held, "y": "out"},
        latency=2,
    )
    return [put, take, tint]


_BORROW = f"""
module ext_borrow
  import vdla_pkg::*;
(
  // verilator lint_off UNUSEDSIGNAL
  input  logic clk_i,
  input  logic rst_ni,
  input  logic begin_i,
  // verilator lint_on UNUSEDSIGNAL
  input  logic valid_i,
  input  logic {INPUTS} src_i,
  input  logic {WEIGHTS} wgt_i,
  input  logic {SUMS} array_sums_i,
  output logic {SUMS} result_o,
  output logic array_valid_o,
  output logic [Batch-1:0][ArrayShares-1:0][BlockIn-1:0][InpBits-1:0] array_inp_o,
  output logic [Batch-1:0][BlockOut-1:0][BlockIn-1:0][WgtBits-1:0] array_wgt_o
);
  for (genvar b = 0; b < Batch; b++) begin : gen_row
    for (genvar i = 0; i < BlockIn; i++) begin : gen_input
      for (genvar s = 0; s < ArrayShares; s++) begin : gen_share
        assign array_inp_o[b][s][i] = src_i[b][(i+s)%BlockIn];
      end
    end
    for (genvar o = 0; o < BlockOut; o++) begin : gen_column
      assign array_wgt_o[b][o] = wgt_i[(o+b)%BlockOut];
    end
  end
  assign array_valid_o = valid_i;
  assign result_o = array_sums_i;
endmodule
"""


def borrow(config: Config) -> Extension:
    """Adds products by the array of multipliers: inputs differ by share, weights by batch row."""
    array, rows, columns = array_port(config), config.block_in, config.block_out
    inp = te.placeholder((config.batch, rows), config.inp_dtype, "inp")
    wgt = te.placeholder((columns, rows), config.wgt_dtype, "wgt")
    i = te.reduce_axis(rows, "i")

    def products(b: te.Value, o: te.Value) -> te.Value:
        share = o // array.fields % array.shares
        return te.sum(
            te.cast("int32", inp[b, (i + share) % rows]) * te.cast("int32", wgt[(o + b) % columns, i]), axis=i
        )

    return Extension(
        name="borrow",
        doc="Adds products of inputs with the weights of other columns.",
        output=te.compute((config.batch, columns), products, "acc"),
        scopes={"inp": "inp", "wgt": "wgt", "acc": "acc"},
        latency=array.latency,
        datapath=_BORROW,
        array=True,
    )


SAMPLES = (blend, larger, rise, product, bundle, shelf, borrow)
