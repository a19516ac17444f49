# SPDX-License-Identifier: Apache-2.0
"""Extensions with datapaths that together use all of the RTL's slot: what a step reads, how its
result reaches the accumulator, cycles from formulas.

Each function gives a `declare(config)` for a latency and an interval.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from vdla.compiler import te
from vdla.compiler.extensions import Extension
from vdla.hardware.config import Config
from vdla.hardware.isa import PlugInField
from vdla.verification.generated_tests.samples import borrow

Declare = Callable[[Config], Extension]
SUMS = "[Batch-1:0][BlockOut-1:0][31:0]"
VECTOR = "[Batch-1:0][BlockOut-1:0][InpBits-1:0]"
ENTRY = "[Batch-1:0][BlockIn-1:0][InpBits-1:0]"
WEIGHTS = "[BlockOut-1:0][BlockIn-1:0][WgtBits-1:0]"
WEIGHT_VECTOR = "[BlockOut-1:0][WgtBits-1:0]"


def datapath(name: str, latency: int, ports: Sequence[str], value: str, delay: str | None = None) -> str:
    """A module that computes `value` for each lane [b][o] and delays it by `latency` cycles, or by
    as many of them as the expression `delay` of the last step's fields says.
    """
    register = f"\n  logic [{latency.bit_length() - 1}:0] delay_q;"
    held = f"{register}\n  always_ff @(posedge clk_i) if (valid_i) delay_q <= {delay};" if delay else ""
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
  logic {SUMS} stages[{latency}+1];{held}
  for (genvar b = 0; b < Batch; b++) begin : gen_row
    for (genvar o = 0; o < BlockOut; o++) begin : gen_column
      assign stages[0][b][o] = {value};
    end
  end
  for (genvar k = 1; k <= {latency}; k++) begin : gen_delay
    always_ff @(posedge clk_i) stages[k] <= stages[k-1];
  end
  assign result_o = stages[{"delay_q" if delay else latency}];
endmodule
"""


def fused(latency: int, interval: int | str = 1) -> Declare:
    """acc = (acc ^ 3 x) + w k: the old entry, another entry, a vector of weights and a field."""

    def declare(config: Config) -> Extension:
        shape = (config.batch, config.block_out)
        old, x = (te.placeholder(shape, "int32", name) for name in ("old", "x"))
        w, k = te.placeholder((config.block_out,), config.wgt_dtype, "w"), te.placeholder((1,), "int32", "k")
        ports = [f"{SUMS} src_i", f"{WEIGHT_VECTOR} wgt_i", f"{SUMS} old_i", "signed [5:0] k_i"]
        value = "(old_i[b][o] ^ (src_i[b][o] * 3)) + 32'(signed'(wgt_i[o])) * 32'(k_i)"

        def mixed(b: te.Value, o: te.Value) -> te.Value:
            return (old[b, o] ^ (x[b, o] * 3)) + te.cast("int32", w[o]) * k[0]

        return Extension(
            name="fused",
            doc="Mixes two sums.",
            output=te.compute(shape, mixed, "acc"),
            scopes={"old": "acc", "x": "acc", "w": "wgt", "k": "immediate", "acc": "acc"},
            in_place="old",
            fields=[PlugInField("k", 6, "The factor.", signed=True)],
            interval=interval,
            latency=latency,
            datapath=datapath("fused", latency, ports, value),
        )

    return declare


def largest(latency: int, interval: int | str = 1) -> Declare:
    """acc = max(acc, x w0, x w1): another entry, continued by a maximum."""

    def declare(config: Config) -> Extension:
        shape = (config.batch, config.block_out)
        x = te.placeholder(shape, "int32", "x")
        w = te.placeholder((config.block_out, config.block_in), config.wgt_dtype, "w")
        i = te.reduce_axis(2, "i")
        a, b = (f"signed'(src_i[b][o] * 32'(signed'(wgt_i[o][{k}])))" for k in (0, 1))

        def greatest(b: te.Value, o: te.Value) -> te.Value:
            return te.max(x[b, o] * te.cast("int32", w[o, i]), axis=i)

        return Extension(
            name="largest",
            doc="Keeps the largest product.",
            output=te.compute(shape, greatest, "acc"),
            scopes={"x": "acc", "w": "wgt", "acc": "acc"},
            interval=interval,
            latency=latency,
            datapath=datapath("largest", latency, [f"{SUMS} src_i", f"{WEIGHTS} wgt_i"], f"{a} > {b} ? {a} : {b}"),
        )

    return declare


def copied(latency: int, interval: int | str = 1, name: str = "copied", more: int = 1) -> Declare:
    """acc = 5 x + more: another entry, nothing of its own."""

    def declare(config: Config) -> Extension:
        shape = (config.batch, config.block_out)
        x = te.placeholder(shape, "int32", "x")

        def scaled(b: te.Value, o: te.Value) -> te.Value:
            return x[b, o] * 5 + more

        return Extension(
            name=name,
            doc="Copies an entry.",
            output=te.compute(shape, scaled, "acc"),
            scopes={"x": "acc", "acc": "acc"},
            interval=interval,
            latency=latency,
            datapath=datapath(name, latency, [f"{SUMS} src_i"], f"src_i[b][o] * 5 + {more}"),
        )

    return declare


