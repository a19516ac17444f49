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
from vdla.runtime.executor.plan import KernelStep
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
    assert placed["last"].op == "vdla.BlockedConv"
    assert placed["last"].reason == "on the accelerator it must compute in integers; it is not quantised"
    assert placed["y"].op == "vdla.FromBlocked"
    assert placed["y"].reason == ""
