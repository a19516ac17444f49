# SPDX-License-Identifier: Apache-2.0
"""Tables, products, splits and repeated pixels on the machine, against the NumPy definitions."""

from __future__ import annotations

from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.seeds import ALL, turn
from onnx import TensorProto, helper, numpy_helper

from vdla.compiler.extensions import extend
from vdla.compiler.graph import Graph
from vdla.hardware.config import Config
from vdla.networks.registry import NETWORKS
from vdla.runtime.executor.run_times import run_times
from vdla.runtime.network.compile_network import compile_network
from vdla.runtime.network.evaluator import Evaluator
from vdla.runtime.network.quantise import quantise

LUT = Path(__file__).parents[3] / "examples" / "look_up_table" / "lut.py"


Arrays = dict[str, np.ndarray[Any, Any]]


@cache
def quantised_network(name: str) -> tuple[Graph, Arrays]:
    """The small variant of a network, quantised, and an input."""
    subject = NETWORKS[name]
    model = subject.build(**subject.small)
    data = [subject.inputs(model, seed=seed) for seed in range(3)]
    return quantise(model, calibration=data[1:], method="minmax").graph, data[0]


def compiled(name: str, config: Config, **options: Any) -> tuple[Any, dict[str, Graph], Arrays]:
    """The small variant of a network for a machine, its graphs by pass, an input."""
    quantised, inputs = quantised_network(name)
    graphs: dict[str, Graph] = {}
    made = compile_network(quantised, config, observe=lambda name, _, after: graphs.update({name: after}), **options)
    return made, graphs, inputs


PAIRED = [
    ("mobilenet_v3", True, "pynq_z1"),
    ("mobilenet_v3", False, "batch4"),
    ("yolo_v8n", True, "batch4"),
]
"""Each network, with and without the stage, on each machine; a release tries all combinations, and
in others the last two take turns.
"""
CHOSEN = [PAIRED[0], PAIRED[1 if turn(0, 2) else 2]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "stage", "preset"),
    list(product(("mobilenet_v3", "yolo_v8n"), (True, False), ("pynq_z1", "batch4"))) if ALL else CHOSEN,
)
def test_networks_of_today_are_exact(name: str, stage: bool, preset: str) -> None:
    config = Config.preset(preset)
    model, graphs, inputs = compiled(name, extend(config, str(LUT)) if stage else config)
    with model:
        outputs = model.run(inputs).outputs
    for output, wanted in Evaluator(graphs["simplify_integers"], prefer="definition").run(inputs).items():
        assert np.array_equal(outputs[output], wanted), output


def test_every_table_of_mobilenet_is_on_the_machine_in_place_of_the_cpu() -> None:
    config = Config.preset("pynq_z1")
    place = {f"block{i}.{part}": "vdla" for i in range(3) for part in ("depthwise", "project")}
    devices = {}
    for machine in (config, extend(config, str(LUT))):
        model, *_ = compiled("mobilenet_v3", machine, place=place)
        steps = [
            (step.placement.device, op.op) for step in model.artifact.plan.steps for op in step.placement.operators
        ]
        devices[machine] = {device for device, op in steps if op == "vdla.QTable"}
        times = run_times(model.artifact)
        assert times is not None and times.total == times.accelerator + times.cpu + times.handover
    assert list(devices.values()) == [{"cpu"}, {"vdla"}]


def test_splits_and_resizes_are_restored_where_the_cpu_runs_them() -> None:
    _, graphs, _ = compiled("yolo_v8n", Config.preset("pynq_z1"), place={"up0": "cpu", "up1": "cpu"})
    ops = [node.op for node in graphs["partition"].nodes]
    assert ops.count("Resize") == 2 and "vdla.QConvTranspose" not in ops


def test_a_machine_without_a_stage_says_so() -> None:
    model, _, _ = compiled("mobilenet_v3", Config.preset("pynq_z1"))
    reasons = {
        op.reason for step in model.artifact.plan.steps for op in step.placement.operators if op.op == "vdla.QTable"
    }
    assert reasons == {
        "on the accelerator it must run on a machine that looks results up on their way out, "
        "got one without such a stage"
    }


@pytest.mark.sampled
@pytest.mark.parametrize("axis", [0, 1, -2])
@pytest.mark.parametrize("parts", [(3, 13), (16,)], ids=str)
@pytest.mark.parametrize("batch", [16, "n"])
def test_splits_of_open_and_fixed_extents_are_exact(batch: int | str, parts: tuple[int, ...], axis: int) -> None:
    """[16, 16, 16] through a convolution, a table, a split and more convolutions."""
    generator = np.random.default_rng(5)
    names = [f"part{i}" for i in range(len(parts))]
    channels = [count if axis in (1, -2) else 16 for count in parts]
    weights = {"w": generator.normal(size=(16, 5, 3)).astype(np.float32)}
    weights |= {f"w{i}": generator.normal(size=(4, count, 1)).astype(np.float32) for i, count in enumerate(channels)}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1]),
        helper.make_node("Sigmoid", ["c"], ["s"]),
        helper.make_node("Split", ["s", "sizes"], names, axis=axis),
        *(helper.make_node("Conv", [name, f"w{i}"], [f"y{i}"]) for i, name in enumerate(names)),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 5, 16])]
    outputs = [helper.make_empty_tensor_value_info(f"y{i}") for i in range(len(parts))]
    constants = [numpy_helper.from_array(x, name) for name, x in {**weights, "sizes": np.array(parts)}.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    data = [generator.normal(size=(16, 5, 16)).astype(np.float32) for _ in range(3)]
    quantised = quantise(model, calibration=data[1:]).graph
    with compile_network(quantised, Config.preset("pynq_z1")) as made, compile_network(quantised, "host") as host:
        results, wanted = made.run({"x": data[0]}).outputs, host.run({"x": data[0]}).outputs
    for name, value in wanted.items():
        assert np.array_equal(results[name], value), name
