"""Matrix products and determinants. Short floats are summed in float32."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vdla.runtime.numpy_operators.dtypes import in_float32, widened
from vdla.runtime.numpy_operators.function import Array, Attributes, Function


def _gemm(attributes: Attributes, a: Array, b: Array, c: Array | None = None) -> Array:
    left = a.T if attributes.get("transA", 0) else a
    right = b.T if attributes.get("transB", 0) else b
    total = left @ right
    if (alpha := attributes.get("alpha", 1.0)) != 1:
        total = total * alpha
    if c is not None and (beta := attributes.get("beta", 1.0)):
        total = total + (c if beta == 1 else c * beta)
    return total


def _einsum(attributes: Attributes, *arrays: Array) -> tuple[Array]:
    equation = attributes["equation"].replace(" ", "")
    return (np.asarray(np.einsum(equation, *map(widened, arrays))).astype(arrays[0].dtype, copy=False),)


def _matmul_integer(
    attributes: Attributes, a: Array, b: Array, a_zero: Array | None = None, b_zero: Array | None = None
) -> tuple[Array]:
    """Zero points are scalars, or one for each row of A and column of B."""
    left, right = a.astype(np.int32), b.astype(np.int32)
    if a_zero is not None:
        left = left - (a_zero.astype(np.int32)[..., None] if a_zero.ndim == 1 and a_zero.size > 1 else a_zero)
    if b_zero is not None:
        right = right - b_zero.astype(np.int32)
    return (np.matmul(left, right, dtype=np.int32),)


PRODUCTS: Mapping[str, Function] = {
    "Det": in_float32(lambda attributes, x: np.linalg.det(x)),
    "Einsum": _einsum,
    "Gemm": in_float32(_gemm),
    "MatMul": in_float32(lambda attributes, a, b: np.matmul(a, b)),
    "MatMulInteger": _matmul_integer,
}
