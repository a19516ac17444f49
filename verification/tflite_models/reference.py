# SPDX-License-Identifier: Apache-2.0
"""What the reference kernels of TensorFlow Lite compute, from their specification in plain NumPy.

It imports nothing of the toolkit's arithmetic and works in the order of the file, channels last,
one operator after the other: a model for tests, of which every line can be held against the
description of the kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from vdla.support.arrays import Array
from vdla.verification.tflite_models.functions import FUNCTIONS
from vdla.verification.tflite_models.movements import MOVEMENTS
from vdla.verification.tflite_models.rounding import (
    doubling_high,
    inverse_root,
    multiplier,
    shift_right,
    times,
    times_fixed,
    times_once,
)
from vdla.verification.tflite_models.step import Kernel, Kernels, OperatorStep
from vdla.verification.tflite_models.writer import TfliteWriter


def reference_outputs(writer: TfliteWriter, inputs: Mapping[str, Array], outputs: Sequence[int]) -> list[Array]:
    """The results of a model that was written."""
    values: dict[int, Array] = {n: t.data for n, t in enumerate(writer.tensors) if t.data is not None}
    values |= {n: np.asarray(inputs[t.name]) for n, t in enumerate(writer.tensors) if t.name in inputs}
    for name, read, written, options in writer.operators:
        step = OperatorStep(writer, values, read, written, options)
        made = KERNELS[name](step)
        for number, value in zip(written, made if isinstance(made, list) else [made], strict=True):
            values[number] = np.asarray(value).reshape(writer.tensors[number].shape)
    return [values[n] for n in outputs]


def _by_channel(sums: Array, factors: Array, scale: Callable[[Array, float], Array] = times) -> Array:
    """Each channel, the last dimension, times its factor."""
    factor_of_channel = np.broadcast_to(factors, sums.shape[-1:])
    return np.stack([scale(sums[..., c], float(factor_of_channel[c])) for c in range(sums.shape[-1])], axis=-1)


# --- convolutions and products --------------------------------------------------------------------


def _places(s: OperatorStep, size: Sequence[int], kernel: Sequence[int], result: Sequence[int]) -> list[Array]:
    """[places, taps] in each spatial dimension: the index that a tap of a window reads."""
    strides = s.options["StrideH"], s.options["StrideW"]
    dilations = s.options.get("DilationHFactor", 1), s.options.get("DilationWFactor", 1)
    places = []
    for d in range(2):
        reach = (kernel[d] - 1) * dilations[d] + 1
        total = max((result[d] - 1) * strides[d] + reach - size[d], 0) if s.options["Padding"] == 0 else 0
        starts = np.arange(result[d]) * strides[d] - total // 2
        places.append(starts[:, None] + np.arange(kernel[d]) * dilations[d])
    return places


def _taps(x: Array, rows: Array, columns: Array, r: int, c: int) -> tuple[Array, Array]:
    """[N, OH, OW, C]: the elements under a tap, and whether they are within the image."""
    h, w = rows[:, r], columns[:, c]
    inside = ((h >= 0) & (h < x.shape[1]))[:, None] & ((w >= 0) & (w < x.shape[2]))[None, :]
    elements = x[:, np.clip(h, 0, x.shape[1] - 1)][:, :, np.clip(w, 0, x.shape[2] - 1)]
    return elements, inside[None, :, :, None]


def _factors(s: OperatorStep, data: int, weight: int) -> Array:
    return np.asarray(float(s.scale(data)) * s.scales(weight).astype(np.float64) / float(s.y_scale))


def _bias(s: OperatorStep, n: int) -> Array | int:
    return 0 if n >= len(s.x) or s.x[n] is None else s[n].astype(np.int64)


def _conv(s: OperatorStep) -> Array:
    x, w = s.wide(0), s[1].astype(np.int64)
    rows, columns = _places(s, x.shape[1:3], w.shape[1:3], s.y_shape[1:3])
    total: Array | int = _bias(s, 2)
    for r in range(w.shape[1]):
        for c in range(w.shape[2]):
            data, inside = _taps(x, rows, columns, r, c)
            total = total + np.where(inside, data, 0).astype(np.float64) @ w[:, r, c].T.astype(np.float64)
    return s.result(_by_channel(np.asarray(total, np.int64), _factors(s, 0, 1)))


def _depthwise(s: OperatorStep) -> Array:
    x, w = s.wide(0), s[1].astype(np.int64)
    x = np.repeat(x, w.shape[3] // x.shape[3], axis=3)
    rows, columns = _places(s, x.shape[1:3], w.shape[1:3], s.y_shape[1:3])
    total: Array | int = _bias(s, 2)
    for r in range(w.shape[1]):
        for c in range(w.shape[2]):
            data, inside = _taps(x, rows, columns, r, c)
            total = total + np.where(inside, data, 0) * w[0, r, c]
    return s.result(_by_channel(np.asarray(total), _factors(s, 0, 1)))


def _transposed(s: OperatorStep) -> Array:
    x, w = s.wide(2), s[1].astype(np.int64)
    total = np.zeros(s.y_shape, np.int64) + _bias(s, 3)
    rows, columns = _places(s, s.y_shape[1:3], w.shape[1:3], x.shape[1:3])
    for i, j, r, c in np.ndindex(*x.shape[1:3], *w.shape[1:3]):
        h, v = rows[i, r], columns[j, c]
        if 0 <= h < total.shape[1] and 0 <= v < total.shape[2]:
            total[:, h, v] += x[:, i, j] @ w[:, r, c].T
    return s.result(_by_channel(total, _factors(s, 2, 1)))


def _dense(s: OperatorStep) -> Array:
    total = s.wide(0).reshape(-1, s[1].shape[1]) @ s[1].astype(np.int64).T + _bias(s, 2)
    one = np.asarray((s.scale(0) * s.scales(1)).astype(np.float64) / float(s.y_scale))
    return s.result(_by_channel(np.asarray(total), one if one.size == 1 else _factors(s, 0, 1), times_once))


def _matmul(s: OperatorStep) -> Array:
    a, b = s.wide(0), s.wide(1)
    a = a.swapaxes(-1, -2) if s.options.get("AdjX") else a
    b = b.swapaxes(-1, -2) if s.options.get("AdjY") else b
    return s.result(times(a @ b, float(s.scale(0) * s.scale(1)) / float(s.y_scale)))


# --- pools and means ------------------------------------------------------------------------------


def _pooled(s: OperatorStep, start: int, combine: Callable[[Array, Array], Array]) -> tuple[Array, Array]:
    x, kernel = s[0].astype(np.int64), (s.options["FilterHeight"], s.options["FilterWidth"])
    rows, columns = _places(s, x.shape[1:3], kernel, s.y_shape[1:3])
    total, count = np.full(s.y_shape, start, np.int64), np.zeros(s.y_shape, np.int64)
    for r, c in np.ndindex(*kernel):
        data, inside = _taps(x, rows, columns, r, c)
        total, count = np.where(inside, combine(total, data), total), count + inside
    return total, count


def _average_pool(s: OperatorStep) -> Array:
    total, count = _pooled(s, 0, lambda a, b: a + b)
    mean = np.where(total > 0, (total + count // 2) // count, -((-total + count // 2) // count))
    return s.result(mean - s.y_zero)


def _max_pool(s: OperatorStep) -> Array:
    return s.result(_pooled(s, -128, np.maximum)[0] - s.y_zero)


def _mean(s: OperatorStep) -> Array:
    axes = tuple(int(a) % s[0].ndim for a in s[1])
    total = s.wide(0).sum(axis=axes)
    count = int(np.prod([s[0].shape[a] for a in set(axes)]))
    q, shift = multiplier(float(s.scale(0)) / float(s.y_scale))
    more = min(count.bit_length() - 1, 32, 31 + shift)
    q, shift = (q << more) // count, shift - more
    return s.result(times_fixed(total, q, shift))


def _total(s: OperatorStep) -> Array:
    total = s.wide(0).sum(axis=tuple(int(a) % s[0].ndim for a in s[1]))
    return s.result(times(total, float(s.scale(0)) / float(s.y_scale)))


def _extreme(function: Callable[..., Array]) -> Kernel:
    return lambda s: function(s[0], axis=tuple(int(a) for a in s[1]))


# --- lengths --------------------------------------------------------------------------------------


def _normalised(s: OperatorStep) -> Array:
    """Rows over their lengths, in units of 1/128."""
    rows = s.wide(0).reshape(-1, s[0].shape[-1])
    made = [times_fixed(row, q, shift + 7) for row in rows for q, shift in [inverse_root(int(row @ row))]]
    return np.asarray(np.clip(np.array(made), -128, 127).astype(np.int8))


# --- softmax --------------------------------------------------------------------------------------


def _exp(a: int) -> int:
    """e^a, a <= 0 with 26 fractional bits, with 31 fractional bits."""
    if a == 0:
        return 2**31 - 1
    rest = (a & (2**24 - 1)) - 2**24
    x = (rest << 5) + 2**28

    def high(p: int, q: int) -> int:
        return int(doubling_high(np.array(p), q))

    x2 = high(x, x)
    x3, x4 = high(x2, x), high(x2, x2)
    x4_over_4 = int(shift_right(np.array(x4), 2))
    series = int(shift_right(np.array(high(x4_over_4 + x3, 715827883) + x2), 1))
    result = 1895147668 + high(1895147668, x + series)
    powers = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
    for bit, power in enumerate(powers, start=24):
        if (rest - a) >> bit & 1:
            result = high(result, power)
    return result


def _softmax(s: OperatorStep) -> Array:
    q, shift = multiplier(min(float(np.float32(s.options["Beta"])) * float(s.scale(0)) * 2**26, 2**31 - 1.0))
    least = -int(np.floor(31 * 2.0**26 / 2.0**shift))
    rows = s[0].reshape(-1, s[0].shape[-1]).astype(np.int64)
    result = np.full(rows.shape, -128, np.int64)
    for row, made in zip(rows, result, strict=True):
        differences = row - row.max()
        near = differences >= least
        powers = [_exp(int(doubling_high(np.array(d) << shift, q))) for d in differences[near]]
        over, reciprocal = _reciprocal(sum((p + 2**11) >> 12 for p in powers))
        scaled = shift_right(doubling_high(np.array(powers), reciprocal), over + 31 - 8)
        made[near] = np.clip(scaled - 128, -128, 127)
    return np.asarray(result.astype(np.int8))


def _reciprocal(total: int) -> tuple[int, int]:
    """One over a sum with 19 fractional bits: the power of two to divide by, and 31 bits."""
    headroom = 32 - total.bit_length()
    half = ((total << headroom) - 2**31 + 2**31 - 1 + 1) // 2

    def high(p: int, q: int) -> int:
        return int(doubling_high(np.array(p), q))

    x = 1515870810 + high(half, -1010580540)
    for _ in range(3):
        x += high(x, 2**29 - high(half, x)) * 4
    return 12 - headroom, min(x * 2, 2**31 - 1)


_REDUCTIONS: Kernels = {
    "AVERAGE_POOL_2D": _average_pool,
    "BATCH_MATMUL": _matmul,
    "CONV_2D": _conv,
    "DEPTHWISE_CONV_2D": _depthwise,
    "FULLY_CONNECTED": _dense,
    "L2_NORMALIZATION": _normalised,
    "MAX_POOL_2D": _max_pool,
    "MEAN": _mean,
    "REDUCE_MAX": _extreme(np.max),
    "REDUCE_MIN": _extreme(np.min),
    "SOFTMAX": _softmax,
    "SUM": _total,
    "TRANSPOSE_CONV": _transposed,
}


KERNELS: Kernels = {**_REDUCTIONS, **FUNCTIONS, **MOVEMENTS}
"""The kernels by the names of operators."""
