# SPDX-License-Identifier: Apache-2.0
"""Tensor expressions: what an operator computes, independent of how.

    a = te.placeholder((64, 32), "int8", "a")
    b = te.placeholder((16, 32), "int8", "b")
    k = te.reduce_axis(32, "k")
    x, y = (lambda i, k: te.cast("int32", a[i, k])), (lambda j, k: te.cast("int32", b[j, k]))
    c = te.compute((64, 16), lambda i, j: te.sum(x(i, k) * y(j, k), axis=k), "c")
    fn = te.create_function([a, b], [c], "matmul")

Both operands of an operator have one dtype, and nothing is converted implicitly; a Python number
takes the dtype of the other operand. Integers wrap. A reduction is the whole value of a `compute`.
`docs/expressions.md` is the guide.
"""

from vdla.compiler.arith import specialise
from vdla.compiler.te.create_function import create_function
from vdla.compiler.te.expr import (
    Dim,
    Number,
    Operand,
    ReduceAxis,
    Stage,
    TeError,
    Tensor,
    Value,
    as_value,
    binary,
    const,
)
from vdla.compiler.te.extents import extent_of, with_axes
from vdla.compiler.te.math import (
    abs,
    call,
    ceil,
    cos,
    divide,
    erf,
    exp,
    floor,
    isnan,
    log,
    popcount,
    pow,
    round,
    round_product,
    rsqrt,
    sigmoid,
    sin,
    sqrt,
    tanh,
    trunc,
)
from vdla.compiler.te.reduction import Reducer, TupleReducer, argmax, argmin, max, min, reducer, sum
from vdla.compiler.te.scan import scan
from vdla.compiler.te.tensors import (
    all_of,
    cast,
    clip,
    compute,
    full,
    if_then_else,
    maximum,
    minimum,
    pad,
    placeholder,
    reduce_axis,
    select,
    var,
)

__all__ = [
    "Dim",
    "Number",
    "Operand",
    "ReduceAxis",
    "Reducer",
    "Stage",
    "TeError",
    "Tensor",
    "TupleReducer",
    "Value",
    "abs",
    "all_of",
    "argmax",
    "argmin",
    "as_value",
    "binary",
    "call",
    "cast",
    "ceil",
    "clip",
    "compute",
    "const",
    "cos",
    "create_function",
    "divide",
    "erf",
    "exp",
    "extent_of",
    "floor",
    "full",
    "if_then_else",
    "isnan",
    "log",
    "max",
    "maximum",
    "min",
    "minimum",
    "pad",
    "placeholder",
    "popcount",
    "pow",
    "reduce_axis",
    "reducer",
    "round",
    "round_product",
    "rsqrt",
    "scan",
    "select",
    "sigmoid",
    "sin",
    "specialise",
    "sqrt",
    "sum",
    "tanh",
    "trunc",
    "var",
    "with_axes",
]
