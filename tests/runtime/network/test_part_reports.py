# SPDX-License-Identifier: Apache-2.0
"""Parts of values in reports: inputs of concatenations, channels of outputs, raised scales."""

from __future__ import annotations

import sys
import warnings
from functools import partial

import numpy as np
import pytest
from helpers.qdq_graphs import QdqBuilder

import vdla
from vdla.compiler.graph import Graph
from vdla.compiler.graph.quantise import QuantisationPlan, QuantiseWarning, plan_quantisation
from vdla.runtime.network.part_reports import (
    PartReport,
    concatenations,
    indices,
    lost_channels,
    parts_of_concatenations,
)
from vdla.runtime.network.quantisation_report import QuantisationReport
from vdla.runtime.network.quantise import quantise

RANDOM = np.random.default_rng(0)
SHAPE = (2, 3, 5, 5)


@pytest.fixture(autouse=True)
def _same_numbers_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "RANDOM", np.random.default_rng(1))


def convolution(factors: list[float], biases: list[float], *moves: tuple[str, dict[str, object]]) -> Graph:
    """A convolution whose outputs have weights of such factors."""
    b = QdqBuilder()
    x = b.input("x", SHAPE, "float32")
    weight = RANDOM.standard_normal((len(factors), 3, 1, 1)) * np.array(factors).reshape(-1, 1, 1, 1)
    given = (b.constant(values.astype(np.float32)) for values in (weight, np.array(biases)))
    b.add("Conv", x, *given, shape=(2, len(factors), 5, 5), result="conv")
    if moves:
        b.add("Transpose", "conv", shape=(2, 5, 5, len(factors)), perm=(0, 2, 3, 1), result="moved")
    return b.graph("moved" if moves else "conv")


def report(graph: Graph) -> QuantisationReport:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", QuantiseWarning)
        return quantise(graph, calibration=RANDOM.standard_normal(SHAPE).astype(np.float32)).report(sensitivity=False)


def test_channels_that_the_ratio_of_an_output_hides():
    made = report(convolution([100, 0.01, 100, 0.01, 0.01], [0] * 5))
    [warning] = made.warnings
    assert made.outputs["conv"] > 30
    whole = made.outputs["conv"]
    assert warning == (
        f"conv: 0.0 dB in channels 1, 3 to 4 of dimension 1, where the whole has {whole:.1f} dB; "
        "keep the layers that make it float"
    )
    assert str(made).splitlines()[-1] == f"warning: {warning}"


def test_a_network_is_quantised_with_a_warning_of_channels_that_are_lost():
    """Whoever compiles makes no report."""
    graph = convolution([100, 0.01, 100, 0.01], [0] * 4)
    data = RANDOM.standard_normal(SHAPE).astype(np.float32)
    text = r"^quantise qdq: conv: -?\d+\.\d dB in channels 1, 3 of dimension 1, where the whole has \d\d\.\d dB; keep"
    for make in (quantise, partial(vdla.compile, target="host")):
        with pytest.warns(QuantiseWarning, match=text):
            make(graph, calibration=data)


def test_a_channel_of_few_elements_may_be_small_by_chance():
    exact = {"y": np.array([[100.0, 0.001]] * 15)}
    found = {"y": np.array([[101.0, 0.0]] * 15)}
    assert list(lost_channels(["y"], [exact], [found])) == []
    [part] = lost_channels(["y"], [exact] * 2, [found] * 2)
    assert part.part == "channel 1 of dimension 1"


def test_channels_of_the_last_dimension():
    [part] = report(convolution([100, 100, 0.01], [0] * 3, ("Transpose", {}))).parts
    assert (part.value, part.part) == ("moved", "channel 2 of dimension 3")


@pytest.mark.parametrize("factors", [[1, 1, 1], [1, 0.2, 2], [1, 0, 1]])
def test_alike_channels_give_no_warning(factors):
    """Neither does a channel that is 0."""
    made = report(convolution(factors, [0] * 3))
    assert made.parts == () and made.warnings == () and made.notes == ()


def test_raised_scales_are_noted():
    made = report(convolution([1, 1e-8, 1, 1e-8], [1] * 4))
    assert made.notes == ("conv: the weight scale of outputs 1, 3 of 4 is raised so that bias and sums fit into int32",)
    assert str(made).splitlines()[-1] == f"note: {made.notes[0]}"


def graph_of_a_concatenation(axis: int) -> Graph:
    b = QdqBuilder()
    extents = [[2, 3, 4], [2, 3, 4], [2, 3, 4]]
    for i, extent in enumerate(extents):
        extent[axis] = i + 1
        b.input("abc"[i], tuple(extent), "float32")
    whole = list(extents[0])
    whole[axis] = 6
    b.add("Concat", "a", "b", "c", shape=tuple(whole), axis=axis, result="joined")
    return b.graph("joined")


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_each_input_of_a_concatenation_has_a_ratio(axis):
    """Errors of 1 in all: values of 1 have 0 dB, of 100 have 40, and zeros none."""
    graph = graph_of_a_concatenation(axis)
    values = {name: np.full(graph.tensor(name).extents, size) for name, size in zip("abc", (1, 100, 0), strict=True)}
    exact = {**values, "joined": np.concatenate(list(values.values()), axis)}
    joined = concatenations(graph, QuantisationPlan((), {}))
    parts = list(parts_of_concatenations(joined, [exact, exact], [{"joined": exact["joined"] + 1}] * 2))
    whole = 10 * np.log10((exact["joined"].astype(float) ** 2).mean())
    assert [part.part for part in parts] == ["input a", "input b"]
    np.testing.assert_allclose([part.snr_db for part in parts], [0, 40])
    np.testing.assert_allclose([part.whole_db for part in parts], whole)
    assert [part.is_lost for part in parts] == [True, False]


def test_concatenations_of_integers_have_no_ratio():
    graph = graph_of_a_concatenation(1)
    kinds = {name: kind.__class__("int64", kind.shape) for name, kind in graph.types.items()}
    assert concatenations(graph.replace(types=kinds), plan_quantisation(graph)) == {}


@pytest.mark.parametrize("shape", [(), (3,), (0, 4), (2, 0), (2, 3)])
def test_outputs_of_every_shape(shape):
    value = {"y": np.ones(shape, np.float32)}
    assert list(lost_channels(["y"], [value], [value])) == []


def test_outputs_whose_extents_vary_have_no_channels():
    values = [{"y": np.ones((1, n), np.float32)} for n in (2, 3)]
    assert list(lost_channels(["y"], values, values)) == []


@pytest.mark.parametrize(
    ("snr_db", "whole_db", "is_lost"), [(19, 30, True), (19, 28, False), (21, 40, False), (-5, 4, False)]
)
def test_a_part_is_lost_that_the_whole_hides(snr_db, whole_db, is_lost):
    assert PartReport("y", "", snr_db, whole_db).is_lost is is_lost


def test_ranges_of_indices():
    assert indices([0]) == "0"
    assert indices([0, 1, 2, 7]) == "0 to 2, 7"
    assert indices([0, 2, 4, 6, 8, 10]) == "0, 2, 4, 6 and others"
