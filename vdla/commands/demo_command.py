# SPDX-License-Identifier: Apache-2.0
"""`vdla demo`: a trained network, quantised, compiled, checked bit for bit, and profiled.

With --layer, one layer of ResNet-18, checked and timed with two virtual threads and with one.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from vdla.commands import FINDING, OK, CommandError
from vdla.commands.arrays import Array
from vdla.commands.console import listing, output, progress
from vdla.commands.files import require_folder
from vdla.commands.machine_options import add_machine_arguments, machine
from vdla.commands.options import add_options
from vdla.support.atomic import write_text

if TYPE_CHECKING:
    from vdla.compiler.operators.workload_bound import MachineBound
    from vdla.compiler.operators.workloads import Workload
    from vdla.hardware.config import Config
    from vdla.runtime.diagnosis.layers import LayerRun
    from vdla.runtime.executor.executor import NetworkResult
    from vdla.runtime.executor.model import Model
    from vdla.runtime.executor.profile import NetworkProfile


_CALIBRATION = 32  # images
_SIMULATED = 20  # images that run on the simulator


@dataclass(frozen=True, slots=True)
class _Demo:
    """`float_top1` and `int8_top1` are of `images` held-out images."""

    model: Model
    results: list[NetworkResult]
    exact: int
    float_top1: float
    int8_top1: float
    images: int


def demo_network(arguments: argparse.Namespace) -> int:
    """Print placement, accuracy and cycles; exit code 1 when a result is not exact."""
    from vdla.runtime.executor.profile import profile_of, write_network_trace

    demo = _run_network(machine(arguments), arguments.seed)
    artifact = demo.model.artifact
    profile = profile_of(artifact, demo.results[1:])  # the first run loads kernels
    _show_network(demo, profile)
    trace = arguments.trace or Path("demo.trace.json")
    write_network_trace(artifact, demo.results[-1], trace)
    output().print(f"\ntrace of a run: {trace}\nopen it in https://ui.perfetto.dev", soft_wrap=True)
    if arguments.html:
        from vdla.commands.profile_page import profile_page

        write_text(arguments.html, profile_page(artifact, profile))
        output().print(f"charts: {arguments.html}", soft_wrap=True)
    return OK if demo.exact == _SIMULATED else FINDING


def _run_network(config: Config, seed: int) -> _Demo:
    from vdla.simulator.warm_up import prepare, warm_up

    warming = warm_up(("function",))  # on another core, after an installation
    from vdla.compiler.graph.onnx.export import export_model
    from vdla.networks.digits import digits
    from vdla.networks.digits_images import held_out_digits, training_digits
    from vdla.runtime.network.compile_network import compile_network
    from vdla.runtime.network.quantise import quantise

    with progress("demo") as show:
        show("quantise", 0, 5)
        chosen = np.random.default_rng(seed).permutation(len(training_digits().images))[:_CALIBRATION]
        quantised = quantise(digits(batch="batch"), calibration=training_digits().images[chosen])
        show("evaluate in NumPy", 1, 5)
        held_out = held_out_digits()
        in_float = _evaluated(quantised.float_graph, held_out.images)
        in_int8 = _evaluated(quantised.graph, held_out.images)
        show(f"compile for {config.name}, the simulator too after an installation", 2, 5)
        content = export_model(quantised.graph).SerializeToString()
        prepare("timing")  # the compiler of networks times what it may choose
        model = compile_network(content, config, extents={"batch": 1}, certify=False)
        show("compile the simulator", 3, 5)
        warming.wait()
        show("run", 4, 5)
        with model:
            results = [model.run({"image": held_out.images[k : k + 1]}) for k in range(_SIMULATED)]
    exact = sum(_equal(result.outputs, in_int8[k : k + 1]) for k, result in enumerate(results))
    top1 = held_out.top1(in_float), held_out.top1(in_int8)
    return _Demo(model, results, exact, *top1, len(held_out.images))


def _evaluated(graph: object, images: Array) -> Array:
    """The logits by the definition of every operator, in NumPy; quantised ones use integers."""
    from vdla.compiler.graph import Graph
    from vdla.compiler.graph.passes import run_passes
    from vdla.runtime.network.evaluate_nodes import INTEGER
    from vdla.runtime.network.evaluator import Evaluator

    assert isinstance(graph, Graph)
    return np.asarray(Evaluator(run_passes(graph, INTEGER), prefer="numpy").run({"image": images})["logits"])


def _equal(outputs: Mapping[str, Array], expected: Array) -> bool:
    return np.array_equal(outputs["logits"], expected)


def _show_network(demo: _Demo, profile: NetworkProfile) -> None:
    from vdla.commands.placement_tables import device_table, sentence
    from vdla.commands.profile_tables import operator_table, summary

    console = output()
    console.print("a network for handwritten digits, trained in float, quantised to int8")
    console.print(sentence(demo.model.artifact))
    console.print(f"{demo.exact} of {_SIMULATED} simulated images equal the definition in NumPy, bit for bit")
    accuracy = f"{100 * demo.float_top1:.2f} % in float, {100 * demo.int8_top1:.2f} % in int8"
    console.print(f"accuracy on {demo.images} held-out images: {accuracy}\n")
    console.print(listing(device_table(demo.model.artifact)))
    console.print()
    console.print(operator_table(profile, accelerator_only=True))
    console.print()
    for line in summary(profile):
        console.print(line, soft_wrap=True)


EXAMPLES = """\
  vdla demo                     a network for digits, on pynq_z1
  vdla demo --layer C6          a layer of ResNet-18, with and without threads
  vdla demo --preset ultra96    another machine
  vdla demo --trace c6.json     where the trace goes; open it in ui.perfetto.dev
  vdla demo --html demo.html    a page with roofline and timeline
