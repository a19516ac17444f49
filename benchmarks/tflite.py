# SPDX-License-Identifier: Apache-2.0
"""TensorFlow Lite models on this CPU against a naive model of the reference kernels, bit for bit.

`operators` counts the kinds of int8 operators and `bit_exact` those that equal the reference in
every random case; `models` counts the networks of MLPerf Tiny, with seeded weights, that equal it,
and `wrong` the cases and networks that differ. On the accelerator, results may differ by one where
a sum lies at the edge of two integers: `machine_differs` is the share of values of single operators
that do, `machine_most` by how much at most. Needs the package `tflite`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

import vdla
from vdla.benchmarks.harness import BenchmarkResult, Row, host_receipt, total
from vdla.support.arrays import Array
from vdla.support.progress import Progress, silent
from vdla.verification.tflite_models.draft import OperatorCase
from vdla.verification.tflite_models.operator_cases import operator_cases
from vdla.verification.tflite_models.reference import reference_outputs
from vdla.verification.tflite_models.tiny import TINY_MODELS, TinyModel

_ROUNDS = 4
_MACHINE = "pynq_z1"
_ON_MACHINE = ("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "FULLY_CONNECTED", "ADD", "AVERAGE_POOL_2D", "MEAN")


def run(progress: Progress = silent, seed: int = 0, rounds: int = _ROUNDS) -> BenchmarkResult:
    """Compile and run every case and every network."""
    rows: dict[str, Row] = {}
    cases = list(operator_cases(seed, rounds))
    for number, case in enumerate(cases):
        progress(case.operator, number, len(cases))
        _count(rows.setdefault(case.operator, _row(case.operator)), _case(case, "host"))
        if case.operator in _ON_MACHINE:
            _count_machine(rows[case.operator], case)
    networks = [_network(make(seed), seed) for make in TINY_MODELS.values()]
    operators = list(rows.values())
    values, differing = total(operators, "machine_values"), total(operators, "machine_differing")
    figures = {
        "operators": len(operators),
        "bit_exact": sum(not row["wrong"] for row in operators),
        "models": sum(not row["wrong"] for row in networks),
        "wrong": total([*operators, *networks], "wrong"),
        "machine_differs": differing / max(values, 1),
        "machine_most": max(row["machine_most"] for row in operators),
    }
    receipt = host_receipt(seed, f"vdla bench tflite --seed {seed} --json -", ["tflite", "flatbuffers", "llvmlite"])
    return BenchmarkResult("tflite", figures, [*operators, *networks], receipt)


def _row(name: str) -> Row:
    counts = dict.fromkeys(("cases", "values", "wrong", "machine_values", "machine_differing", "machine_most"), 0)
    return {"name": name, **counts}


def _case(case: OperatorCase, target: str) -> list[tuple[Array, Array]]:
    """Each result and what it must be."""
    names = [case.writer.tensors[number].name for number in case.outputs]
    results = _outputs(case.content, case.inputs, target)
    return list(
        zip(map(results.__getitem__, names), reference_outputs(case.writer, case.inputs, case.outputs), strict=True)
    )


def _outputs(content: bytes, inputs: Mapping[str, Array], target: str) -> Mapping[str, Array]:
    with vdla.compile(content, target) as model:
        return dict(model.run(dict(inputs)).outputs)


def _count(row: Row, pairs: list[tuple[Array, Array]]) -> None:
    row["cases"] += 1
    row["values"] += sum(result.size for result, _ in pairs)
    row["wrong"] += any(result.dtype != wanted.dtype or not np.array_equal(result, wanted) for result, wanted in pairs)


def _count_machine(row: Row, case: OperatorCase) -> None:
    for result, wanted in _case(case, _MACHINE):
        distance = np.abs(result.astype(np.int64) - wanted)
        row["machine_values"] += distance.size
        row["machine_differing"] += int((distance > 0).sum())
        row["machine_most"] = max(row["machine_most"], int(distance.max(initial=0)))


def _network(model: TinyModel, seed: int) -> Row:
    """One network on one random input."""
    inputs = {"x": model.data(seed)}
    output = next(number for number, tensor in enumerate(model.writer.tensors) if tensor.name == "y")
    row = _row(model.name)
    [wanted] = reference_outputs(model.writer, inputs, [output])
    _count(row, [(_outputs(model.content, inputs, "host")["y"], wanted)])
    return row
