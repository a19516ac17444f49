# SPDX-License-Identifier: Apache-2.0
"""The loss of accuracy from narrower operands: the error of a layer's sums on random data.

Weights and activations are drawn from the normal distribution and quantised symmetrically: weights
by their largest value in each row of results, activations by that of the tensor. Errors are against
the sums of the unquantised values.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vdla.runtime.studies.layers import OperandTypes

_RESULTS, _SUMS = 32, 32  # rows of weights and of activations: 1,024 sums
_MOST_TERMS = 1024  # terms drawn of a longer sum: the relative error does not depend on their number

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Root mean square of the errors over that of the sums, before and after."""

    before: float
    after: float


def accuracy_of(terms: int, before: OperandTypes, after: OperandTypes, seed: int = 0) -> Accuracy:
    """The errors of sums of `terms` products with operands of two types."""
    rng = np.random.default_rng([seed, terms])
    depth = min(terms, _MOST_TERMS)
    x, w = rng.standard_normal((_SUMS, depth)), rng.standard_normal((_RESULTS, depth))
    exact = _products(x, w)

    def error(operands: OperandTypes) -> float:
        sums = _products(_quantised(x, operands.inp, rows=False), _quantised(w, operands.wgt, rows=True))
        return float(np.sqrt(np.mean((sums - exact) ** 2) / np.mean(exact**2)))

    return Accuracy(error(before), error(after))


def _products(x: Floats, w: Floats) -> Floats:
    """Sums of products, on this thread: a library's threads would take longer to wake."""
    return np.asarray(np.einsum("it,jt->ij", x, w), np.float64)


def _quantised(values: Floats, dtype: str, rows: bool) -> Floats:
    """The values that a type of integers can represent, with one scale or one a row."""
    match = re.fullmatch(r"u?int(\d+)", dtype)
    assert match is not None, "operands are integers"
    largest = np.abs(values).max(axis=1 if rows else None, keepdims=True)
    scale = largest / (2 ** (int(match[1]) - 1) - 1)
    return np.asarray(np.round(values / scale) * scale, np.float64)
