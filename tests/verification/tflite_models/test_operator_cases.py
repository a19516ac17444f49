# SPDX-License-Identifier: Apache-2.0
"""Operators of TensorFlow Lite against a naive model of the reference kernels, bit for bit."""

from __future__ import annotations

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


def test_every_operator_of_the_cases_has_a_converter() -> None:
    assert {case.operator for case in CASES} <= set(CONVERTERS)
    assert len({case.operator for case in CASES}) >= 44


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
