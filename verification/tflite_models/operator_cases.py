# SPDX-License-Identifier: Apache-2.0
"""Models of one quantised operator each, with random options, scales and weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from vdla.verification.tflite_models.draft import CaseDraft, Maker, OperatorCase, ints
from vdla.verification.tflite_models.movement_cases import MOVEMENTS

_SCALES = {"MUL": (0.001, 0.05), "SQUARED_DIFFERENCE": (0.1, 2.0)}  # of results; of others 0.03 to 0.2
_RELU_KINDS = (0, 1, 2, 3)  # none, RELU, RELU_N1_TO_1, RELU6


def operator_cases(seed: int = 0, rounds: int = 4) -> Iterator[OperatorCase]:
    """Cases of every operator."""
    for number in range(rounds):
        for index, make in enumerate((*_MAKERS, *MOVEMENTS)):
            yield make(CaseDraft(np.random.default_rng((seed, number, index))))


def _size(size: int, kernel: int, stride: int, padding: int, dilation: int = 1) -> int:
    return -(-size // stride) if padding == 0 else (size - (kernel - 1) * dilation - 1) // stride + 1


def _activation(d: CaseDraft) -> int:
    return int(d.pick(*_RELU_KINDS))


# --- products -------------------------------------------------------------------------------------


def _conv(d: CaseDraft) -> OperatorCase:
    (h, w, c, o), (kh, kw) = d.random.integers(5, 9, 4).tolist(), d.random.integers(1, 4, 2).tolist()
    stride, padding, dilation = d.pick(1, 2), d.pick(0, 1), d.pick(1, 2)
    if stride > 1:
        dilation = 1
    if (kh - 1) * dilation >= h or (kw - 1) * dilation >= w:
        dilation = 1
    x = d.input(1, h, w, c)
    k, b = d.weight((o, kh, kw, c), 0, per_channel=d.pick(True, False)), d.bias(o)
    y = d.result(
        1, _size(h, kh, stride, padding, dilation), _size(w, kw, stride, padding, dilation), o, scale=d.scale(0.05, 0.5)
    )
    options = {"StrideH": stride, "StrideW": stride, "DilationHFactor": dilation, "DilationWFactor": dilation}
    return d.case("CONV_2D", (x, k, b), (y,), Padding=padding, FusedActivationFunction=_activation(d), **options)


def _depthwise(d: CaseDraft) -> OperatorCase:
    (h, w, c), (kh, kw), times = (
        d.random.integers(4, 9, 3).tolist(),
        d.random.integers(1, 4, 2).tolist(),
        d.pick(1, 1, 2),
    )
    stride, padding, dilation = d.pick(1, 2), d.pick(0, 1), d.pick(1, 2)
    if stride > 1 or (max(kh, kw) - 1) * dilation >= min(h, w):
        dilation = 1
    x = d.input(1, h, w, c)
    k, b = d.weight((1, kh, kw, c * times), 3, per_channel=d.pick(True, False)), d.bias(c * times)
    sizes = [_size(n, k, stride, padding, dilation) for n, k in ((h, kh), (w, kw))]
    y = d.result(1, *sizes, c * times, scale=d.scale(0.05, 0.3))
    options = {
        "StrideH": stride,
        "StrideW": stride,
        "DepthMultiplier": times,
        "DilationHFactor": dilation,
        "DilationWFactor": dilation,
    }
    return d.case(
        "DEPTHWISE_CONV_2D", (x, k, b), (y,), Padding=padding, FusedActivationFunction=_activation(d), **options
    )


def _transposed(d: CaseDraft) -> OperatorCase:
    h, w, c, o = d.random.integers(2, 7, 4).tolist()
    kernel, stride, padding = d.pick(2, 3, 4), d.pick(1, 2), d.pick(0, 1)
    sizes = [n * stride if padding == 0 else (n - 1) * stride + max(kernel, stride) for n in (h, w)]
    x = d.input(1, h, w, c)
    shape = d.writer.constant(np.array([1, *sizes, o], np.int32))
    k = d.weight((o, kernel, kernel, c), 0, per_channel=d.pick(True, False))
    bias = [d.bias(o)] if d.pick(True, False) else []
    y = d.result(1, *sizes, o, scale=d.scale(0.05, 0.3))
    return d.case("TRANSPOSE_CONV", (shape, k, x, *bias), (y,), Padding=padding, StrideH=stride, StrideW=stride)


def _dense(d: CaseDraft) -> OperatorCase:
    rows, depth, outputs = d.random.integers(1, 20, 3).tolist()
    keeps = d.pick(True, False)
    x = d.input(*((2, rows, depth) if keeps else (rows, depth)))
    k = d.weight((outputs, depth), 0, per_channel=d.pick(True, False))
    b = d.bias(outputs) if d.pick(True, False) else -1
    y = d.result(*((2, rows, outputs) if keeps else (rows, outputs)), scale=d.scale(0.05, 0.3))
    return d.case("FULLY_CONNECTED", (x, k, b), (y,), FusedActivationFunction=_activation(d), KeepNumDims=keeps)


def _matmul(d: CaseDraft) -> OperatorCase:
    m, k, n = d.random.integers(2, 9, 3).tolist()
    adjoint_a, adjoint_b = d.pick(False, True), d.pick(False, True)
    a = d.input(d.pick(1, 2), *((k, m) if adjoint_a else (m, k)))
    b = d.input(2, *((n, k) if adjoint_b else (k, n)))
    y = d.result(2, m, n, scale=d.scale(0.05, 0.3))
    return d.case("BATCH_MATMUL", (a, b), (y,), AdjX=adjoint_a, AdjY=adjoint_b)


def _arg(operator: str, dtype: str, code: int) -> Maker:
    def make(d: CaseDraft) -> OperatorCase:
        x, axis = d.input(2, 7, 3), d.writer.constant(np.array(1, np.int32))
        y = d.writer.tensor((2, 3), dtype, name="y")
        return d.case(operator, (x, axis), (y,), OutputType=code)

    return make


# --- windows --------------------------------------------------------------------------------------


def _pool(operator: str) -> Maker:
    def make(d: CaseDraft) -> OperatorCase:
        h, w, c = d.random.integers(4, 10, 3).tolist()
        (kh, kw), stride, padding = d.random.integers(1, 5, 2).tolist(), d.pick(1, 2), d.pick(0, 1)
        x = d.input(1, h, w, c)
        y = d.like(x, 1, _size(h, kh, stride, padding), _size(w, kw, stride, padding), c)
        options = {"StrideH": stride, "StrideW": stride, "FilterHeight": kh, "FilterWidth": kw}
        return d.case(operator, (x,), (y,), Padding=padding, FusedActivationFunction=_activation(d), **options)

    return make


def _mean(operator: str) -> Maker:
    def make(d: CaseDraft) -> OperatorCase:
        shape, axes = d.random.integers(2, 8, 4).tolist(), d.pick((1, 2), (3,), (1,), (-1, 1), (0, 1, 2, 3))
        keeps = d.pick(True, False)
        x, reduced = d.input(*shape), {axis % 4 for axis in axes}
        result = [1 if i in reduced else n for i, n in enumerate(shape) if keeps or i not in reduced]
        a = d.writer.constant(np.array(axes, np.int32))
        is_choice = operator.startswith("REDUCE")
        scales = (0.05, 1.0) if operator == "SUM" else (0.01, 0.1)
        y = d.like(x, *result) if is_choice else d.result(*result, scale=d.scale(*scales))
        return d.case(operator, (x, a), (y,), KeepDims=keeps)

    return make


# --- element by element ---------------------------------------------------------------------------


def _binary(operator: str) -> Maker:
    def make(d: CaseDraft) -> OperatorCase:
        shape = tuple(d.random.integers(1, 6, 4).tolist())
        other = d.pick(shape, (1, 1, 1, shape[3]), shape)
        a, b = d.input(*shape), d.input(*other)
        scale = d.scale(*_SCALES.get(operator, (0.03, 0.2)))
        y = d.result(*shape, scale=scale)
        options = {} if operator == "SQUARED_DIFFERENCE" else {"FusedActivationFunction": _activation(d)}
        return d.case(operator, (a, b), (y,), **options)

    return make


def _choice(operator: str) -> Maker:
    def make(d: CaseDraft) -> OperatorCase:
        a = d.input(1, 4, 4, 3)
        of = d.writer.tensors[a]
        b = d.input(*d.pick((1, 4, 4, 3), (1, 1, 1, 3)), scale=of.scale[0], zero_point=of.zero_point)
        return d.case(operator, (a, b), (d.like(a, 1, 4, 4, 3),))

    return make


def _unary(operator: str, **fixed: Any) -> Maker:  # noqa: ANN401
    """Every int8 value once; `fixed` are the scale and zero point of the result."""

    def make(d: CaseDraft) -> OperatorCase:
        x = d.input(1, 16, 16, 1)
        d.inputs["x0"] = np.arange(-128, 128).astype(np.int8).reshape(1, 16, 16, 1)
        return d.case(operator, (x,), (d.result(1, 16, 16, 1, **fixed),))

    return make


def _root(operator: str) -> Maker:
    """Every int8 value from the zero point up once."""

    def make(d: CaseDraft) -> OperatorCase:
        x = d.input(1, 16, 16, 1)
        zero = d.writer.tensors[x].zero_point
        d.inputs["x0"] = np.maximum(np.arange(-128, 128), zero).astype(np.int8).reshape(1, 16, 16, 1)
        return d.case(operator, (x,), (d.result(1, 16, 16, 1),))

    return make


def _gelu(d: CaseDraft) -> OperatorCase:
    x = d.input(1, 16, 16, 1)
    d.inputs["x0"] = np.arange(-128, 128).astype(np.int8).reshape(1, 16, 16, 1)
    return d.case("GELU", (x,), (d.result(1, 16, 16, 1),), Approximate=d.pick(True, False))


def _compared(operator: str) -> Maker:
    def make(d: CaseDraft) -> OperatorCase:
        a, b = d.input(2, 9, 5), d.input(*d.pick((2, 9, 5), (5,)))
        if operator.endswith("EQUAL") and d.pick(True, False):
            d.writer.tensors[b] = replace(d.writer.tensors[a], name="x1", shape=d.writer.tensors[b].shape)
        return d.case(operator, (a, b), (d.writer.tensor((2, 9, 5), "bool", name="y"),))

    return make


def _quantised(d: CaseDraft) -> OperatorCase:
    """Floats, some of them in the middle between two integers."""
    values = d.random.integers(-300, 300, 256).astype(np.float32) / 2
    scale = d.pick(1.0, 0.25, d.scale())
    x = d.given(np.asarray(values * np.float32(scale), np.float32))
    return d.case("QUANTIZE", (x,), (d.result(256, scale=scale),))


def _dequantised(d: CaseDraft) -> OperatorCase:
    x = d.input(3, 4, 5)
    return d.case("DEQUANTIZE", (x,), (d.writer.tensor((3, 4, 5), "float32", name="y"),))


def _cast(d: CaseDraft) -> OperatorCase:
    dtype, code = d.pick(("float32", 0), ("int32", 2))
    x = d.input(3, 4, 5)
    y = d.writer.tensor((3, 4, 5), dtype, name="y")
    return d.case("CAST", (x,), (y,), InDataType=9, OutDataType=code)


def _normalised(d: CaseDraft) -> OperatorCase:
    shape = d.random.integers(1, 7, d.pick(2, 4)).tolist()
    x = d.input(*shape)
    d.inputs["x0"].reshape(-1, shape[-1])[0] = d.writer.tensors[x].zero_point  # a row without a length
    return d.case("L2_NORMALIZATION", (x,), (d.result(*shape, scale=1 / 128, zero_point=0),))


def _leaky(d: CaseDraft) -> OperatorCase:
    x = d.input(1, 16, 16, 1)
    d.inputs["x0"] = np.arange(-128, 128).astype(np.int8).reshape(1, 16, 16, 1)
    return d.case("LEAKY_RELU", (x,), (d.result(1, 16, 16, 1),), Alpha=d.pick(0.1, 0.3, 0.01))


def _prelu(d: CaseDraft) -> OperatorCase:
    x = d.input(1, 5, 6, 4)
    slope = d.writer.constant(d.data(d.pick((1, 1, 4), (5, 6, 4), (1, 1, 1))), scale=d.scale(), zero_point=d.zero())
    return d.case("PRELU", (x, slope), (d.result(1, 5, 6, 4, scale=d.scale(0.05, 0.3)),))


def _bilinear(d: CaseDraft) -> OperatorCase:
    h, w, oh, ow = d.random.integers(1, 9, 4).tolist()
    x, size = d.input(1, h, w, 3), d.writer.constant(ints(oh, ow))
    corners, centres = d.pick((False, False), (True, False), (False, True))
    y = d.like(x, 1, oh, ow, 3)
    return d.case("RESIZE_BILINEAR", (x, size), (y,), AlignCorners=corners, HalfPixelCenters=centres)


def _softmax(d: CaseDraft) -> OperatorCase:
    x = d.input(int(d.random.integers(1, 6)), int(d.random.integers(1, 40)), scale=d.scale(0.01, 0.4))
    y = d.result(*d.writer.tensors[x].shape, scale=1 / 256, zero_point=-128)
    return d.case("SOFTMAX", (x,), (y,), Beta=1.0)


_MAKERS: tuple[Maker, ...] = (
    _conv,
    _depthwise,
    _transposed,
    _dense,
    _matmul,
    _pool("AVERAGE_POOL_2D"),
    _pool("MAX_POOL_2D"),
    _mean("MEAN"),
    _mean("SUM"),
    _mean("REDUCE_MAX"),
    _mean("REDUCE_MIN"),
    _binary("ADD"),
    _binary("SUB"),
    _binary("MUL"),
    _binary("SQUARED_DIFFERENCE"),
    _choice("MAXIMUM"),
    _choice("MINIMUM"),
    _unary("LOGISTIC", scale=1 / 256, zero_point=-128),
    _unary("TANH", scale=1 / 128, zero_point=0),
    _unary("HARD_SWISH"),
    _unary("ABS"),
    _unary("RELU"),
    _unary("RELU6"),
    _unary("RELU_N1_TO_1"),
    _unary("QUANTIZE"),
    _unary("RELU_0_TO_1"),
    _unary("ELU"),
    _unary("EXP"),
    _unary("LOG"),
    _gelu,
    _root("SQRT"),
    _root("RSQRT"),
    _quantised,
    _dequantised,
    _cast,
    *map(_compared, ("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL")),
    _normalised,
    _leaky,
    _prelu,
    _bilinear,
    _softmax,
    _arg("ARG_MAX", "int32", 2),
    _arg("ARG_MIN", "int64", 4),
)
