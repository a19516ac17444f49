# SPDX-License-Identifier: Apache-2.0
"""Reads of a stage that are certainly out of bounds are rejected when it is defined."""

import pytest

from vdla.compiler import te
from vdla.compiler.te import TeError

X = te.placeholder((4, 6), "float32", "x")
P = te.placeholder((9,), "int32", "p")
K = te.reduce_axis(6, "k")
N = te.var("n")
S = te.placeholder((N,), "float32", "s")

BEYOND = [
    (lambda: te.compute((5,), lambda i: X[i, 0], "y"), "index 0 of x must satisfy 0 <= index < 4, got 0 to 4"),
    (lambda: te.compute((4,), lambda i: X[i - 1, 0], "y"), "index 0 of x must satisfy 0 <= index < 4, got -1 to 2"),
    (lambda: te.compute((4, 4), lambda i, j: X[i, 2 * j - i], "y"),
     "index 1 of x must satisfy 0 <= index < 6, got -3 to 6"),
    (lambda: te.compute((10,), lambda i: X[i // 2, 0], "y"), "index 0 of x must satisfy 0 <= index < 4, got 0 to 4"),
    (lambda: te.compute((4,), lambda i: te.sum(X[i, K + 1], axis=K), "y"),
     "index 1 of x must satisfy 0 <= index < 6, got 1 to 6"),
    (lambda: te.compute((10,), lambda i: te.select(P[i] > 0, 1, 2), "y"),
     "index 0 of p must satisfy 0 <= index < 9, got 0 to 9"),
    (lambda: te.compute((10,), lambda i: X[P[i], 0], "y"), "index 0 of p must satisfy 0 <= index < 9, got 0 to 9"),
]  # fmt: skip
INSIDE = [
    lambda: te.compute((6,), lambda i: te.select(i < 4, X[te.minimum(i, 3), 0], 0.0), "y"),
    lambda: te.compute((6,), lambda i: te.select(i < 4, X[i, 0], 0.0), "y"),
    lambda: te.compute((8,), lambda i: X[i % 4, i // 2], "y"),
    lambda: te.compute((9,), lambda i: X[P[i], 0], "y"),
    lambda: te.compute((40,), lambda i: S[i], "y"),
    lambda: te.compute((N,), lambda i: X[i, 0], "y"),
]


@pytest.mark.parametrize(("stage", "message"), BEYOND)
def test_certain_violations_are_rejected(stage, message):
    with pytest.raises(TeError) as error:
        stage()
    assert str(error.value) == f"te.compute y: {message}"


@pytest.mark.parametrize("stage", INSIDE)
def test_valid_and_uncertain_reads_are_accepted(stage):
    assert stage().name == "y"


def test_an_integer_beyond_the_range_of_floats_is_rejected():
    with pytest.raises(TeError) as error:
        te.compute((4,), lambda i: X[i, 0] + 10**400, "y")
    assert str(error.value) == "te.const: a value of type float32 must be an integer of at most 1023 bits, got 1329"
