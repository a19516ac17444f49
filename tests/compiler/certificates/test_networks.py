# SPDX-License-Identifier: Apache-2.0
"""Certificates of networks: operators against NumPy's, regions that hold, faults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from helpers.integer_layers import LAYERS, IntegerLayers

import vdla
from vdla.compiler.certificates.graph_run import NotProvableError, run_graph
from vdla.compiler.certificates.network_certificate import NetworkCertificate, certify_network
from vdla.compiler.certificates.symbols import CertificateError, numbers
from vdla.compiler.graph import Graph, Node, TensorType
from vdla.compiler.graph.accelerator import expressions_from_bytes, expressions_to_bytes
from vdla.compiler.graph.machine.matmul_call import row_terms
from vdla.hardware.isa import COL, Buffer, Opcode, with_fields
from vdla.runtime.executor.model import Model
from vdla.runtime.network.compile_network import compile_network
from vdla.runtime.network.evaluator import evaluate
from vdla.runtime.numpy_operators import FUNCTIONS

Array = np.ndarray[Any, np.dtype[Any]]


def layers(seed: int, shape: tuple[int, ...], *kinds: str) -> Graph:
    made = IntegerLayers(seed, shape)
    for kind in kinds:
        made.layer(kind)
    return made.graph()


@cache
def network(seed: int = 3, *kinds: str, machine: str = "tiny") -> Model:
    """Layers of 5 x 6 images, all on the machine."""
    graph = layers(seed, (1, 6, 5, 6), *(kinds or ("conv", "depthwise", "add", "conv")))
    return compile_network(graph, machine, place={node.outputs[0]: "vdla" for node in graph.nodes})


# --- integer operators ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("shape", [(1, 6, 5, 6), (2, 4, 7)])
def test_operators_on_numbers_are_those_of_numpy(kind: str, shape: tuple[int, ...]) -> None:
    for seed in range(3):
        graph = layers(seed, shape, kind)
        x = np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8)
        wanted = evaluate(graph, {"x": x}, prefer="numpy")
        values = run_graph(graph, {"x": numbers(x)})
        for name, array in wanted.items():
            assert np.array_equal(values[name]["low"], array), (seed, name)
            assert np.array_equal(values[name]["high"], array), (seed, name)


def test_products_of_activations_on_numbers_are_those_of_numpy() -> None:
    rng = np.random.default_rng(0)
    shapes = {"a": (2, 3, 5), "b": (2, 5, 4), "y": (2, 3, 4)}
    scale = {"multiplier": np.array([11 << 20]), "shift": np.array([32])}
    attributes = {**scale, "a_zero_point": 3, "b_zero_point": -7, "y_zero_point": 1, "low": -100, "high": 90}
    types = {name: TensorType("int8", shape) for name, shape in shapes.items()}
    graph = Graph("g", ("a", "b"), ("y",), (Node("vdla.QMatMul", ("a", "b"), ("y",), attributes),), {}, types)
    given = {name: rng.integers(-128, 128, shapes[name]).astype(np.int8) for name in ("a", "b")}
    values = run_graph(graph, {name: numbers(array) for name, array in given.items()})
    assert np.array_equal(values["y"]["low"], evaluate(graph, given, prefer="numpy")["y"])


ZEROS = [(0, 0), (3, -7), (0, 128 - 256), (-5, 0), (127, 127)]


@pytest.mark.parametrize(("a_zero", "b_zero"), ZEROS)
def test_products_of_activations_have_the_terms_of_their_zero_points(a_zero: int, b_zero: int) -> None:
    shapes = {"a": (2, 6, 10), "b": (2, 10, 6), "y": (2, 6, 6)}
    scale = {"multiplier": np.array([11 << 20]), "shift": np.array([36])}
    attributes = {**scale, "a_zero_point": a_zero, "b_zero_point": b_zero, "y_zero_point": 1, "low": -128, "high": 127}
    types = {name: TensorType("int8", shape) for name, shape in shapes.items()}
    graph = Graph("g", ("a", "b"), ("y",), (Node("vdla.QMatMul", ("a", "b"), ("y",), attributes),), {}, types)
    certificate = vdla.certify(compile_network(graph, "pynq_z1", place={"y": "vdla"}))
    assert certificate.holds, certificate


@pytest.mark.parametrize("depth", [1, 10, 64])
def test_the_terms_of_rows_are_shares_of_their_sums(depth: int) -> None:
    """For every sum of a row: all are int8, and the equation that certificates use holds."""
    for zero in (-128, -7, 1, 127):
        terms = row_terms(zero, depth)
        rows = np.full((255 * depth + 1, depth), -128, np.int64)
        rows += np.clip(np.arange(len(rows))[:, None] - 255 * np.arange(depth), 0, 255)
        made = FUNCTIONS["vdla.RowTerms"]({"factor": terms.factor, "count": terms.count}, rows.astype(np.int8))[0]
        new = made[:, depth:].astype(np.int64)
        assert (127 * new[:, :-1].sum(axis=1) + new[:, -1] == terms.factor * rows.sum(axis=1)).all(), zero
        assert np.abs(new[:, -1]).max() <= 127


def test_a_node_without_an_expression_of_integers_is_named() -> None:
    kind = TensorType("float32", (1, 4))
    graph = Graph("g", ("x",), ("y",), (Node("Exp", ("x",), ("y",)),), {}, {"x": kind, "y": kind})
    with pytest.raises(NotProvableError) as caught:
        run_graph(graph, {"x": numbers(np.zeros((1, 4)))})
    assert str(caught.value) == "Exp y: operator must have an expression of integers, got Exp"


def test_a_result_in_blocks_is_not_taken_for_a_plain_one() -> None:
    """Of 6 channels in blocks of 4, which have gaps."""
    graph = layers(3, (1, 6, 5, 6), "rescale")
    (name,) = graph.outputs
    blocked = replace(graph, types={**graph.types, name: replace(graph.tensor(name), lanes=4)})
    with pytest.raises(NotProvableError, match="results must be plain tensors, got "):
        run_graph(blocked, {"x": numbers(np.zeros((1, 6, 5, 6)))})


# --- programs that hold ---------------------------------------------------------------------------


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("kinds", "machine"),
    [
        (("conv", "depthwise", "add", "conv"), "tiny"),
        (("max", "leaky", "average", "rescale"), "tiny"),
        (("transposed", "grouped", "whole"), "tiny"),
        (("conv", "add", "max"), "pynq_z1"),
        (("conv", "conv"), "batch4"),
    ],
)
def test_programs_compute_their_layers(kinds: tuple[str, ...], machine: str) -> None:
    certificate = vdla.certify(network(3, *kinds, machine=machine))
    assert isinstance(certificate, NetworkCertificate)
    assert certificate.holds, certificate
    programs = 2 if machine == "batch4" else 1  # its results are in other blocks than its operands
    assert [region.nodes for region in certificate.regions] == [len(kinds) // programs] * programs
    what = "1 program computes" if programs == 1 else "2 programs compute"
    assert certificate.summary == (
        f"certify g: {what} the integer operators of the graph for all inputs; prime 2^61 - 1, seed 0"
    )


# --- planted faults -------------------------------------------------------------------------------


def faulty(
    words: Callable[[Any], Any] | None = None, constants: Callable[[dict[str, Array]], None] | None = None
) -> str:
    """The verdict on the network with changed instructions or constants."""
    artifact = network().artifact
    (program,), known = artifact.programs, dict(artifact.constants)
    if words is not None:
        program = words(program)
    if constants is not None:
        constants(known)
    changed = replace(artifact, programs=(program,), constants=known)
    model = SimpleNamespace(name="g", artifact=changed, expressions=network().expressions)
    certificate = certify_network(model)
    assert not certificate.holds
    with pytest.raises(CertificateError):
        certificate.raise_if_bad()
    return str(certificate)


def field(opcode: Opcode, name: str, change: Callable[[int], int], last: bool = False) -> Callable[[Any], Any]:
    """A change of a field of the first instruction, or the last, in which it is not 0."""

    def changed(program: Any) -> Any:
        columns = program.columns
        place = np.flatnonzero((columns[:, COL["opcode"]] == opcode) & (columns[:, COL[name]] != 0))[-1 if last else 0]
        words = program.words.copy()
        value = np.array([change(int(columns[place, COL[name]]))])
        words[[place]] = with_fields(program.config, words[[place]], {name: value})
        return replace(program, words=words)

    return changed


@pytest.mark.parametrize(
    "change",
    [
        field(Opcode.LOAD, "y_stride", lambda stride: stride + 1),
        field(Opcode.STORE, "dram", lambda place: place + 1, last=True),
        field(Opcode.GEMM, "clip_hi", lambda high: high - 1, last=True),
        field(Opcode.GEMM, "zero_point", lambda zero: zero + 1),
        field(Opcode.LOAD, "y_before", lambda rows: rows - 1),
    ],
    ids=["stride", "place", "clip", "zero point", "padding"],
)
def test_a_wrong_field_is_refused(change: Callable[[Any], Any]) -> None:
    assert ": differs: " in faulty(change) or ": not certified: " in faulty(change)


def test_a_dropped_instruction_is_refused_at_its_node() -> None:
    """The last load of weights that no token names: its products are those of older weights."""
    (program,) = network().artifact.programs
    columns = program.columns
    loads = (columns[:, COL["opcode"]] == Opcode.LOAD) & (columns[:, COL["buffer"]] == Buffer.WGT)
    for token in ("pop_prev", "pop_next", "push_prev", "push_next"):
        loads &= columns[:, COL[token]] == 0
    kept = np.delete(np.arange(len(program)), np.flatnonzero(loads)[-1])
    parts = {name: getattr(program, name)[kept] for name in ("words", "tensor_of", "source_of")}
    text = faulty(lambda program: replace(program, **parts))
    assert "region 1: differs: vdla.QConv v1: 16 of 272 results differ, the first is v1[0, 16, 0, 0]; " in text
    assert text.endswith("\ncertify g: of 1 programs, 1 differs")


def scales(known: dict[str, Array]) -> list[str]:
    return [name for name in known if name.endswith(".scale")]


def test_wrong_constants_are_refused() -> None:
    """A shift, a bias, weights at another place, the scales of two layers."""

    def shift(known: dict[str, Array]) -> None:
        name = scales(known)[0]
        known[name] = known[name] + (np.int64(1) << 56)

    def bias(known: dict[str, Array]) -> None:
        name = scales(known)[-1]
        known[name] = known[name] ^ 1

    def placement(known: dict[str, Array]) -> None:
        name = next(name for name in known if name.endswith(".weight"))
        known[name] = known[name].swapaxes(-1, -2)

    def swapped(known: dict[str, Array]) -> None:
        first, last = scales(known)[0], scales(known)[-1]
        known[first] = np.resize(known[last], known[first].shape)

    for change in (shift, bias, placement, swapped):
        assert "region 1: differs: vdla.Q" in faulty(constants=change), change.__name__


def test_activations_at_other_tensors_are_refused() -> None:
    plan = network().artifact.plan
    steps = tuple(
        replace(step, tensors={**step.tensors, "v0": "other"}) if hasattr(step, "program") else step
        for step in plan.steps
    )
    changed = replace(network().artifact, plan=replace(plan, steps=steps))
    model = SimpleNamespace(name="g", artifact=changed, expressions=network().expressions)
    assert str(certify_network(model).regions[0]) == "region 1: differs: v0 must be x.packed.image4, got other"


def test_a_program_without_an_expression_is_not_certified() -> None:
    """Of a step that has none, and of a program that no step of a plan runs."""
    model = network()
    plans = expressions_from_bytes(model.expressions, "test")
    renamed = [[replace(expression, name="region 7") for expression in plan] for plan in plans]
    other = SimpleNamespace(name="g", artifact=model.artifact, expressions=expressions_to_bytes(renamed))
    assert str(certify_network(other).regions[0]) == "region 1: not certified: what it must compute is not known"
    more = replace(
        model.artifact,
        programs=(
            *model.artifact.programs,
            vdla.templates.dense(model.artifact.config, rows=1, in_features=4, out_features=4).program,
        ),
    )
    certificate = certify_network(SimpleNamespace(name="g", artifact=more, expressions=model.expressions))
    assert not certificate.holds
    assert str(certificate).splitlines()[1:] == [
        "program dense: not certified: what it must compute is not known",
        "certify g: of 2 programs, 1 certified, 1 not certified",
    ]


def test_expressions_of_other_plans_are_refused() -> None:
    other = SimpleNamespace(name="g", artifact=network().artifact, expressions=expressions_to_bytes([]))
    with pytest.raises(CertificateError) as caught:
        certify_network(other)
    assert str(caught.value) == "certify g: expressions must be of 1 plans, got 0"


def test_a_network_without_expressions_says_what_keeps_them() -> None:
    model = Model(network().artifact)
    with pytest.raises(CertificateError) as caught:
        vdla.certify(model)
    assert str(caught.value) == (
        "certify g: the expressions of its programs must be kept, got none "
        "(vdla compile MODEL.onnx --expressions -o g.vdla)"
    )