def spread(latency: int, interval: int | str = 1) -> Declare:
    """acc = x w - n: a vector of inputs and an entry of weights."""

    def declare(config: Config) -> Extension:
        shape = (config.batch, config.block_out)
        x = te.placeholder(shape, config.inp_dtype, "x")
        w = te.placeholder((config.block_out, config.block_in), config.wgt_dtype, "w")
        n = te.placeholder((1,), "int32", "n")
        value = "32'(signed'(src_i[b][o])) * 32'(signed'(wgt_i[o][1])) - 32'(n_i)"

        def product(b: te.Value, o: te.Value) -> te.Value:
            return te.cast("int32", x[b, o]) * te.cast("int32", w[o, 1]) - n[0]

        return Extension(
            name="spread",
            doc="Multiplies a vector.",
            output=te.compute(shape, product, "acc"),
            scopes={"x": "inp", "w": "wgt", "n": "immediate", "acc": "acc"},
            fields=[PlugInField("n", 4, "The offset.")],
            interval=interval,
            latency=latency,
            datapath=datapath("spread", latency, [f"{VECTOR} src_i", f"{WEIGHTS} wgt_i", "[3:0] n_i"], value),
        )

    return declare


def distance(latency: int, interval: int | str = 1) -> Declare:
    """acc += sum of |inp - wgt|: entries of inputs and weights, continued by a sum."""

    def declare(config: Config) -> Extension:
        inp = te.placeholder((config.batch, config.block_in), config.inp_dtype, "inp")
        wgt = te.placeholder((config.block_out, config.block_in), config.wgt_dtype, "wgt")
        i = te.reduce_axis(config.block_in, "i")

        def difference(b: te.Value, o: te.Value) -> te.Value:
            return te.sum(te.abs(te.cast("int32", inp[b, i]) - te.cast("int32", wgt[o, i])), axis=i)

        differences = [f"32'(signed'(src_i[b][{i}])) - 32'(signed'(wgt_i[o][{i}]))" for i in range(config.block_in)]
        terms = [f"({term} < 0 ? -({term}) : {term})" for term in differences]
        return Extension(
            name="distance",
            doc="Adds absolute differences.",
            output=te.compute((config.batch, config.block_out), difference, "acc"),
            scopes={"inp": "inp", "wgt": "wgt", "acc": "acc"},
            interval=interval,
            latency=latency,
            datapath=datapath("distance", latency, [f"{ENTRY} src_i", f"{WEIGHTS} wgt_i"], " + ".join(terms)),
        )

    return declare


def gathered() -> Declare:
    """acc += sum of inp wgt: two entries of inputs, twice, and the int4 weights of four entries.

    A result comes 1 + k cycles after its step: the results of an instruction are out long before
    those of the next would be.
    """

    def declare(config: Config) -> Extension:
        columns, terms = 2 * config.block_in, 4 * config.block_in * config.wgt_bits // 4
        inp = te.placeholder((config.batch, columns), config.inp_dtype, "inp")
        wgt = te.placeholder((config.block_out, terms), "int4", "wgt")
        i = te.reduce_axis(terms, "i")

        def product(b: te.Value, o: te.Value) -> te.Value:
            return te.sum(te.cast("int32", inp[b, i % columns]) * te.cast("int32", wgt[o, i]), axis=i)

        parts = [f"32'(signed'(src_i[b][{k % columns}])) * 32'(signed'(wgt_i[o][{k}]))" for k in range(terms)]
        ports = ["[Batch-1:0][2*BlockIn-1:0][InpBits-1:0] src_i", f"[BlockOut-1:0][{terms}-1:0][3:0] wgt_i"]
        return Extension(
            name="gathered",
            doc="Multiplies groups.",
            output=te.compute((config.batch, config.block_out), product, "acc"),
            scopes={"inp": "inp", "wgt": "wgt", "acc": "acc"},
            fields=[PlugInField("k", 3, "Of the latency.")],
            latency="1 + k",
            datapath=datapath("gathered", 8, [*ports, "[2:0] k_i"], " + ".join(parts), "4'd1 + 4'(k_i)"),
        )

    return declare


def paired(entries: int = 2) -> Declare:
    """acc = (acc ^ w) + v: the old entry and the elements at the ends of a group of weights.

    A result comes 1 + k // 2 cycles after its step, and so does the next step.
    """

    def declare(config: Config) -> Extension:
        shape, last = (config.batch, config.block_out), entries * config.block_in - 1
        old = te.placeholder(shape, "int32", "old")
        w = te.placeholder((config.block_out, last + 1), config.wgt_dtype, "w")

        def mixed(b: te.Value, o: te.Value) -> te.Value:
            return (old[b, o] ^ te.cast("int32", w[o, 0])) + te.cast("int32", w[o, last])

        ports = [f"{SUMS} old_i", f"[BlockOut-1:0][{last}:0][WgtBits-1:0] wgt_i", "[2:0] k_i"]
        value = f"(old_i[b][o] ^ 32'(signed'(wgt_i[o][0]))) + 32'(signed'(wgt_i[o][{last}]))"
        return Extension(
            name="paired",
            doc="Mixes a group into a sum.",
            output=te.compute(shape, mixed, "acc"),
            scopes={"old": "acc", "w": "wgt", "acc": "acc"},
            in_place="old",
            fields=[PlugInField("k", 3, "Of the latency.")],
            latency="1 + k // 2",
            datapath=datapath("paired", 4, ports, value, "3'd1 + 3'(k_i[2:1])"),
        )

    return declare


def lend(config: Config) -> Extension:
    """Another that uses the array of multipliers."""
    other = borrow(config)
    assert isinstance(other.datapath, str)
    return replace(other, name="lend", datapath=other.datapath.replace("ext_borrow", "ext_lend"))


AT_ONCE = (fused(0), largest(0), copied(0), spread(0), distance(0))
LATER = (fused(1), largest(2), copied(1), spread(2, "1 + n // 3"), distance(5))
SPACED = (
    fused(3, "max(k, 0) - k % 3 + 3"),
    largest(1, 5),
    copied(2, 2),
    spread(1, 3),
    distance(1, "2 + uop_begin % 2"),
)
GROUPS = (gathered(), paired())
