# SPDX-License-Identifier: Apache-2.0
"""The operations of the vector unit on NumPy arrays, the model of the tests."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vdla.hardware.isa import VectorOp
from vdla.hardware.numerics import wrap32


def _int64(values: ArrayLike) -> NDArray[np.int64]:
    return np.asarray(values, np.int64)


def _shift_right(a: NDArray[np.int64], amount: NDArray[np.int64]) -> NDArray[np.int64]:
    rounding = np.where(amount > 0, np.int64(1) << np.maximum(amount - 1, 0), 0)
    return (a + rounding) >> amount


def vector_op(op: VectorOp, a: ArrayLike, x: ArrayLike, b: ArrayLike) -> NDArray[np.int32]:
    """The new accumulator entry of the old one `a`, the source `x` (of MAC) and operand `b`."""
    old, operand = _int64(a), _int64(b)
    match op:
        case VectorOp.ADD:
            return wrap32(old + operand)
        case VectorOp.SUB:
            return wrap32(old - operand)
        case VectorOp.MUL:
            return wrap32(old * operand)
        case VectorOp.MIN:
            return wrap32(np.minimum(old, operand))
        case VectorOp.MAX:
            return wrap32(np.maximum(old, operand))
        case VectorOp.SHL:
            return wrap32(old << (operand & 31))
        case VectorOp.SHR:
            return wrap32(_shift_right(old, operand & 31))
        case VectorOp.CLIP:
            return wrap32(np.minimum(np.maximum(old, wrap32(-operand)), operand))
        case VectorOp.MOV:
            return wrap32(operand)
        case VectorOp.MAC:
            return wrap32(old + _int64(x) * operand)


def vector_start(op: VectorOp, x: ArrayLike, b: ArrayLike) -> NDArray[np.int32]:
    """The accumulator entry at a `first` micro-op under `init`: `x * b` for MAC, else `b`."""
    return wrap32(_int64(x) * _int64(b)) if op == VectorOp.MAC else wrap32(b)
