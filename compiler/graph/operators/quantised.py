# SPDX-License-Identifier: Apache-2.0
"""Integer operators of quantised graphs, `vdla.Q...`, and their templates on the accelerator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vdla.compiler import te, templates
from vdla.compiler.graph.integer.elementwise import fuse_rescale
from vdla.compiler.graph.layouts import windowed as layouts
from vdla.compiler.graph.layouts.elementwise import follow_int8_inputs
from vdla.compiler.graph.machine.calls import (
    add,
    conv,
    conv_transpose,
    dense,
    elementwise,
    look_up,
    mul,
    pool,
)
from vdla.compiler.graph.machine.matmul_call import matmul
from vdla.compiler.graph.operators.record import OperatorRecord, Trait, records
from vdla.compiler.graph.rules import integer_elementwise as rules
from vdla.compiler.graph.rules import integer_products
from vdla.compiler.graph.rules.integer_normalise import qnormalise
from vdla.compiler.graph.rules.integer_rows import (
    qdistances,
    qfactor,
    qrotary,
    qrow_norm,
    qrow_softmax,
    qsquares,
)
from vdla.compiler.graph.rules.integer_softmax import qsoftmax
from vdla.compiler.graph.rules.rule import FusionClass, NodeCall
from vdla.compiler.graph.rules.transposed import qconv_transpose

# `fixed_point` [3, n], where it is not empty, has the factors with which TensorFlow Lite rescales;
# multiplier and shift are the machine's all the same.
_REQUANTISED = {
    "multiplier": np.ndarray,
    "shift": np.ndarray,
    "y_zero_point": int,
    "low": int,
    "high": int,
    "fixed_point": np.zeros((3, 0), np.int64),
}
_OF_ROWS = {name: value for name, value in _REQUANTISED.items() if name != "fixed_point"}
_OF_ATTENTION = {
    "heads": int,
    "kv_heads": int,
    "factor": int,
    "score_multiplier": np.ndarray,
    "score_shift": np.ndarray,
    **_OF_ROWS,
}
_OF_ONE = {"x_zero_point": int, **_REQUANTISED}
_OF_TWO = {"a_zero_point": int, "b_zero_point": int, **_REQUANTISED}
_WINDOWS = {"strides": tuple, "pads": tuple, "dilations": tuple, **_OF_ONE}
_CONVOLUTION = {"group": int, **_WINDOWS}
_POOL = {"kernel_shape": tuple, **_WINDOWS}


_ELEMENTWISE: dict[str, Any] = {"fusion": FusionClass.INJECTIVE, "traits": Trait.ELEMENTWISE}
_OF_INT8: dict[str, Any] = {**_ELEMENTWISE, "layout": follow_int8_inputs}

QUANTISED = (
    OperatorRecord(
        name="vdla.QConv",
        fusion=FusionClass.COMPLEX,
        expression=integer_products.qconv,
        traits=Trait.CONVOLUTION,
        attributes=_CONVOLUTION,
        layout=layouts.qconv,
        template=conv,
    ),
    OperatorRecord(
        name="vdla.QConvTranspose",
        fusion=FusionClass.COMPLEX,
        expression=qconv_transpose,
        traits=Trait.TRANSPOSED_CONVOLUTION,
        attributes={"output_padding": tuple, **_CONVOLUTION},
        layout=layouts.qconv_transpose,
        template=conv_transpose,
    ),
    OperatorRecord(
        name="vdla.QDense",
        fusion=FusionClass.COMPLEX,
        expression=integer_products.qdense,
        traits=Trait.MATRIX_PRODUCT,
        attributes=_OF_ONE,
        template=dense,
    ),
    OperatorRecord(
        name="vdla.QMatMul",
        fusion=FusionClass.COMPLEX,
        expression=integer_products.qmatmul,
        traits=Trait.MATRIX_PRODUCT,
        attributes=_OF_TWO,
        template=matmul,
    ),
    OperatorRecord(
        name="vdla.QMaxPool",
        fusion=FusionClass.REDUCTION,
        expression=rules.qmax_pool,
        attributes=_POOL,
        layout=layouts.pool,
        template=pool("max"),
    ),
    OperatorRecord(
        name="vdla.QAveragePool",
        fusion=FusionClass.REDUCTION,
        expression=rules.qaverage_pool,
        attributes={"count_include_pad": int, "half_away": 0, **_POOL},
        layout=layouts.qaverage_pool,
        template=pool("average"),
    ),
    OperatorRecord(
        name="vdla.QAdd", expression=rules.qadd, attributes={"factors": tuple, **_OF_TWO}, template=add, **_OF_INT8
    ),
    OperatorRecord(
        name="vdla.QLeakyRelu",
        expression=rules.qleaky_relu,
        attributes={"factors": tuple, **_OF_ONE},
        template=elementwise(templates.leaky_relu),
        **_OF_INT8,
    ),
    OperatorRecord(name="vdla.QPRelu", expression=rules.qprelu, attributes=_OF_ONE, **_OF_INT8),
    OperatorRecord(name="vdla.QMul", expression=rules.qmul, attributes=_OF_TWO, template=mul, **_OF_INT8),
    OperatorRecord(
        name="vdla.QRescale",
        expression=rules.qrescale,
        attributes=_OF_ONE,
        template=elementwise(templates.rescale),
        **_OF_INT8,
    ),
    OperatorRecord(
        name="vdla.QTable", expression=rules.qtable, attributes={"table": np.ndarray}, template=look_up, **_OF_INT8
    ),
    OperatorRecord(
        name="vdla.QSoftmax",
        fusion=FusionClass.OPAQUE,
        expression=qsoftmax,
        attributes={"exponentials": np.ndarray},
    ),
    OperatorRecord(
        name="vdla.QNormalise",
        fusion=FusionClass.OPAQUE,
        expression=qnormalise,
        attributes={"x_zero_point": int},
    ),
    OperatorRecord(
        name="vdla.QRowSoftmax",
        fusion=FusionClass.OPAQUE,
        expression=qrow_softmax,
        attributes={"factor": int, **_OF_ROWS},
    ),
    OperatorRecord(
        name="vdla.QRowNorm",
        fusion=FusionClass.OPAQUE,
        expression=qrow_norm,
        attributes={"centred": int, "least": int, **_OF_ROWS},
    ),
    OperatorRecord(
        name="vdla.QRotary",
        fusion=FusionClass.INJECTIVE,
        expression=qrotary,
        attributes={"heads": int, "turned": int, "interleaved": int, **_OF_ROWS},
    ),
    OperatorRecord(
        name="vdla.QAttention",
        fusion=FusionClass.OPAQUE,
        attributes={**_OF_ATTENTION, "causal": int},
    ),
    OperatorRecord(
        name="vdla.QCachedAttention",
        fusion=FusionClass.OPAQUE,
        attributes={**_OF_ATTENTION, "places": int, "cache": str},
        on_host=False,
    ),
    OperatorRecord(
        name="vdla.QFactor",
        fusion=FusionClass.OPAQUE,
        expression=qfactor,
        attributes={"transposed": int},
    ),
    OperatorRecord(
        name="vdla.QSquares",
        fusion=FusionClass.REDUCTION,
        expression=qsquares,
        attributes={"x_zero_point": int, "keepdims": int},
    ),
    OperatorRecord(
        name="vdla.QDistances",
        fusion=FusionClass.REDUCTION,
        expression=qdistances,
        attributes={},
        traits=Trait.MATRIX_PRODUCT,  # of as many terms as one
    ),
    OperatorRecord(name="vdla.ToInt8", expression=rules.to_int8, attributes={}, **_ELEMENTWISE),
    OperatorRecord(name="vdla.ToUint8", expression=rules.to_uint8, attributes={}, **_ELEMENTWISE),
)


# --- the terms of zero points in a product --------------------------------------------------------


# Of (a - za) (b - zb), summed over K, a machine computes the products a b. It gets -zb times the
# sum of a row of a as more elements of that row, and -za times the sum of a column of b as a bias.
_UNIT = 127  # the greatest element of a factor
_LOW_WORD = 0xFFFF_FFFF


def _row_terms(call: NodeCall) -> te.Tensor:
    """Each row, followed by its terms for the zero point of the other factor."""
    x, factor, count = call.tensor(0), call.attribute("factor"), call.attribute("count")
    *rows, depth = x.shape
    k = te.reduce_axis(depth, "k")
    sums = te.compute((*rows,), lambda *i: te.sum(te.cast("int32", x[(*i, k)]), axis=k), f"{call.name()}_sums")

    def value(*i: te.Value) -> te.Value:
        total = sums[i[:-1]] * factor
        share = (total // _UNIT + (i[-1] - depth)) // max(count, 1)
        remainder = total - total // _UNIT * _UNIT
        term = te.select(i[-1] < depth + count, share, remainder)
        return te.select(i[-1] < depth, x[i], te.cast("int8", term))

    return te.compute(call.result.extents, value, call.name())


def _column_lanes(call: NodeCall) -> te.Tensor:
    """The terms for the zero point of the other factor in each column, as lanes of the scale."""
    x, factor, offset, lane = call.tensor(0), *map(call.attribute, ("factor", "offset", "lane"))
    *batch, depth, columns = x.shape
    k = te.reduce_axis(depth, "k")
    shape = (*batch, columns)
    sums = te.compute(shape, lambda *i: te.sum(te.cast("int32", x[(*i[:-1], k, i[-1])]), axis=k), f"{call.name()}_sums")

    def value(*i: te.Value) -> te.Value:
        bias = te.cast("int64", sums[i] * factor + offset)
        return te.const(lane, "int64") | bias & _LOW_WORD

    return te.compute(shape, value, call.name())


PRODUCT_TERMS = (
    OperatorRecord(
        name="vdla.RowTerms",
        fusion=FusionClass.COMPLEX,
        expression=_row_terms,
        attributes={"factor": int, "count": int},
    ),
    OperatorRecord(
        name="vdla.ColumnLanes",
        fusion=FusionClass.COMPLEX,
        expression=_column_lanes,
        attributes={"factor": int, "offset": int, "lane": int},
    ),
)


# --- conversions ----------------------------------------------------------------------------------


_RESULTS = ("int8", "uint8", "int16", "uint16", "int4", "int2")
_SOURCES = (*_RESULTS, "int32")


def _at(call: NodeCall, parameter: te.Tensor, x: te.Tensor, index: Sequence[te.Value]) -> te.Value:
    """The scale or zero point of an element of x."""
    if tuple(parameter.shape) == (1,):
        return parameter[0]
    axis = call.attribute("axis") % len(x.shape)
    block = call.attribute("block_size")
    if block:
        return parameter[tuple(i // block if d == axis else i for d, i in enumerate(index))]
    if len(parameter.shape) != 1 or parameter.shape[0] != x.shape[axis]:
        call.decline(f"have one scale for each of {x.shape[axis]} indices along axis {axis}")
    return parameter[index[axis]]


def _quantise(call: NodeCall) -> te.Tensor:
    """round(x / scale) + zero point, half to even, saturated."""
    x, scale, zero_point, dtype = call.tensor(0), call.tensor(1), call.optional(2), call.result.dtype
    if x.dtype != "float32" or scale.dtype != "float32" or dtype not in _RESULTS:
        call.decline(f"quantise float32 to 16 bits or fewer, got {x.dtype} to {dtype}")

    away = call.attribute("vdla.rounding", "even") == "away"

    def value(*i: te.Value) -> te.Value:
        quotient = x[i] / _at(call, scale, x, i)
        rounded = _half_away(quotient) if away else te.round(quotient)
        if zero_point is not None:
            rounded = rounded + te.cast("float32", _at(call, zero_point, x, i))
        return te.cast(dtype, rounded)

    return te.compute(x.shape, value, call.name())


def _half_away(value: te.Value) -> te.Value:
    """Rounded half away from zero, as the attribute vdla.rounding asks for."""
    whole = te.trunc(value)
    one = te.select(value < 0, te.const(-1.0, "float32"), te.const(1.0, "float32"))
    return te.select(te.abs(value - whole) >= 0.5, whole + one, whole)


def _dequantise(call: NodeCall) -> te.Tensor:
    """(x - zero point) * scale."""
    x, scale, zero_point = call.tensor(0), call.tensor(1), call.optional(2)
    if x.dtype not in _SOURCES or scale.dtype != "float32" or call.result.dtype != "float32":
        call.decline(f"dequantise integers of up to 32 bits to float32, got {x.dtype} to {call.result.dtype}")

    def value(*i: te.Value) -> te.Value:
        element = te.cast("int32", x[i])
        if zero_point is not None:
            element = element - te.cast("int32", _at(call, zero_point, x, i))
        return te.cast("float32", element) * _at(call, scale, x, i)

    return te.compute(x.shape, value, call.name())


_TRAITS = Trait.ELEMENTWISE | Trait.CONVERSION
QUANTISE_LINEAR = (
    *records(FusionClass.INJECTIVE, {"QuantizeLinear": _quantise}, _TRAITS),
    *records(FusionClass.INJECTIVE, {"DequantizeLinear": _dequantise}, _TRAITS, integer=fuse_rescale),
)
