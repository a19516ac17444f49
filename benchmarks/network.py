# SPDX-License-Identifier: Apache-2.0
"""Networks from ONNX to results on pynq_z1: cycles, share of the bound, times on the host.

Networks have random weights and are quantised on random images. Results are compared bit for bit
with the NumPy definitions of the integer operators, and the kernels of others. Compile time is that
of the quantised graph; times to simulate are CPU seconds of the accelerator's programs, functions
and timing. Offloaded cycles are those of all convolutions but the first and of the residual
additions; shares of the bound are over all convolutions, and over all products. `work_share` is the
share of the accelerator in all multiply-accumulates and elements of other results.

A transformer is measured a second time, on the machine with the plug-ins of PLUG_INS, which are
compared with the integers that these define; `largest_program` has so many of its operators.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import prod
from statistics import median

import numpy as np

from vdla.benchmarks.harness import BenchmarkResult, Figures, Row, receipt, total
from vdla.compiler.extensions import extend
from vdla.compiler.graph import Graph, Node, TensorType
from vdla.compiler.graph.accelerator import ACCELERATED, REGION, AcceleratedRegion
from vdla.compiler.graph.groups import BODY
from vdla.compiler.graph.operators import Trait, has_trait
from vdla.compiler.graph.operators.macs import macs_of
from vdla.compiler.operators.workload_bound import MachineBound, bound
from vdla.compiler.operators.workloads import Workload
from vdla.hardware.config import Config
from vdla.hardware.program import Program
from vdla.networks.registry import Network, network
from vdla.runtime.executor.executor import NetworkResult
from vdla.runtime.executor.model import Model
from vdla.runtime.executor.operator_cycles import operator_cycles
from vdla.runtime.network.compile_network import compile_network
from vdla.runtime.network.evaluator import Evaluator
from vdla.runtime.network.quantise import quantise
from vdla.simulator.stats import RunStats
from vdla.support.progress import Progress, silent, steps

PRESET = "pynq_z1"
MEASURED = ("resnet18", "mobilenet_v1", "mobilenet_v2", "vit_small")
REPEATS = 5
PLUG_INS = {"vit_small": ("softmax", "norm", "transpose", "lut")}
"""The plug-ins with which networks are measured once more."""
_OFFLOADED = ("vdla.QConv", "vdla.QAdd")


def run(progress: Progress = silent, seed: int = 0, subjects: Sequence[str] = ()) -> BenchmarkResult:
    """The networks `subjects`, or those of MEASURED, one after another.

    Raises:
        NetworkError: a name is unknown.
    """
    networks = [network(name) for name in tuple(subjects) or MEASURED]
    config = Config.preset(PRESET)
    figures: Figures = {}
    rows: list[Row] = []
    programs: list[Program] = []
    for subject in steps(progress, networks):
        machines = {subject.name: config}
        if subject.name in PLUG_INS:
            machines[f"{subject.name}_plug_ins"] = extend(config, *PLUG_INS[subject.name])
        for name, machine in machines.items():
            measured, operators, used = measure(subject, machine, seed)
            figures |= {f"{name}_{figure}": value for figure, value in measured.items()}
            rows += [{"network": name, **row} for row in operators]
            programs += used
    figures["all_exact"] = int(all(value for figure, value in figures.items() if figure.endswith("_exact")))
    command = " ".join(["vdla bench network", *subjects, f"--seed {seed}"])
    return BenchmarkResult("network", figures, rows, receipt(config, programs, seed, command))


def measure(subject: Network, config: Config, seed: int) -> tuple[Figures, list[Row], list[Program]]:
    """The figures of a network, a row for each operator of the accelerator, and the programs."""
    model = subject.build(seed=seed)
    data = [subject.inputs(model, seed=seed + i) for i in range(3)]
    quantised = quantise(model, calibration=data[1:], method="minmax").graph
    graphs: dict[str, Graph] = {}
    start = time.perf_counter()
    compiled = compile_network(quantised, config, observe=lambda name, before, after: graphs.__setitem__(name, after))
    compile_seconds = time.perf_counter() - start
    with compiled:
        result = compiled.run(data[0])
        simulate_seconds = median(_accelerator_seconds(compiled, data[0]) for _ in range(REPEATS))
    integers = graphs["simplify_integers" if config.plain == config else "for_machine"]
    wanted = Evaluator(integers, prefer="definition").run(data[0])
    exact = all(np.array_equal(array, wanted[name]) for name, array in result.outputs.items())
    rows = operator_rows(graphs["fuse"], result, config)
    plan, placed = compiled.artifact.plan, [node for node in graphs["fuse"].nodes if node.op == ACCELERATED]
    on_accelerator = total(rows, "macs")
    board_seconds = result.cycles / config.clock_mhz / 1e6
    figures = {
        "cycles": result.cycles,
        "exact": int(exact),
        "offloaded_share": round(on_accelerator / sum(macs_of(integers, node) for node in integers.nodes), 4),
        "work_share": round(_work_of(placed) / sum(_work(integers, node) for node in integers.nodes), 4),
        "largest_program": max((len(node.attributes[REGION].calls) for node in placed), default=0),
        "compile_seconds": round(compile_seconds, 2),
        "simulate_seconds": round(simulate_seconds, 4),
        "real_time_ratio": round(simulate_seconds / board_seconds, 2) if result.cycles else 0.0,
        "peak_share": round(plan.arena_bytes / plan.arena_bytes_without_reuse, 4),
    }
    return figures | _of_products(rows), rows, list(compiled.artifact.programs)


def _work_of(placed: Sequence[Node]) -> int:
    """The work of the operators of regions."""
    bodies = [(node.attributes[BODY], node.attributes[REGION]) for node in placed]
    return sum(_work(body, node) for body, region in bodies for node, *_ in region.calls)


def _work(graph: Graph, node: Node) -> int:
    """The multiply-accumulates of a product, else the elements of results that are computed."""
    if macs := macs_of(graph, node):
        return macs
    if has_trait(node.op, Trait.MOVEMENT | Trait.CONVERSION) or node.op == "vdla.QFactor":
        return 0
    kinds = [graph.types.get(name) for name in node.outputs if name]
    return sum(prod(kind.extents) for kind in kinds if isinstance(kind, TensorType) and kind.static)


def operator_rows(graph: Graph, result: NetworkResult, config: Config) -> list[Row]:
    """A row for each operator of the accelerator in a run of the partitioned `graph`."""
    placed = [node for node in graph.nodes if node.op == ACCELERATED]
    statistics = [step.statistics for step in result.steps if step.statistics is not None]
    rows: list[Row] = []
    for node, stats in zip(placed, statistics, strict=True):
        rows += _rows(node.attributes[REGION], node.attributes[BODY], stats, config)
    return rows


def offloaded_cycles(rows: Sequence[Row]) -> int:
    """The cycles of all convolutions but the first and of the residual additions."""
    first = next((row for row in rows if row["op"] == "vdla.QConv"), None)
    return sum(row["cycles"] for row in rows if row["op"] in _OFFLOADED and row is not first)


def _accelerator_seconds(model: Model, inputs: Row) -> float:
    """CPU seconds of the programs of a run, their tensors copied and their times computed."""
    marks = [time.process_time()]
    run = model.run(inputs, progress=lambda step: marks.append(time.process_time()))
    spent = (end - start for start, end in pairwise(marks))
    return sum(seconds for step, seconds in zip(run.steps, spent, strict=True) if step.statistics is not None)


def _rows(region: AcceleratedRegion, body: Graph, stats: RunStats, config: Config) -> Iterator[Row]:
    """A row for each operator; the bound of an operator without MACs is 0."""
    costs = operator_cycles(region.chain.program, stats, region.lines) or ()
    for cost, (node, *_) in zip(costs, region.calls, strict=True):
        yield {
            "operator": node.name or node.outputs[0],
            "op": node.op,
            "cycles": cost.cycles,
            "bound_cycles": _bound(body, node, config) if macs_of(body, node) else 0,
            "macs": macs_of(body, node),
        }


def _bound(body: Graph, node: Node, config: Config) -> int:
    """The cycles that a product needs at least: for its multiplications or for its tensors."""
    if node.op == "vdla.QConv" and (result := _bound_of_conv(body, node, config)):
        return result
    read, written = (
        sum(prod(body.tensor(name).extents) for name in names) for names in (node.inputs[:2], node.outputs)
    )
    return MachineBound.of(config, macs_of(body, node), read, written).cycles


def _bound_of_conv(body: Graph, node: Node, config: Config) -> int:
    """The bound of a convolution of one group and square windows, without its padding; else 0."""
    options, (batch, channels, *size) = node.attributes, body.tensor(node.inputs[0]).extents
    outputs, _, *kernel = body.tensor(node.inputs[1]).extents
    squares = (kernel, options["strides"], options["pads"])
    if options["group"] > 1 or len(size) != 2 or any(len(set(numbers)) > 1 for numbers in squares):
        return 0
    layer = Workload(
        name=node.name,
        operator="conv2d",
        batch=batch,
        height=size[0],
        width=size[1],
        in_channels=channels,
        out_channels=outputs,
        kernel=kernel[0],
        strides=options["strides"][0],
        pads=options["pads"][0],
        note="",
    )
    return bound(layer, config).cycles


def _of_products(rows: list[Row]) -> Figures:
    """Offloaded cycles, and the shares of the bound over convolutions and over all products."""
    convolutions = [row for row in rows if row["op"] == "vdla.QConv"]
    return {
        "offloaded_cycles": offloaded_cycles(rows),
        "bound_share": _bound_share(convolutions),
        "product_bound_share": _bound_share([row for row in rows if row["bound_cycles"]]),
    }


def _bound_share(rows: list[Row]) -> float:
    spent = total(rows, "cycles")
    return round(total(rows, "bound_cycles") / spent, 4) if spent else 0.0
