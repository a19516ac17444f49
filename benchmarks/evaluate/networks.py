# SPDX-License-Identifier: Apache-2.0
"""The gallery's extensions in compiled networks, each in a small network with what it is for.

`applied`: extensions that run an operator of the compiled network, or move one to the machine;
`wrong`: elements of its outputs that differ from those of the operators' definitions;
`other_cycles`: networks whose programs take other cycles than the verdict says.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vdla.benchmarks.evaluate import examples
from vdla.benchmarks.harness import Row, Section
from vdla.compiler.extensions import extend
from vdla.compiler.graph.passes import fuse_qdq
from vdla.hardware.config import Config
from vdla.networks.mobilenet import mobilenet_v3
from vdla.networks.registry import GALLERY
from vdla.networks.resnet import resnet18
from vdla.runtime.network.compile_network import compile_network
from vdla.runtime.network.evaluate_nodes import evaluate_node
from vdla.runtime.network.evaluator import evaluate
from vdla.runtime.network.import_network import import_network
from vdla.runtime.network.quantise import quantise
from vdla.runtime.studies.compiled_verdict import CompiledVerdict, evaluate_network
from vdla.simulator.timing import time_program
from vdla.support.progress import Progress, steps

if TYPE_CHECKING:
    from onnx import ModelProto

_SAMPLES = 2
_RESIDUALS = partial(resnet18, image=32, width=16, blocks=(1, 1), classes=10)
_SWISHES = partial(mobilenet_v3, image=32, depth=6, classes=10)
NETWORKS: Mapping[str, Callable[..., ModelProto]] = {
    "argmax": GALLERY["tokens"].build,
    "bit_serial": GALLERY["sign_perceptron"].build,
    "block_floating": GALLERY["block_perceptron"].build,
    "depthwise": _SWISHES,
    "hard_swish": GALLERY["swishes"].build,
    "int4": GALLERY["four_bit_perceptron"].build,
    "lut": _SWISHES,
    "max_pool": GALLERY["sound"].build,
    "prelu": GALLERY["faces"].build,
    "rms_norm": GALLERY["tokens"].build,
    "sad": GALLERY["codebook"].build,
    "softmax": GALLERY["tokens"].build,
    "sparse": GALLERY["sparse_perceptron"].build,
    "xnor": partial(GALLERY["binary_resnet18"].build, image=64),
}
"""The network of an extension, by the name of its page; that of others has residual blocks."""
_MACHINE = Config.preset("pynq_z1")
MACHINES: Mapping[str, Config] = {"block_floating": replace(_MACHINE, wgt_bits=4)}
"""The machine of an extension where it is another one: one whose weights are narrower."""


def networks(progress: Progress, seed: int, names: Iterable[str] = ()) -> Section:
    """Each extension in its network: all of them, or those with these names."""
    rows = list[Row]()
    with tempfile.TemporaryDirectory(prefix="vdla-gallery-") as folder:
        for name in steps(progress, list(names) or examples.pages()):
            model = NETWORKS.get(name, _RESIDUALS)(seed=seed)
            source, plain = examples.write_file(name, Path(folder)), MACHINES.get(name, _MACHINE)
            rows.append({"extension": name} | in_network(source, model, seed, plain))
    figures = {
        "extensions": len(rows),
        "applied": sum(row["applied"] for row in rows),
        "wrong": sum(row["wrong"] for row in rows),
        "other_cycles": sum(row["cycles"] != row["verdict"] for row in rows),
    }
    return Section(figures, rows)


def in_network(source: Path, model: ModelProto, seed: int, plain: Config) -> Row:
    """An extension in a network: the operators that it runs, or the first reason why none."""
    samples = _samples(model, seed)
    integers = any(node.op_type == "QuantizeLinear" for node in model.graph.node)
    graph = import_network(model) if integers else quantise(model, calibration=samples[:1]).graph
    graph = fuse_qdq(graph, partial(evaluate_node, prefer="numpy"))
    verdict = evaluate_network(source, graph, plain)
    with compile_network(graph, extend(plain, source)) as made:
        cycles = sum(time_program(program).total_cycles for program in made.artifact.programs)
        wrong = 0
        for sample in samples:
            wanted, got = evaluate(graph, sample, prefer="definition"), made.run(sample).outputs
            wrong += sum(int(np.count_nonzero(got[name] != wanted[name])) for name in graph.outputs)
    reason = "" if verdict.applies else _first_reason(verdict)
    counts = {"applied": int(verdict.applies), "operators": len(verdict.used), "wrong": wrong}
    before, after = verdict.before.cycles, verdict.after.cycles
    return {"network": graph.name, **counts, "before": before, "cycles": cycles, "verdict": after, "reason": reason}


def _samples(model: ModelProto, seed: int) -> list[dict[str, Any]]:
    """Normal data for the only input of a network."""
    (kind,) = model.graph.input
    shape = [size.dim_value for size in kind.type.tensor_type.shape.dim]
    random = np.random.default_rng(seed)
    return [{kind.name: random.standard_normal(shape).astype(np.float32)} for _ in range(_SAMPLES)]


def _first_reason(verdict: CompiledVerdict) -> str:
    return next((operator.reason for operator in verdict.operators if operator.reason), "no operator could use it")
