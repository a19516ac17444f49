# SPDX-License-Identifier: Apache-2.0
"""L2_NORMALIZATION of long rows and of floats, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import vdla
from vdla.runtime.network.evaluator import evaluate

pytest.importorskip("tflite")

from vdla.compiler.graph.tflite import import_tflite
from vdla.verification.tflite_models.reference import reference_outputs
from vdla.verification.tflite_models.writer import TfliteWriter


def normalised(*shape: int, dtype: str = "int8", scale: float = 1 / 128, zero_point: int = 0) -> TfliteWriter:
    writer, quantised = TfliteWriter(), dtype == "int8"
    x = writer.tensor(shape, dtype, scale=0.1 if quantised else None, zero_point=-128 * quantised, name="x")
    y = writer.tensor(shape, dtype, scale=scale if quantised else None, zero_point=zero_point, name="y")
    writer.operator("L2_NORMALIZATION", (x,), (y,))
    return writer


@pytest.mark.parametrize("level", [-128, -127, 0, 127])
def test_sums_up_to_31_bits(level: int) -> None:
    """Squares of 255, of which 33,025 are the most that an int32 holds."""
    writer = normalised(2, 33_025)
    data = np.full((2, 33_025), level, np.int8)
    data[1, ::3] = -128
    data[:, 0] = 127
    [wanted] = reference_outputs(writer, {"x": data}, (1,))
    content = writer.bytes((0,), (1,))
    assert np.array_equal(evaluate(import_tflite(content), {"x": data}, prefer="numpy")["y"], wanted)
    with vdla.compile(content, "host") as model:
        assert np.array_equal(model(data), wanted)


def test_rows_of_floats() -> None:
    data = np.array([[3, -4], [0, 0], [1e-9, 0]], np.float32)
    with vdla.compile(normalised(3, 2, dtype="float32").bytes((0,), (1,)), "host") as model:
        assert np.allclose(model(data), [[0.6, -0.8], [0, 0], [1e-3, 0]])


@pytest.mark.parametrize(
    ("writer", "rule"),
    [
        (normalised(1, 33_026), "have rows of at most 33025 elements, got 33026"),
        (normalised(1, 8, scale=0.01), "have a result of scale 1/128 and zero point 0"),
        (normalised(1, 8, zero_point=3), "have a result of scale 1/128 and zero point 0"),
    ],
)
def test_what_is_refused(writer: TfliteWriter, rule: str) -> None:
    with pytest.raises(vdla.Error) as caught:
        import_tflite(writer.bytes((0,), (1,)))
    assert str(caught.value).splitlines()[1] == f"  L2_NORMALIZATION y: the operator must {rule}"
