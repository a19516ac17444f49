# SPDX-License-Identifier: Apache-2.0
"""Networks compiled with images in blocks of channels, against the evaluator of plain graphs."""

import os

import numpy as np
import pytest
from helpers.graphs import small_graph
from helpers.random_network import RandomNetwork

from vdla.compiler.graph import Graph, Node, TensorType
from vdla.compiler.graph.onnx import import_model
from vdla.compiler.graph.passes import choose_layouts, run_passes
from vdla.compiler.target import Target
from vdla.runtime.executor.artifact import Artifact
from vdla.runtime.executor.model import Model
from vdla.runtime.executor.plan import KernelStep, NumpyStep
from vdla.runtime.native import threads
from vdla.runtime.network.compile_network import compile_network
from vdla.runtime.network.evaluate_nodes import PREPARATION
from vdla.runtime.network.evaluator import evaluate

TARGETS = ("x86-64-avx512", "x86-64-avx2", "cortex-a9")


def check_close(got, wanted):
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5 * np.abs(wanted).max())


@pytest.mark.parametrize("seed", range(60))
def test_random_networks_keep_their_values(seed):
    network = RandomNetwork(seed, length=4 + seed % 12)
    graph = run_passes(import_model(network.build()), PREPARATION)
    made = choose_layouts(graph, Target.named(TARGETS[seed % len(TARGETS)]))
    inputs = network.inputs(0)
    wanted, got = (evaluate(each, inputs, prefer="numpy") for each in (graph, made))
    for name in graph.outputs:
        check_close(got[name], wanted[name])


def test_kernels_of_much_work_run_on_all_processors():
    nodes = [Node("Conv", ("x", "w"), ("a",), {"pads": (1, 1, 1, 1)}), Node("Relu", ("a",), ("y",))]
    model = compile_network(small_graph(nodes, (1, 64, 56, 56), w=np.ones((64, 64, 3, 3), np.float32)))
    (kernel,) = model.artifact.kernels
    assert b"vdla_parallel" in kernel.object
    assert threads() == len(os.sched_getaffinity(0))


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(4))
def test_compiled_random_networks_keep_their_values(seed):
    network = RandomNetwork(100 + seed, length=10)
    source = network.build()
    model = compile_network(source, "x86-64-avx2" if seed % 2 else "host")
    assert all(isinstance(step, KernelStep) for step in model.artifact.plan.steps)
    inputs = network.inputs(0)
    (wanted,) = evaluate(import_model(source), inputs, prefer="numpy").values()
    check_close(model(**inputs), wanted)


def test_a_result_that_is_computed_in_blocks_has_the_reason_of_its_node():
    weight, pads = np.ones((32, 32, 3, 3), np.float32), {"pads": (1, 1, 1, 1)}
    nodes = (
        Node("Conv", ("image", "w"), ("sums",), pads),
        Node("MaxPool", ("sums",), ("x",), {**pads, "kernel_shape": (3, 3)}),
        Node("Conv", ("x", "w"), ("y",), pads, "last"),
    )
    types = {name: TensorType("float32", (1, 32, 32, 32)) for name in ("image", "sums", "x", "y")}
    types["w"] = TensorType("float32", weight.shape)
    graph = Graph("g", ("image",), ("y",), nodes, {"w": weight}, types)
    artifact = compile_network(graph, "pynq_z1", cpu="x86-64-avx2").artifact
    placed = {op.name: op for step in artifact.plan.steps for op in step.placement.operators}
    assert placed["last"].op == "Conv"
    assert placed["last"].reason == "on the accelerator it must be quantised"
    assert placed["y"].op == "vdla.Repack"
    assert placed["y"].reason == ""


def test_a_numpy_function_between_kernels_reads_and_writes_blocks(tmp_path):
    """Pad has no kernel where its value is computed; its layouts are saved with the network."""
    weight, around = np.random.default_rng(0).normal(0, 0.1, (20, 20, 3, 3)).astype(np.float32), np.zeros(8, np.int64)
    around[[2, 7]] = 1, 2
    nodes = [
        Node("ReduceMax", ("x",), ("most",), {"keepdims": 0}),
        Node("Conv", ("x", "w"), ("a",), {"pads": (1, 1, 1, 1)}),
        Node("Pad", ("a", "around", "most"), ("b",)),
        Node("Conv", ("b", "w"), ("c",), {"pads": (1, 1, 1, 1)}),
        Node("GlobalAveragePool", ("c",), ("y",)),
    ]
    wide = dict.fromkeys("bc", (1, 20, 10, 11))
    graph = small_graph(nodes, (1, 20, 9, 9), shapes={"most": (), **wide, "y": (1, 20, 1, 1)}, w=weight, around=around)
    compile_network(graph, "host").artifact.save(tmp_path / "model")
    artifact = Artifact.load(tmp_path / "model")
    [step] = (step for step in artifact.plan.steps if isinstance(step, NumpyStep))
    lanes = {name: layout.lanes for name, layout in step.layouts.items()}
    assert (step.op, *lanes.keys()) == ("Pad", *step.inputs[:1], *step.outputs)
    assert [artifact.plan.values[name].shape[4] for name in lanes] == list(lanes.values())
    x = np.random.default_rng(1).normal(0, 1, (1, 20, 9, 9)).astype(np.float32)
    (wanted,) = evaluate(graph, {"x": x}, prefer="numpy").values()
    with Model(artifact) as model:
        check_close(model(x), wanted)
