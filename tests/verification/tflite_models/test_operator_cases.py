# SPDX-License-Identifier: Apache-2.0
"""Operators of TensorFlow Lite against a naive model of the reference kernels, bit for bit."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import vdla
from vdla.runtime.network.evaluator import evaluate

pytest.importorskip("tflite")

from vdla.compiler.graph.tflite import import_tflite
from vdla.compiler.graph.tflite.table import CONVERTERS
from vdla.verification.tflite_models.draft import OperatorCase
from vdla.verification.tflite_models.operator_cases import operator_cases
from vdla.verification.tflite_models.reference import reference_outputs
from vdla.verification.tflite_models.tiny import TINY_MODELS
from vdla.verification.tflite_models.writer import TfliteWriter

CASES = list(operator_cases(seed=1, rounds=1))
COMPILED = ("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "FULLY_CONNECTED", "ADD", "AVERAGE_POOL_2D", "MEAN")


def wanted(case: OperatorCase) -> dict[str, np.ndarray]:
    names = [case.writer.tensors[number].name for number in case.outputs]
    return dict(zip(names, reference_outputs(case.writer, case.inputs, case.outputs), strict=True))


@pytest.mark.parametrize("seed", range(3))
def test_the_functions_of_numpy_round_as_the_reference(seed: int) -> None:
    for case in operator_cases(seed, rounds=2):
        found = evaluate(import_tflite(case.content), dict(case.inputs), prefer="numpy")
        for name, value in wanted(case).items():
            assert found[name].dtype == value.dtype, case.operator
            assert np.array_equal(found[name], value), (case.operator, name)


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=[f"{number}_{case.operator}" for number, case in enumerate(CASES)])
def test_kernels_round_as_the_reference(case: OperatorCase) -> None:
    with vdla.compile(case.content, "host") as model:
        found = model.run(dict(case.inputs)).outputs
    for name, value in wanted(case).items():
        assert np.array_equal(found[name], value), name


@pytest.mark.parametrize("operator", COMPILED)
def test_results_of_the_machine_are_within_one_and_do_not_depend_on_the_place(operator: str) -> None:
    case = next(case for case in CASES if case.operator == operator)
    found = []
    for place in ({}, {"y": "cpu"}):
        with vdla.compile(case.content, "pynq_z1", place=place) as model:
            found.append(model.run(dict(case.inputs)).outputs["y"])
    assert np.array_equal(*found)
    assert np.abs(found[0].astype(int) - wanted(case)["y"]).max() <= 1


FLOAT_ONLY = {"CEIL", "COS", "DIV", "FLOOR", "LOG_SOFTMAX", "NEG", "ROUND", "SIN"}


def test_every_operator_with_a_converter_is_compared_or_refuses_int8() -> None:
    assert {case.operator for case in CASES} == set(CONVERTERS) - FLOAT_ONLY


@pytest.mark.parametrize("operator", sorted(FLOAT_ONLY))
def test_an_operator_of_floats_refuses_int8_in_one_sentence(operator: str) -> None:
    writer = TfliteWriter()
    inputs = [writer.tensor((1, 4), scale=0.1, name=name) for name in ("a", "b")[: 1 + (operator == "DIV")]]
    y = writer.tensor((1, 4), scale=0.1, name="y")
    writer.operator(operator, inputs, (y,))
    with pytest.raises(vdla.Error) as caught:
        import_tflite(writer.bytes(inputs, (y,)))
    kinds = ", ".join(["int8"] * (len(inputs) + 1))
    rule = f"the operator must be of float32, got {kinds}; keep the operator in float when you quantise"
    assert str(caught.value).splitlines()[1] == f"  {operator} y: {rule}"


def test_the_page_names_every_operator() -> None:
    page = (Path(__file__).parents[3] / "docs" / "tflite.md").read_text(encoding="utf-8")
    section = page.partition("## Operators")[2].partition("## ")[0]
    every, floats = section.split("Of float32 only")
    floats = floats.partition("\n\n")[0]
    assert set(re.findall(r"\b[A-Z][A-Z_0-9]+\b", every)) == set(CONVERTERS) - FLOAT_ONLY
    assert set(re.findall(r"\b[A-Z][A-Z_0-9]+\b", floats)) == FLOAT_ONLY


@pytest.mark.parametrize("name", TINY_MODELS)
def test_networks_of_mlperf_tiny_are_exact(name: str) -> None:
    model = TINY_MODELS[name](3)
    data = {"x": model.data(4)}
    graph = import_tflite(model.content)
    output = [tensor.name for tensor in model.writer.tensors].index("y")
    assert [node.op for node in graph.nodes].count("Transpose") <= 1  # at the edges only
    [result] = reference_outputs(model.writer, data, [output])
    assert np.array_equal(evaluate(graph, data, prefer="numpy")["y"], result)
    assert len(np.unique(result)) > 1
