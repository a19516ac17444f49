# SPDX-License-Identifier: Apache-2.0
"""Drafts of element-wise operators: functions, arithmetic, comparisons, conversions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from vdla.verification.grids.draw import FLOATS, Array, Draw, NodeDraft

Drafter = Callable[[Draw], NodeDraft]

_FUNCTIONS = (
    "Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Ceil Celu Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid HardSwish "
    "Identity IsInf IsNaN LeakyRelu Log Mish Neg Not Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Size "
    "Softplus Softsign Sqrt Swish Tan Tanh ThresholdedRelu"
)


def _function(draw: Draw) -> NodeDraft:
    parameter = next((item for item in ("T", "T1", "V") if item in draw.version.types), "T")
    x = draw.array(draw.shape(draw.rank(0)), draw.dtype(parameter))
    if draw.version.name in ("IsInf", "IsNaN", "Relu", "Sign", "Round") and x.dtype.kind == "f" and x.size:
        x.reshape(-1)[0] = draw.pick([np.inf, -np.inf, np.nan, 0.5, -0.0])
    options = draw.options(
        alpha=[0.1, 0.5, 1.0, 2.0],
        beta=[0.25, 0.5, 1.0],
        gamma=[1.0, 1.5],
        lambd=[0.5, 1.0],
        bias=[0.0, 0.5],
        detect_negative=[0, 1],
        detect_positive=[0, 1],
        approximate=["none", "tanh"],
    )
    return NodeDraft([x], options)


def _second_shape(draw: Draw, shape: Sequence[int]) -> tuple[int, ...]:
    """A shape that broadcasts with another."""
    cut = draw.rank(0, len(shape))
    return tuple(1 if draw.chance(0.3) else extent for extent in shape[cut:])


def _old_second(draw: Draw, shape: Sequence[int]) -> tuple[tuple[int, ...], dict[str, Any]]:
    """The second shape and the attributes of opsets that broadcast by `axis`."""
    if draw.chance(0.4) or not shape:
        return tuple(shape), {}
    start = draw.rank(0, len(shape) - 1)
    stop = draw.rank(start + 1, len(shape))
    axis = {} if stop == len(shape) and draw.chance() else {"axis": start}
    return tuple(shape[start:stop]), {"broadcast": 1, **axis}


def _arithmetic(draw: Draw) -> NodeDraft:
    shape, dtype = draw.shape(draw.rank(0)), draw.dtype()
    if draw.has("broadcast"):
        other, attributes = _old_second(draw, shape)
    else:
        other, attributes = _second_shape(draw, shape), {}
    low, high = (0, 3) if draw.version.name == "Pow" else (-9, 9)
    inputs = [draw.array(shape, dtype, low, high), draw.array(other, dtype, low, high)]
    if draw.version.name in ("Div", "Mod"):  # without a divisor of 0
        inputs = [np.where(item == 0, np.ones_like(item), item) for item in inputs]
    if draw.version.name == "Pow" and "T1" in draw.version.types:
        inputs[1] = draw.array(other, draw.dtype("T1"), 0, 3)
    if draw.version.name == "Mod":
        attributes |= {"fmod": 1} if np.dtype(dtype).kind == "f" else draw.options(fmod=[0, 1])
    if draw.version.name == "BitShift":
        attributes["direction"] = draw.pick(["LEFT", "RIGHT"])
        inputs[1] = np.asarray(inputs[1] % np.asarray(8, inputs[1].dtype))
    ordered = attributes or draw.version.name in ("PRelu", "Pow", "BitShift") or draw.chance()
    return NodeDraft(inputs if ordered else inputs[::-1], attributes)


def _variadic(draw: Draw) -> NodeDraft:
    shape, dtype = draw.shape(draw.rank(0)), draw.dtype()
    old = draw.version.since < 8
    count = draw.rank(1, 4)
    shapes = [shape if old or i == 0 else _second_shape(draw, shape) for i in range(count)]
    return NodeDraft([draw.array(item, dtype) for item in shapes])


def _where(draw: Draw) -> NodeDraft:
    shape, dtype = draw.shape(draw.rank(0)), draw.dtype()
    shapes = [shape, _second_shape(draw, shape), _second_shape(draw, shape)]
    order = draw.random.permutation(3)
    condition, x, y = (shapes[place] for place in order)
    return NodeDraft([draw.array(condition, "bool"), draw.array(x, dtype), draw.array(y, dtype)])


def _clip(draw: Draw) -> NodeDraft:
    dtype = draw.dtype()
    x = draw.array(draw.shape(draw.rank(0)), dtype, -9, 9)
    if draw.has("min"):
        return NodeDraft([x], draw.options(min=[-2.0, 0.0], max=[1.0, 6.0]))
    low, high = (np.asarray(value, x.dtype) for value in draw.pick([(0, 6), (1, 3), (2, 2), (5, 3)]))
    limits: list[Array | None] = [low if draw.chance(0.7) else None, high if draw.chance(0.7) else None]
    return NodeDraft([x, *limits], constant=frozenset({1, 2}))


def _cast(draw: Draw) -> NodeDraft:
    source, target = draw.dtype("T1"), draw.dtype("T2")
    x = draw.array(draw.shape(draw.rank(0)), source, -9 if target[0] != "u" else 0, 9)
    if source == "object":
        texts = np.array(["1", "-2", "3.5", "1e2"] if target[0] == "f" else ["1", "2", "30"], object)
        x = np.asarray(texts[draw.random.integers(len(texts), size=x.shape)], object)
    code = TensorProto.STRING if target == "object" else _code_of(target)
    if draw.version.name == "CastLike":
        return NodeDraft([x, draw.array((1,), target)])
    if draw.version.since < 6:
        return NodeDraft([x], {"to": TensorProto.DataType.Name(code)})
    return NodeDraft([x], {"to": int(code)})


def _code_of(name: str) -> int:
    from onnx import helper

    return int(helper.np_dtype_to_tensor_dtype(np.dtype(name)))


def _bit_cast(draw: Draw) -> NodeDraft:
    source = draw.pick(["float32", "int32", "uint32", "int16", "uint16", "float16"])
    same = [name for name in ("float32", "int32", "uint32", "int16", "uint16") if _size(name) == _size(source)]
    return NodeDraft([draw.array(draw.shape(), source)], {"to": _code_of(draw.pick(same))})


def _size(name: str) -> int:
    return int(np.dtype(name).itemsize)


def _softmax(draw: Draw) -> NodeDraft:
    rank = draw.rank()
    x = draw.array(draw.shape(rank), draw.dtype(among=FLOATS))
    return NodeDraft([x], {"axis": draw.axis(rank)} if draw.chance(0.7) else {})


def _dropout(draw: Draw) -> NodeDraft:
    x = draw.array(draw.shape(), draw.dtype(among=FLOATS))
    if draw.has("ratio"):
        return NodeDraft([x], draw.options(ratio=[0.3, 0.5], is_test=[1]), outputs=draw.rank(1, 2))
    ratio = np.asarray(0.5, np.float32) if draw.chance() else None
    training = np.asarray(False) if draw.chance() else None
    return NodeDraft([x, ratio, training], outputs=draw.rank(1, 2), constant=frozenset({1, 2}))


def _shape(draw: Draw) -> NodeDraft:
    return NodeDraft(
        [draw.array(draw.shape(draw.rank(0)), draw.dtype())], draw.options(start=[0, 1, -2], end=[2, -1, 9])
    )


_ARITHMETIC = (
    "Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less LessOrEqual Mod Mul Or "
    "PRelu Pow Sub Xor"
)
ELEMENTWISE: Mapping[str, Drafter] = {
    **dict.fromkeys(_FUNCTIONS.split(), _function),
    **dict.fromkeys(_ARITHMETIC.split(), _arithmetic),
    **dict.fromkeys(("Max", "Mean", "Min", "Sum"), _variadic),
    **dict.fromkeys(("Hardmax", "LogSoftmax", "Softmax"), _softmax),
    "BitCast": _bit_cast,
    "Cast": _cast,
    "CastLike": _cast,
    "Clip": _clip,
    "Dropout": _dropout,
    "Shape": _shape,
    "Where": _where,
}
