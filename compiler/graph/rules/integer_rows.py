# SPDX-License-Identifier: Apache-2.0
"""The rule of vdla.QSquares: the sum of the squares of each row, without the zero point."""

from __future__ import annotations

from vdla.compiler import te
from vdla.compiler.graph.rules.rule import NodeCall
from vdla.compiler.operators.reduction import reduce_with


def qsquares(call: NodeCall) -> te.Tensor:
    """Along the last dimension, in 32 bits."""
    x, name, zero = call.tensor(0), call.name(), call.attribute("x_zero_point")
    if x.dtype != "int8":
        call.decline(f"read int8 elements, got {x.dtype}")

    def square(*i: te.Value) -> te.Value:
        centred: te.Value = te.cast("int32", x[i]) - zero
        return centred * centred

    squares = te.compute(x.shape, square, f"{name}_squares")
    return reduce_with(te.sum, squares, (len(x.shape) - 1,), bool(call.attribute("keepdims")), name)
