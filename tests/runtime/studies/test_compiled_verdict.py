# SPDX-License-Identifier: Apache-2.0
"""A network without and with an extension: the figures are those of the compiled networks."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from vdla.compiler.extensions import extend
from vdla.hardware.config import Config
from vdla.networks.mobilenet import mobilenet_v1
from vdla.networks.registry import NETWORKS
from vdla.runtime.network.compile_network import compile_network
from vdla.runtime.network.quantise import quantise
from vdla.runtime.studies.compiled_verdict import evaluate_network
from vdla.runtime.studies.energy import network_energy
from vdla.runtime.studies.layers import EvaluateError

EXAMPLES = Path(__file__).parents[3] / "examples"
DEPTHWISE, LUT = EXAMPLES / "depthwise" / "depthwise.py", EXAMPLES / "look_up_table" / "lut.py"
PYNQ = Config.preset("pynq_z1")


@pytest.mark.slow
def test_cycles_are_those_of_the_compiled_networks() -> None:
    model = mobilenet_v1(image=48, width=0.5, depth=3, classes=10)
    data = np.random.default_rng(0).standard_normal((2, 1, 3, 48, 48)).astype(np.float32)
    graph = quantise(model, calibration=[{"image": image} for image in data]).graph
    verdict = evaluate_network(DEPTHWISE, graph, PYNQ)
    for config, network in ((PYNQ, verdict.before), (extend(PYNQ, DEPTHWISE), verdict.after)):
        plan = compile_network(graph, config).artifact.plan
        assert network.cycles == sum(step.placement.cycles or 0 for step in plan.steps)
    used = {operator.name for operator in verdict.used}
    assert used and used <= {f"block{index}.depthwise" for index in range(3)} and verdict.applies
    assert all(operator.extensions == ("dw",) and not operator.reason for operator in verdict.used)
    gained = sum(
        operator.before.cycles - operator.after.cycles
        for operator in verdict.operators
        if operator.before is not None
        and operator.after is not None
        and operator.before.cycles is not None
        and operator.after.cycles is not None
    )
    assert gained == verdict.before.cycles - verdict.after.cycles > 0
    assert verdict.speedup is not None and verdict.speedup > 1
    reasons = {operator.reason for operator in verdict.operators if operator.name.endswith("pointwise")}
    assert reasons == {"fit a program of an extension; operator must be depthwise_convolution, got convolution"}
    document = json.loads(json.dumps(verdict.to_dict()))
    assert document["after"]["cycles"] == verdict.after.cycles and document["speedup"] == verdict.speedup


@pytest.mark.slow
def test_tables_move_from_the_cpu_to_a_machine_with_a_stage() -> None:
    subject = NETWORKS["mobilenet_v3"]
    verdict = evaluate_network(LUT, subject.build(**subject.small), PYNQ)
    moved = [operator for operator in verdict.operators if operator.moved and operator.op == "vdla.QTable"]
    assert moved and all(operator.extensions == ("lut",) for operator in moved)
    assert verdict.after.operators > verdict.before.operators
    times = verdict.before.times, verdict.after.times
    assert times[0] is not None and times[1] is not None and times[1].cpu < times[0].cpu


@pytest.mark.slow
def test_several_extensions_are_on_one_machine_whose_energy_is_estimated() -> None:
    model = mobilenet_v1(image=48, width=0.5, depth=3, classes=10)
    data = np.random.default_rng(0).standard_normal((2, 1, 3, 48, 48)).astype(np.float32)
    graph = quantise(model, calibration=[{"image": image} for image in data]).graph
    verdict = evaluate_network((DEPTHWISE, LUT), graph, PYNQ, energy="45nm")
    assert verdict.extensions == ("dw", "dw_taps", "dw_factors", "dw_clear", "lut_load", "lut")
    assert {name for operator in verdict.used for name in operator.extensions} == {"dw"}
    assert verdict.energy is not None
    for config, energy in ((PYNQ, verdict.energy.before), (extend(PYNQ, DEPTHWISE, LUT), verdict.energy.after)):
        made = network_energy(compile_network(graph, config).artifact, "45nm")
        assert made is not None and energy.total == made.total.total
    document = json.loads(json.dumps(verdict.to_dict()))
    assert document["energy"]["after"]["estimated_pj"] == verdict.energy.after.to_dict()["estimated_pj"]
    *_, table = verdict.tables()
    assert table.title == "energy by 45nm, estimated" and len(table.rows) == 5


def identity(kind: int, shape: list[int | str]) -> bytes:
    """A model that the machine does not run."""
    values = [helper.make_tensor_value_info(name, kind, shape) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "negation", values[:1], values[1:])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    content: bytes = made.SerializeToString()
    return content


def test_inputs_without_data_must_be_floats_of_known_extents() -> None:
    for kind, shape in ((TensorProto.INT32, [2, 3]), (TensorProto.FLOAT, ["n", 3])):
        with pytest.raises(EvaluateError, match="inputs without --calibration must be floats of known extents, got"):
            evaluate_network(LUT, identity(kind, shape), PYNQ)
