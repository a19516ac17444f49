# SPDX-License-Identifier: Apache-2.0
"""Where layers run, and the estimates that decide it, against exact cycles: 13 kinds on five
machines.

Each layer is placed alone, on a machine beside the CPU of its board, and beside this CPU.

- `estimate_error_worst` is the greatest error of the accelerator's times in `vdla explain`: against
  the cycles of the program that runs for a layer on the accelerator, else against those of the
  layer's program alone. `coarse_error_worst` is that of the estimates by which tiles are chosen,
  and `program_over_alone_worst` compares the two programs of a layer.
- `wrong_device` counts the layers on another device than an oracle chooses, where the times of both
  differ by more than a fifth. The oracle knows exact cycles and the CPU's rates: once from the
  board's model, once measured on one thread of this CPU.
- `timed` counts the programs that were timed for the choice, since estimates could not tell.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from math import prod
from typing import Any, NamedTuple

import numpy as np

from vdla.benchmarks.harness import BenchmarkResult, Row, versions
from vdla.benchmarks.placement_layers import PlacementLayer, addition, conv, placement_layers
from vdla.compiler.graph import Graph
from vdla.compiler.graph.accelerator import (
    ACCELERATED,
    REGION,
    Choice,
    CpuModel,
    OperatorCall,
    board_cpu,
    candidates,
    choose,
    partition,
    seconds_of,
)
from vdla.compiler.graph.accelerator.cost import PROGRAM_SECONDS, cpu_seconds, handover_seconds
from vdla.compiler.operators.vdla import Operator, WrittenOperator
from vdla.hardware.config import Config
from vdla.runtime.executor.operator_cycles import operator_cycles
from vdla.runtime.native import set_threads
from vdla.runtime.network.compile_network import compile_network
from vdla.simulator.timing import time_program
from vdla.support.processor import cpu_model
from vdla.support.progress import Progress, silent

MACHINES = ("pynq_z1", "ultra96", "zcu104", "batch4", "tiny")
_FIFTH = 1.2
_ROUNDS = 5
_ROUND_S = 0.05


def run(progress: Progress = silent, seed: int = 0) -> BenchmarkResult:
    """A row for each layer on each machine."""
    layers, measured = list(placement_layers()), measured_cpu()
    total, rows = len(MACHINES) * len(layers), list[Row]()
    for preset in MACHINES:
        config = Config.preset(preset)
        for layer in layers:
            progress(f"{preset} {layer.kind}", len(rows), total)
            rows.append(measure(layer, config, (board_cpu(config), measured)))
    progress("done", total, total)
    return BenchmarkResult("placement", _figures(rows), rows, _receipt(measured, seed))


def measure(layer: PlacementLayer, config: Config, cpus: tuple[CpuModel, ...]) -> Row:
    """A layer on a machine; its devices are those beside each of the CPUs."""
    calls = candidates(layer.graph, config)
    call, counted = calls.calls["y"], list[Operator | WrittenOperator]()
    assert call.operator is not None
    exact = seconds_of(time_program(call.operator.program).total_cycles, config)

    def count(operator: Operator | WrittenOperator) -> int:
        counted.append(operator)
        return time_program(operator.program).total_cycles

    choices = [choose(layer.graph, config, calls, cpu, count_cycles=count) for cpu in cpus]
    pairs = zip(choices, cpus, strict=True)
    wrong = sum(one.decisions["y"].device not in _oracle(layer.graph, call, exact, cpu) for one, cpu in pairs)
    times = [printed_time(layer.graph, config, choice, exact) for choice in choices]
    return {
        "machine": config.name,
        "kind": layer.kind,
        "shape": layer.shape,
        "cycles_ms": 1e3 * exact,
        "error": round(max(abs(time.printed / time.exact - 1) for time in times), 4),
        "coarse_error": round(seconds_of(call.operator.estimated_cycles, config) / exact - 1, 4),
        "program_over_alone": round(max(time.exact for time in times) / exact, 4),
        "timed": len(counted),
        "wrong_device": wrong,
    }


class PrintedTime(NamedTuple):
    """Seconds on the accelerator: what `vdla explain` prints, and what the simulator says."""

    printed: float
    exact: float


def printed_time(graph: Graph, config: Config, choice: Choice, alone: float) -> PrintedTime:
    """The time of `y` in the program of its region, or the reason why it is in no region."""
    if "y" not in choice.calls:
        (text,) = re.findall(r"got (\S+) ms on the accelerator", choice.decisions["y"].reason)
        return PrintedTime(1e-3 * float(text), alone)
    nodes = partition(graph, config, choice.calls).nodes
    (region,) = (node.attributes[REGION] for node in nodes if node.op == ACCELERATED)
    stats = time_program(region.chain.program)
    spent = operator_cycles(region.chain.program, stats, region.lines)
    assert spent is not None
    cycles = sum(item.cycles for item in spent)
    return PrintedTime(seconds_of(cycles, config), seconds_of(stats.total_cycles, config))


def _oracle(graph: Graph, call: OperatorCall, exact: float, cpu: CpuModel) -> tuple[str, ...]:
    """The devices that are right: both where they take about as long."""
    (node,) = graph.nodes
    layouts = {*(layout for _, layout in call.inputs.values()), call.output}
    there = exact + sum(handover_seconds(layout, cpu) for layout in layouts) + PROGRAM_SECONDS
    here = cpu_seconds(graph, node, call.macs, cpu)
    if max(there, here) <= _FIFTH * min(there, here):
        return "cpu", "vdla"
    return ("vdla",) if there < here else ("cpu",)


# --- this CPU -------------------------------------------------------------------------------------


def measured_cpu() -> CpuModel:
    """The rates of one thread of this CPU, on kernels of three layers."""
    image, sums, least = conv((1, 64, 56, 56), 64, 3), addition((1, 256, 112, 112)), addition((1, 1, 1, 1))
    set_threads(1)
    try:
        products, moves, call = map(_seconds, (image, sums, least))
    finally:
        set_threads(0)
    macs = prod(image.tensor("y").extents) * 64 * 9
    nbytes = 3 * sums.tensor("y").nbytes
    rates: Mapping[str, float] = {"macs": macs / (products - call), "bytes": nbytes / (moves - call)}
    return CpuModel("measured", rates["macs"], rates["bytes"], call, f"measured on {cpu_model()}")


def _seconds(graph: Graph) -> float:
    """The CPU time of a run of a layer, of copies and calls as well: the least of some rounds."""
    rng = np.random.default_rng(0)
    inputs = {name: rng.integers(-8, 8, graph.tensor(name).extents, np.int8) for name in graph.inputs}
    with compile_network(graph, "host") as model:
        return min(_round(lambda: model.run(inputs)) for _ in range(_ROUNDS))


def _round(work: Callable[[], object]) -> float:
    count, start = 0, time.process_time()
    while (spent := time.process_time() - start) < _ROUND_S:
        work()
        count += 1
    return spent / count


# --- the result -----------------------------------------------------------------------------------


def _figures(rows: list[Row]) -> dict[str, float]:
    return {
        "layers": len(rows) / len(MACHINES),
        "estimate_error_worst": max(row["error"] for row in rows),
        "coarse_error_worst": max(abs(row["coarse_error"]) for row in rows),
        "program_over_alone_worst": max(row["program_over_alone"] for row in rows),
        "timed": sum(row["timed"] for row in rows),
        "wrong_device": sum(row["wrong_device"] for row in rows),
    }


def _receipt(measured: CpuModel, seed: int) -> dict[str, Any]:
    return {
        "configs": {preset: Config.preset(preset).fingerprint for preset in MACHINES},
        "versions": versions(),
        "cpu": cpu_model(),
        "measured": {"macs_per_second": measured.macs_per_second, "bytes_per_second": measured.bytes_per_second},
        "seed": seed,
        "command": "vdla bench placement",
    }
