"""Integer operators of quantised graphs, `vdla.Q...`, and their templates on the accelerator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vdla.compiler import te, templates
from vdla.compiler.graph.integer.elementwise import fuse_rescale
from vdla.compiler.graph.layouts.integers import INTEGERS
from vdla.compiler.graph.machine.convolution_calls import conv, conv_transpose, dense
from vdla.compiler.graph.machine.elementwise_calls import add, elementwise, pool
from vdla.compiler.graph.machine.matmul_call import matmul
from vdla.compiler.graph.operators.record import OperatorRecord, Trait, of_rule, records
from vdla.compiler.graph.rules.blocked_integer import BLOCKED_INTEGER
from vdla.compiler.graph.rules.integer_elementwise import INTEGER_ELEMENTWISE
from vdla.compiler.graph.rules.integer_products import INTEGER_PRODUCTS
from vdla.compiler.graph.rules.integer_transposed import INTEGER_TRANSPOSED
from vdla.compiler.graph.rules.product_terms import PRODUCT_TERMS
from vdla.compiler.graph.rules.rule import FusionClass, NodeCall

_FAMILIES = (BLOCKED_INTEGER, INTEGER_ELEMENTWISE, INTEGER_PRODUCTS, INTEGER_TRANSPOSED, PRODUCT_TERMS)
_RULES = {rule.op: rule for family in _FAMILIES for rule in family}


_REQUANTISED = {"multiplier": np.ndarray, "shift": np.ndarray, "y_zero_point": int, "low": int, "high": int}
_OF_ONE = {"x_zero_point": int, **_REQUANTISED}
_OF_TWO = {"a_zero_point": int, "b_zero_point": int, **_REQUANTISED}
_WINDOWS = {"strides": tuple, "pads": tuple, "dilations": tuple, **_OF_ONE}
_CONVOLUTION = {"group": int, **_WINDOWS}
_POOL = {"kernel_shape": tuple, **_WINDOWS}


def _record(name: str, traits: Trait = Trait.NONE, **fields: Any) -> OperatorRecord:  # noqa: ANN401  fields of the record
    return of_rule(_RULES[name], traits, layout=INTEGERS.get(name), **fields)


_DESCRIBED = (
    _record("vdla.BlockedQConv", Trait.CONVOLUTION),
    _record("vdla.BlockedQConvTranspose", Trait.TRANSPOSED_CONVOLUTION),
    _record("vdla.QAdd", Trait.ELEMENTWISE, template=add, attributes={"factors": tuple, **_OF_TWO}),
    _record("vdla.QAveragePool", template=pool("average"), attributes={"count_include_pad": int, **_POOL}),
    _record("vdla.QConv", Trait.CONVOLUTION, template=conv, attributes=_CONVOLUTION),
    _record(
        "vdla.QConvTranspose",
        Trait.TRANSPOSED_CONVOLUTION,
        template=conv_transpose,
        attributes={"output_padding": tuple, **_CONVOLUTION},
    ),
    _record("vdla.QDense", Trait.MATRIX_PRODUCT, template=dense, attributes=_OF_ONE),
    _record(
        "vdla.QLeakyRelu",
        Trait.ELEMENTWISE,
        template=elementwise(templates.leaky_relu, "factors"),
        attributes={"factors": tuple, **_OF_ONE},
    ),
    _record("vdla.QMatMul", Trait.MATRIX_PRODUCT, template=matmul, attributes=_OF_TWO),
    _record("vdla.QMaxPool", template=pool("max"), attributes=_POOL),
    _record("vdla.QMul", Trait.ELEMENTWISE, attributes=_OF_TWO),
    _record("vdla.QRescale", Trait.ELEMENTWISE, template=elementwise(templates.rescale), attributes=_OF_ONE),
    _record("vdla.QTable", Trait.ELEMENTWISE, attributes={"table": np.ndarray}),
    _record("vdla.ToInt8", Trait.ELEMENTWISE, attributes={}),
    _record("vdla.ToUint8", Trait.ELEMENTWISE, attributes={}),
)
_OTHERS = _RULES.keys() - {record.name for record in _DESCRIBED}
QUANTISED = (*_DESCRIBED, *(of_rule(_RULES[name]) for name in sorted(_OTHERS)))


# --- conversions ----------------------------------------------------------------------------------


_RESULTS = ("int8", "uint8", "int16", "uint16")
_SOURCES = (*_RESULTS, "int32")


def _at(call: NodeCall, parameter: te.Tensor, x: te.Tensor, index: Sequence[te.Value]) -> te.Value:
    """The parameter of an element of x."""
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
        call.decline(f"quantise float32 to 8 or 16 bits, got {x.dtype} to {dtype}")

    def value(*i: te.Value) -> te.Value:
        rounded = te.round(x[i] / _at(call, scale, x, i))
        if zero_point is not None:
            rounded = rounded + te.cast("float32", _at(call, zero_point, x, i))
        return te.cast(dtype, rounded)

    return te.compute(x.shape, value, call.name())


def _dequantise(call: NodeCall) -> te.Tensor:
    """(x - zero point) * scale."""
    x, scale, zero_point = call.tensor(0), call.tensor(1), call.optional(2)
    if x.dtype not in _SOURCES or scale.dtype != "float32" or call.result.dtype != "float32":
        call.decline(f"dequantise 8, 16 or 32 bits to float32, got {x.dtype} to {call.result.dtype}")

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
