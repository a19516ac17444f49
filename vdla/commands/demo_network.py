"""`vdla demo`: a trained network, quantised, compiled, checked bit for bit, and profiled."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from vdla.commands import FINDING, OK
from vdla.commands.arrays import Array
from vdla.commands.console import output, progress
from vdla.commands.machine_options import machine
from vdla.support.atomic import write_text

if TYPE_CHECKING:
    from vdla.hardware.config import Config
    from vdla.runtime.executor import NetworkProfile, NetworkResult
    from vdla.runtime.network import Model

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
    from vdla.runtime.executor import profile_of, write_network_trace

    demo = _measure(machine(arguments), arguments.seed)
    artifact = demo.model.artifact
    profile = profile_of(artifact, demo.results[1:])  # the first run loads kernels
    _show(demo, profile)
    trace = arguments.trace or Path("demo.trace.json")
    write_network_trace(artifact, demo.results[-1], trace)
    output().print(f"\ntrace of a run: {trace}\nopen it in https://ui.perfetto.dev", soft_wrap=True)
    if arguments.html:
        from vdla.commands.profile_page import profile_page

        write_text(arguments.html, profile_page(artifact, profile))
        output().print(f"charts: {arguments.html}", soft_wrap=True)
    return OK if demo.exact == _SIMULATED else FINDING


def _measure(config: Config, seed: int) -> _Demo:
    from vdla.benchmarks.networks.digits import digits
    from vdla.benchmarks.networks.digits_images import held_out_digits, training_digits
    from vdla.compiler.graph.onnx.export import export_model
    from vdla.runtime.network import compile_network
    from vdla.runtime.quantise import quantise
    from vdla.simulator.warm_up import warm_up

    with progress("demo") as show:
        warming = warm_up()  # on the other cores, after an installation
        show("quantise", 0, 5)
        chosen = np.random.default_rng(seed).permutation(len(training_digits().images))[:_CALIBRATION]
        quantised = quantise(digits(batch="batch"), calibration=training_digits().images[chosen])
        show("evaluate in NumPy", 1, 5)
        held_out = held_out_digits()
        in_float = _evaluated(quantised.float_graph, held_out.images)
        in_int8 = _evaluated(quantised.graph, held_out.images)
        show(f"compile for {config.name}", 2, 5)
        content = export_model(quantised.graph).SerializeToString()
        model = compile_network(content, config, extents={"batch": 1})
        show("compile the simulator, once after an installation", 3, 5)
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
    from vdla.runtime.evaluate import INTEGER, Evaluator

    assert isinstance(graph, Graph)
    return np.asarray(Evaluator(run_passes(graph, INTEGER), prefer="numpy").run({"image": images})["logits"])


def _equal(outputs: Mapping[str, Array], expected: Array) -> bool:
    return np.array_equal(outputs["logits"], expected)


def _show(demo: _Demo, profile: NetworkProfile) -> None:
    from vdla.commands.placement_tables import device_table, sentence
    from vdla.commands.profile_tables import operator_table, summary

    console = output()
    console.print("a network for handwritten digits, trained in float, quantised to int8")
    console.print(sentence(demo.model.artifact))
    console.print(f"{demo.exact} of {_SIMULATED} simulated images equal the definition in NumPy, bit for bit")
    accuracy = f"{100 * demo.float_top1:.2f} % in float, {100 * demo.int8_top1:.2f} % in int8"
    console.print(f"accuracy on {demo.images} held-out images: {accuracy}\n")
    console.print(device_table(demo.model.artifact))
    console.print()
    console.print(operator_table(profile, accelerator_only=True))
    console.print()
    for line in summary(profile):
        console.print(line, soft_wrap=True)