"""

_THREADS = {"two threads": 2, "one thread": 1}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The layer, the machine, the files."""
    layers = [f"C{number}" for number in range(1, 13)]
    add_options(parser, {"--layer NAME": "one convolution instead, C1 to C12"}, lambda: layers)
    add_machine_arguments(parser)
    add_options(
        parser,
        {
            "--trace FILE": "the Perfetto trace (default: demo.trace.json)",
            "--html FILE": "write a page with roofline and timeline to FILE",
            "--seed SEED = 0": "seed of the random data (default 0)",
        },
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the tables, write the files; exit code 1 when a result is not exact."""
    if arguments.html:
        require_folder("demo", "--html", arguments.html)
    if arguments.layer is None:
        return demo_network(arguments)
    return _demo_layer(arguments)


def _demo_layer(arguments: argparse.Namespace) -> int:
    from vdla.compiler.operators.workload_bound import bound
    from vdla.compiler.operators.workloads import workload

    layer, config = workload(arguments.layer), machine(arguments)
    if layer.operator != "conv2d":
        raise CommandError(f"demo: layer must be a convolution, C1 to C12, got {layer.name} ({layer.operator})")
    runs, limit = _measure(layer, config, arguments.seed), bound(layer, config)
    _show(layer, config, limit, runs)
    _trace(runs["two threads"], arguments.trace or Path("demo.trace.json"))
    if arguments.html:
        _page(arguments.html, layer, config, limit, runs)
    return OK if all(run.exact for run in runs.values()) else FINDING


def _measure(layer: Workload, config: Config, seed: int) -> dict[str, LayerRun]:
    from vdla.runtime.diagnosis.layers import layer_operator, measure
    from vdla.simulator.warm_up import warm_up

    with progress("demo") as show:
        warming = warm_up()  # on the other cores, after an installation
        operators = {}
        for index, (label, threads) in enumerate(_THREADS.items()):
            show(f"compile {layer.name}, {label}", index, 5)
            operators[label] = layer_operator(layer, config, threads)
            _ = operators[label].program
        show("compile the simulator, once after an installation", 2, 5)
        warming.wait()
        runs = {}
        for index, (label, operator) in enumerate(operators.items()):
            show(f"run {layer.name}, {label}", 3 + index, 5)
            runs[label] = measure(layer, operator, seed)
    return runs


def _show(layer: Workload, config: Config, limit: MachineBound, runs: Mapping[str, LayerRun]) -> None:
    from vdla.commands import run_tables

    stats = {label: run.stats for label, run in runs.items()}
    console = output()
    for line in (_headline(layer, config), *_notes(limit)):
        console.print(line)
    console.print()
    console.print(run_tables.comparison("result", stats, run_tables.FIGURES, _result_rows(limit, runs)))
    console.print()
    console.print(run_tables.comparison("roofline", stats, run_tables.ROOFLINE))
    for label, run in runs.items():
        console.print()
        console.print(run_tables.stalls(label, run.stats))


def _notes(limit: MachineBound) -> tuple[str, str]:
    return (
        f"lower bound: {limit.cycles:,} cycles, for {_bound_by(limit)}",
        "two virtual threads overlap loads with computation, one does not",
    )


def _result_rows(limit: MachineBound, runs: Mapping[str, LayerRun]) -> dict[str, list[str]]:
    """Rows of the table of results: the comparison with NumPy and with the bound."""
    return {
        "compared with NumPy": ["exact" if run.exact else "WRONG" for run in runs.values()],
        "cycles / bound": [f"{run.stats.total_cycles / limit.cycles:.3f}" for run in runs.values()],
    }


def _page(path: Path, layer: Workload, config: Config, limit: MachineBound, runs: Mapping[str, LayerRun]) -> None:
    from vdla.commands.run_page import run_page

    programs = {label: (run.program, run.stats) for label, run in runs.items()}
    rows = list(_result_rows(limit, runs).items())
    write_text(path, run_page(_headline(layer, config), _notes(limit), rows, programs))
    output().print(f"\ncharts of both runs: {path}", soft_wrap=True)


def _headline(layer: Workload, config: Config) -> str:
    channels = f"{layer.in_channels} to {layer.out_channels} channels"
    kernel = f"{layer.kernel}x{layer.kernel} kernel"
    image = f"{layer.height}x{layer.width}"
    return f"{layer.name} of ResNet-18: {image}, {channels}, {kernel}, {config.inp_dtype}, on {config.name}"


def _bound_by(limit: MachineBound) -> str:
    texts = {
        "compute": f"{limit.macs:,} multiply-accumulates",
        "reads": f"{limit.read_bytes:,} bytes read",
        "writes": f"{limit.written_bytes:,} bytes written",
    }
    return texts[limit.limited_by]


def _trace(run: LayerRun, path: Path) -> None:
    from vdla.simulator.stats import RunTrace

    RunTrace(run.program, run.stats).write(path)
    output().print(f"\ntrace of the run with two threads: {path}\nopen it in https://ui.perfetto.dev", soft_wrap=True)
