# SPDX-License-Identifier: Apache-2.0
"""Rules of element-wise operators on several tensors, which broadcast."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce

from vdla.compiler import operators, te
from vdla.compiler.graph.integer.elementwise import fuse_add, fuse_mul, fuse_prelu, fuse_sub
from vdla.compiler.graph.operators.record import IntegerPattern, OperatorRecord, Trait, records
from vdla.compiler.graph.rules.rule import Expression, FusionClass, NodeCall, in_float32
from vdla.compiler.ir import is_float, is_integer

_Body = Callable[[te.Value, te.Value], te.Value]


def _binary(function: Callable[..., te.Tensor]) -> Expression:
    """A function of two tensors of one type."""
    return lambda call: in_float32(call, function, call.tensor(0), call.tensor(1))


def _bits(body: _Body) -> Expression:
    """A function of two integers, bit by bit."""

    def expression(call: NodeCall) -> te.Tensor:
        return operators.combine_elements(call.node.op, body, (call.tensor(0), call.tensor(1)), call.name())

    return expression


def _shift(call: NodeCall) -> te.Tensor:
    is_left, operands = call.attribute("direction") == "LEFT", (call.tensor(0), call.tensor(1))
    return operators.combine_elements("BitShift", lambda x, y: x << y if is_left else x >> y, operands, call.name())


def _modulo(call: NodeCall) -> te.Tensor:
    """Integers only: the sign of the divisor, or with `fmod` that of the dividend."""
    a, b = call.tensor(0), call.tensor(1)
    if not is_integer(a.dtype):
        call.decline(f"have integer operands, got {a.dtype}")
    if not call.attribute("fmod"):
        return operators.remainder(a, b, name=call.name())

    def body(x: te.Value, y: te.Value) -> te.Value:
        remainder = x % y
        return te.select((remainder != 0) & ((x < 0) != (y < 0)), remainder - y, remainder)

    return operators.combine_elements("Mod", body, (a, b), call.name())


_SIMPLE_POWERS: Mapping[float, Callable[[te.Value], te.Value]] = {
    -1.0: lambda v: 1 / v,
    0.5: te.sqrt,
    1.0: lambda v: v,
    2.0: lambda v: v * v,
    3.0: lambda v: v * v * v,
}


def _power(call: NodeCall) -> te.Tensor:
    x, exponent = call.tensor(0), call.tensor(1)
    if not is_float(x.dtype):
        call.decline(f"have floats to a power, got {x.dtype}")
    known = call.constants[1]
    if known is not None and known.size == 1 and len(x.shape) >= known.ndim:
        body = _SIMPLE_POWERS.get(float(known.reshape(-1)[0]))
        if body is not None:
            return in_float32(call, lambda t, name: operators.elementwise(t, body, name), x)

    def function(base: te.Tensor, power: te.Tensor, name: str) -> te.Tensor:
        return operators.combine_elements("Pow", lambda v, p: te.pow(v, te.cast(v.dtype, p)), (base, power), name)

    return in_float32(call, function, x, exponent)


def _variadic(body: _Body, is_mean: bool = False) -> Expression:
    """A function of any number of tensors, from left to right."""

    def expression(call: NodeCall) -> te.Tensor:
        count = len(call.node.inputs)

        def value(*elements: te.Value) -> te.Value:
            total = reduce(body, elements)
            return total / float(count) if is_mean else total

        def function(*tensors: te.Tensor, name: str) -> te.Tensor:
            return operators.combine_elements(call.node.op, value, tensors, name)

        return in_float32(call, function, *(call.tensor(n) for n in range(count)))

    return expression


def _where(call: NodeCall) -> te.Tensor:
    return operators.where(call.tensor(0), call.tensor(1), call.tensor(2), name=call.name())


def _swiglu(call: NodeCall) -> te.Tensor:
    """The Swish of a gate times a value."""
    alpha = call.attribute("alpha")

    def function(gate: te.Tensor, x: te.Tensor, name: str) -> te.Tensor:
        return operators.combine_elements("SwiGLU", lambda g, v: g * te.sigmoid(g * alpha) * v, (gate, x), name)

    return in_float32(call, function, call.tensor(0), call.tensor(1))


_FUNCTIONS: Mapping[str, Expression] = {
    "Div": _binary(operators.divide),
    "Max": _variadic(te.maximum),
    "Mean": _variadic(lambda x, y: x + y, is_mean=True),
    "Min": _variadic(te.minimum),
    "Pow": _power,
    "Sum": _variadic(lambda x, y: x + y),
    "SwiGLU": _swiglu,
}
_INJECTIVE: Mapping[str, Expression] = {
    "And": _binary(operators.logical_and),
    "BitShift": _shift,
    "BitwiseAnd": _bits(lambda x, y: x & y),
    "BitwiseOr": _bits(lambda x, y: x | y),
    "BitwiseXor": _bits(lambda x, y: x ^ y),
    "Equal": _binary(operators.equal),
    "Greater": _binary(operators.greater),
    "GreaterOrEqual": _binary(operators.greater_equal),
    "Less": _binary(operators.less),
    "LessOrEqual": _binary(operators.less_equal),
    "Mod": _modulo,
    "Or": _binary(operators.logical_or),
    "Where": _where,
    "Xor": _binary(operators.logical_xor),
}


def _combining(name: str, function: Callable[..., te.Tensor], integer: IntegerPattern) -> OperatorRecord:
    return OperatorRecord(
        name=name,
        fusion=FusionClass.INJECTIVE,
        expression=_binary(function),
        traits=Trait.ELEMENTWISE | Trait.FUNCTION | Trait.COMBINING,
        integer=integer,
    )


BROADCAST = (
    *records(FusionClass.INJECTIVE, _FUNCTIONS, Trait.ELEMENTWISE | Trait.FUNCTION),
    *records(FusionClass.INJECTIVE, _INJECTIVE, Trait.ELEMENTWISE),
    _combining("Add", operators.add, fuse_add),
    _combining("Mul", operators.multiply, fuse_mul),
    _combining("Sub", operators.subtract, fuse_sub),
    OperatorRecord(
        name="PRelu",
        fusion=FusionClass.INJECTIVE,
        expression=_binary(operators.prelu),
        traits=Trait.ELEMENTWISE | Trait.FUNCTION | Trait.KEEPS_MAGNITUDE | Trait.HOMOGENEOUS | Trait.SLOPED,
        integer=fuse_prelu,
    ),
)
