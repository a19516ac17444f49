# SPDX-License-Identifier: Apache-2.0
"""Certificates of programs of the plug-ins of the toolkit, and of networks with them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import vdla
from vdla import Config, definitions, te
from vdla.compiler.certificates import extension_run, step_batches
from vdla.compiler.certificates.certify import certify
from vdla.compiler.certificates.graph_run import run_graph
from vdla.compiler.certificates.program_run import run_program
from vdla.compiler.certificates.step_batches import levels
from vdla.compiler.certificates.symbols import CertificateError, numbers
from vdla.compiler.graph import Graph, Node, TensorType
from vdla.compiler.operators.definitions.definition import requantised_by
from vdla.compiler.plug_ins import norm, softmax, transpose
from vdla.hardware.isa import COL, EXTENSION, EXTENSION_COLUMN, isa_of, with_fields
from vdla.hardware.numerics import pack_scale, scales_from_floats
from vdla.networks.vision_transformer import vit_small
from vdla.runtime.network.compile_network import compile_network
from vdla.runtime.network.evaluator import evaluate
from vdla.runtime.network.quantise import quantise
from vdla.verification.programs.random_data import random_arrays

MACHINES = {
    "tiny": vdla.extend(Config.preset("tiny"), "softmax", "norm", "transpose"),
    "pynq_z1": vdla.extend(Config.preset("pynq_z1"), "softmax", "norm", "transpose"),
}
KINDS = ("softmax", "norm", "root mean square", "factor", "transposed factor")


def factor(transposed: bool) -> tuple[Any, te.Tensor]:
    """A second factor, and what its program computes for any scale."""
    layer = definitions.second_factor(matrices=2, rows=9, columns=6, transposed=transposed)
    data, shape = layer.inputs[0], layer.output.shape
    wide = te.compute(shape, lambda m, k, n: te.cast("int32", data[m, n, k] if transposed else data[m, k, n]), "wide")
    return layer, requantised_by(wide, (1,), lambda _: (te.const(0, "int32"),))[1]


def case(kind: str, machine: str) -> tuple[Any, te.Tensor]:
    """The program of a plug-in and what it computes."""
    rows, config = {"matrices": 2, "rows": 5}, MACHINES[machine]
    if kind == "softmax":
        layer = definitions.row_softmax(**rows, keys=21, factor=5000)
        return softmax.program(layer, config), layer.output
    if kind in ("norm", "root mean square"):
        layer = definitions.row_norm(**rows, features=21, centred=kind == "norm", least=3)
        return norm.program(layer, config), layer.output
    layer, result = factor(kind == "transposed factor")
    return transpose.program(layer, config), result


@pytest.mark.sampled
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("kind", KINDS)
def test_programs_of_plug_ins_hold(kind: str, machine: str) -> None:
    certificate = certify(*case(kind, machine))
    assert certificate.holds, certificate
    assert not certificate.overflows


@pytest.mark.sampled
@pytest.mark.parametrize("kind", KINDS)
def test_programs_of_plug_ins_on_numbers_are_the_simulation(kind: str) -> None:
    program = case(kind, "tiny")[0].program
    arrays = random_arrays(program, 5)
    outputs = run_program(program, {name: numbers(array) for name, array in arrays.items()})
    for name, simulated in vdla.simulate(program, arrays).outputs.items():
        assert (outputs[name]["low"] == simulated).all()
        assert (outputs[name]["high"] == simulated).all()


FAULTS = [
    ("softmax", "softmax", "factor", 1),
    ("softmax", "softmax_total", "factor", 1),
    ("softmax", "softmax_most", "count", -1),
    ("softmax", "softmax", "wgt1", -1),
    ("norm", "norm_sums", "count", -1),
    ("norm", "norm_spread", "least", 1),
    ("norm", "norm_mean", "over", 1),
    ("norm", "norm", "blocks", 1),
    ("factor", "transpose", "src1", 1),
    ("factor", "transpose", "src0", 1),
]


@pytest.mark.sampled
@pytest.mark.parametrize(("kind", "name", "field", "more"), FAULTS)
def test_a_field_of_a_step_that_is_wrong_does_not_hold(kind: str, name: str, field: str, more: int) -> None:
    layer, wanted = case(kind, "tiny")
    program, words = layer.program, layer.program.words.copy()
    number = [plug_in.name for plug_in in program.config.extensions].index(name)
    columns, places = program.columns, isa_of(program.config).col
    steps = (columns[:, COL["opcode"]] == EXTENSION) & (columns[:, EXTENSION_COLUMN] == number)
    index = int(np.flatnonzero(steps)[0])
    value = columns[index, places.get(f"{name}.{field}", places.get(field))] + more
    words[index] = with_fields(program.config, words[index : index + 1], {field: np.array([value])})[0]
    assert not certify(layer, wanted, program=replace(program, words=words), explain=False).holds


@pytest.mark.sampled
@pytest.mark.parametrize("kind", ["softmax", "norm", "factor"])
def test_steps_at_once_are_steps_one_by_one(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    layer, wanted = case(kind, "tiny")
    together = certify(layer, wanted)
    monkeypatch.setattr(extension_run, "levels", lambda count, _: list(np.arange(count)[:, None]))
    monkeypatch.setattr(extension_run.StateSequence, "run", lambda *_: extension_run.SequenceOfStates())
    assert certify(layer, wanted) == together
    assert together.holds


def test_steps_of_one_place_run_in_order() -> None:
    rows, sums = np.array([0, 1, 0, 2, 0]), np.array([5, 6, 7, 6, 8])
    every = slice(None)
    assert [level.tolist() for level in levels(5, [(rows, every)])] == [[0, 1, 3], [2], [4]]
    assert [level.tolist() for level in levels(5, [(rows, every), (sums, every)])] == [[0, 1], [2, 3], [4]]
    ends = np.array([False, True, False, True, False])
    assert [level.tolist() for level in levels(5, [(sums, ends)])] == [[0, 1, 2, 4], [3]]
    assert [level.tolist() for level in levels(3, [])] == [[0, 1, 2]]


def test_equal_parts_of_a_behaviour_are_evaluated_once() -> None:
    """The second root of a norm reads the variance at thousands of places of its tree."""
    config = MACHINES["pynq_z1"]
    plug_in = next(one for one in config.extensions if one.name == "norm_root")
    fn = step_batches.batched(extension_run._declared(config, plug_in).behaviour, 4, (), ["norm_root"])
    assert len(step_batches.loads_of(fn.body)) < 5
    assert fn.buffers["row"].dims == (4, 1, 3)


def test_a_layer_program_needs_what_it_must_compute() -> None:
    layer, _ = case("softmax", "tiny")
    with pytest.raises(CertificateError) as caught:
        certify(layer)  # type: ignore[call-overload]
    assert str(caught.value) == "certify: expression must be the output of the layer's definition, got NoneType"


# --- operators of rows ----------------------------------------------------------------------------


def scaled(factor: float) -> dict[str, Any]:
    """How results are requantised."""
    multiplier, shift = scales_from_floats(np.array([factor]))
    return {"multiplier": multiplier, "shift": shift, "y_zero_point": -3, "low": -128, "high": 120}


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("vdla.QRowSoftmax", {"factor": 9000, **scaled(2.0**-16)}),
        ("vdla.QRowNorm", {"centred": 1, "least": 2, **scaled(0.01)}),
        ("vdla.QRowNorm", {"centred": 0, "least": 0, **scaled(0.01)}),
        ("vdla.QFactor", {"transposed": 0}),
        ("vdla.QFactor", {"transposed": 1}),
    ],
)
def test_operators_of_rows_on_numbers_are_those_of_numpy(op: str, attributes: dict[str, Any]) -> None:
    rng, shape = np.random.default_rng(0), (2, 40, 17)
    x = rng.integers(-128, 128, shape).astype(np.int8)
    x[0, 0], x[0, 1, 1:] = 0, -128
    result = (2, 17, 40) if attributes.get("transposed") else shape
    constants = {}
    if op == "vdla.QRowNorm":
        constants = {"sign": rng.choice([-1, 1], 17).astype(np.int8), "bias": rng.integers(-99, 99, 17)}
        constants["bias"] = constants["bias"].astype(np.int32)
    types = {"x": TensorType("int8", shape), "y": TensorType("int8", result)}
    types |= {name: TensorType(str(array.dtype), array.shape) for name, array in constants.items()}
    graph = Graph("g", ("x",), ("y",), (Node(op, ("x", *constants), ("y",), attributes),), constants, types)
    made = run_graph(graph, {"x": numbers(x)})["y"]
    wanted = evaluate(graph, {"x": x}, prefer="numpy")["y"]
    assert len(np.unique(wanted)) > 9
    assert np.array_equal(made["low"], wanted)
    assert np.array_equal(made["high"], wanted)


def test_a_requantisation_by_1_changes_no_element() -> None:
    """As the certificates of `vdla.QFactor` say it."""
    config = MACHINES["tiny"]
    data = np.arange(-128, 128, dtype=np.int8).reshape(1, 64, 4)
    given = transpose.program(definitions.second_factor(matrices=1, rows=16, columns=4, transposed=True), config)
    one = pack_scale(np.zeros(1, np.int64), *scales_from_floats(np.ones(1))).view(np.int64)
    for begin in range(0, 64, 16):
        part = data[:, begin : begin + 16]
        packed = given.pack({"data": part, "scale": one})
        assert np.array_equal(given.unpack(vdla.simulate(given.program, packed).outputs), part.swapaxes(1, 2))


# --- networks -------------------------------------------------------------------------------------


def test_a_vision_transformer_is_certified_with_all_plug_ins() -> None:
    sizes = {"image": 32, "patch": 8, "width": 32, "depth": 1, "heads": 2, "classes": 4}
    rng = np.random.default_rng(0)
    images = [{"image": image} for image in rng.normal(0, 1, (2, 1, 3, 32, 32)).astype(np.float32)]
    graph = quantise(vit_small(**sizes), calibration=images).graph
    machine = vdla.extend(Config.preset("pynq_z1"), "softmax", "norm", "transpose", "lut")
    with compile_network(graph, machine, certify=False) as model:
        certificate = certify(model)
    assert certificate.holds, certificate
    assert max(region.nodes for region in certificate.regions) > 10
