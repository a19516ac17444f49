"""ResNet-18's convolutions on pynq_z1: cycles against the machine's bound, with and without virtual threads.

Every result is compared with the plain numpy reference. C1, with its 3 input channels, is a row of its own and stands
outside the sums; what it costs to lay out its input is reported beside its cycles.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from vdla.benchmarks.convolution import LayerData, bound, random_data, reference
from vdla.benchmarks.harness import Progress, Result, receipt, silent
from vdla.compiler.operators.vdla.conv2d import conv2d
from vdla.compiler.operators.vdla.operator import Operator
from vdla.compiler.operators.workloads import Workload, resnet18_layers, workload
from vdla.hardware.config import Config
from vdla.hardware.program import Program
from vdla.simulator.simulator import simulate
from vdla.simulator.stats import RunStats

PRESET = "pynq_z1"
FIRST = "C1"  # its channels do not fill a block: reported, not part of the sums


@dataclass(frozen=True, slots=True)
class Measured:
    """One layer with some number of virtual threads."""

    operator: Operator
    stats: RunStats
    exact: bool
    pack_seconds: float
    packed_bytes: int

    @property
    def program(self) -> Program:
        """The program that ran."""
        return self.operator.program


def layer_operator(layer: Workload, config: Config, threads: int) -> Operator:
    """The convolution of a workload."""
    return conv2d(
        config,
        batch=layer.batch,
        height=layer.height,
        width=layer.width,
        in_channels=layer.in_channels,
        out_channels=layer.out_channels,
        kernel=layer.kernel,
        strides=layer.strides,
        pads=layer.pads,
        virtual_threads=threads,
        name=layer.name,
    )


def pack(operator: Operator, operands: LayerData) -> dict[str, Any]:
    """The arrays of the program; a multiplier is the real number that `mult` and `shift` stand for."""
    multiplier = operands.mult * 2.0 ** -operands.shift.astype(np.float64)
    return operator.pack(data=operands.data, weight=operands.weight, bias=operands.bias, multiplier=multiplier)


def measure(layer: Workload, operator: Operator, seed: int) -> Measured:
    """Compile, run, compare."""
    config = operator.config
    operands = random_data(layer, config, seed)
    start = time.perf_counter()
    arrays = pack(operator, operands)
    pack_seconds = time.perf_counter() - start
    result = simulate(operator.program, arrays)
    assert result.stats is not None
    exact = np.array_equal(operator.unpack(result.outputs), reference(layer, operands, config.out_bits))
    return Measured(operator, result.stats, exact, pack_seconds, operator.program.tensor("data").nbytes)


def row(layer: Workload, config: Config, two: Measured, one: Measured) -> dict[str, Any]:
    """What is reported of one layer."""
    limit = bound(layer, config).cycles
    return {
        "layer": layer.name,
        "cycles": two.stats.total_cycles,
        "bound_cycles": limit,
        "over_bound": round(two.stats.total_cycles / limit, 4),
        "cycles_one_thread": one.stats.total_cycles,
        "utilisation": round(two.stats.utilisation, 4),
        "exact": int(two.exact and one.exact),
    }


def total(rows: Iterable[dict[str, Any]], column: str) -> int:
    """The sum of a column."""
    return sum(int(row[column]) for row in rows)


def run(progress: Progress = silent, seed: int = 0) -> Result:
    """C1 to C12; the sums are over C2 to C12."""
    config = Config.preset(PRESET)
    layers = [*resnet18_layers(), workload(FIRST)]
    rows, programs, first = [], [], None
    for index, layer in enumerate(layers):
        progress(layer.name, index, len(layers))
        two, one = (measure(layer, layer_operator(layer, config, threads), seed) for threads in (2, 1))
        rows.append(row(layer, config, two, one))
        programs.append(two.program)
        first = two
    progress("done", len(layers), len(layers))
    assert first is not None
    figures = sums(rows[:-1]) | first_layer(first, rows[-1])
    figures["all_exact"] = int(all(entry["exact"] for entry in rows))
    return Result("layers", figures, rows, receipt(config, programs, seed, f"vdla bench layers --seed {seed} --json -"))


def sums(rows: list[dict[str, Any]]) -> dict[str, float]:
    """The figures over C2 to C12."""
    limit = total(rows, "bound_cycles")
    return {
        "cycles_over_bound": round(total(rows, "cycles") / limit, 5),
        "cycles_over_bound_one_thread": round(total(rows, "cycles_one_thread") / limit, 5),
        "cycles": total(rows, "cycles"),
        "bound_cycles": limit,
    }


def first_layer(measured: Measured, entry: dict[str, Any]) -> dict[str, float]:
    """The figures of C1: `c1_packed_bytes` against the plain input's is what laying it out costs the memory."""
    plain = workload(FIRST)
    return {
        "c1_cycles": int(entry["cycles"]),
        "c1_pack_seconds": round(measured.pack_seconds, 4),
        "c1_packed_bytes": measured.packed_bytes,
        "c1_plain_bytes": plain.batch * plain.in_channels * plain.height * plain.width,
    }
