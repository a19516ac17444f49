# SPDX-License-Identifier: Apache-2.0
"""What the reference kernels of TensorFlow Lite compute, from their specification in plain NumPy.

It imports nothing of the toolkit's arithmetic and works in the order of the file, channels last,
one operator after the other: a model for tests, of which every line can be held against the
description of the kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from vdla.support.arrays import Array
from vdla.verification.tflite_models.writer import TfliteWriter

_Values = dict[int, Array]
_Call = Callable[["_Step"], Any]


def reference_outputs(writer: TfliteWriter, inputs: Mapping[str, Array], outputs: Sequence[int]) -> list[Array]:
    """The results of a model that was written."""
    values: _Values = {n: t.data for n, t in enumerate(writer.tensors) if t.data is not None}
    values |= {n: np.asarray(inputs[t.name]) for n, t in enumerate(writer.tensors) if t.name in inputs}
    for name, read, written, options in writer.operators:
        step = _Step(writer, values, read, written, options)
        made = _KERNELS[name](step)
        for number, value in zip(written, made if isinstance(made, list) else [made], strict=True):
            values[number] = np.asarray(value).reshape(writer.tensors[number].shape)
    return [values[n] for n in outputs]


class _Step:
    """An operator with its values, scales and zero points."""

    def __init__(
        self,
        writer: TfliteWriter,
        values: _Values,
        read: Sequence[int],
        written: Sequence[int],
        options: dict[str, Any],
    ) -> None:
        self.tensors, self.options = writer.tensors, options
        self.read, self.written = read, written
        self.x = [None if n < 0 else values[n] for n in read]

    def __getitem__(self, n: int) -> Array:
        value = self.x[n]
        assert value is not None
        return value

    def scale(self, n: int) -> np.float32:
        return np.float32(self.tensors[self.read[n]].scale[0])

    def scales(self, n: int) -> Array:
        return np.array(self.tensors[self.read[n]].scale, np.float32)

    def zero(self, n: int) -> int:
        return self.tensors[self.read[n]].zero_point

    def wide(self, n: int) -> Array:
        """The input less its zero point."""
        return np.asarray(self[n].astype(np.int64) - self.zero(n))

    @property
    def y_scale(self) -> np.float32:
        return np.float32(self.tensors[self.written[0]].scale[0])

    @property
    def y_zero(self) -> int:
        return self.tensors[self.written[0]].zero_point

    @property
    def y_shape(self) -> tuple[int, ...]:
        return self.tensors[self.written[0]].shape

    def result(self, rescaled: Array, activation: int | None = None) -> Array:
        """Rescaled sums with the zero point, within the limits of the fused activation."""
        kind = self.options.get("FusedActivationFunction", 0) if activation is None else activation
        low, high = -128, 127
        if kind in (1, 3):
            low = max(low, self.quantised(0.0))
        if kind == 3:
            high = min(high, self.quantised(6.0))
        if kind == 2:
            low, high = max(low, self.quantised(-1.0)), min(high, self.quantised(1.0))
        return np.asarray(np.clip(rescaled + self.y_zero, low, high).astype(np.int8))

    def quantised(self, value: float) -> int:
        return self.y_zero + _round(float(np.float32(value) / self.y_scale))


# --- fixed point, line by line of the description -------------------------------------------------


def _round(value: float) -> int:
    return int(np.floor(abs(value) + 0.5)) * (1 if value >= 0 else -1)


def _multiplier(real: float) -> tuple[int, int]:
    """The factor as q * 2**shift, q of 31 bits."""
    if real == 0:
        return 0, 0
    shift = 0
    while real < 0.5:
        real, shift = real * 2, shift - 1
    while real >= 1:
        real, shift = real / 2, shift + 1
    q = _round(real * 2**31)
    return (q // 2, shift + 1) if q == 2**31 else (q, shift)


def _doubling_high(a: Array, b: Array | int) -> Array:
    """The high half of twice the product, nudged by its sign and divided towards zero."""
    product = np.asarray(a, np.int64) * np.asarray(b, np.int64)
    nudged = product + np.where(product >= 0, 2**30, 1 - 2**30)
    return np.where(nudged >= 0, nudged // 2**31, -(-nudged // 2**31))


def _shift_right(x: Array, exponent: int) -> Array:
    """A division by a power of two that compares the remainder with a threshold."""
    mask = (1 << exponent) - 1
    threshold = (mask >> 1) + np.where(x < 0, 1, 0)
    return np.asarray((x >> exponent) + ((x & mask) > threshold))


def _times(x: Array, real: float) -> Array:
    """x times a factor, rounded twice."""
    q, shift = _multiplier(real)
    return _shift_right(_doubling_high(x * 2 ** max(shift, 0), q), max(-shift, 0))


def _times_once(x: Array, real: float) -> Array:
    """x times a factor, rounded once."""
    q, shift = _multiplier(real)
    return np.asarray((x * q + (1 << (30 - shift))) >> (31 - shift))


def _by_channel(sums: Array, factors: Array, times: Callable[[Array, float], Array] = _times) -> Array:
    """Each channel, the last dimension, times its factor."""
    factor_of_channel = np.broadcast_to(factors, sums.shape[-1:])
    return np.stack([times(sums[..., c], float(factor_of_channel[c])) for c in range(sums.shape[-1])], axis=-1)


# --- convolutions and products --------------------------------------------------------------------


def _places(s: _Step, size: Sequence[int], kernel: Sequence[int], result: Sequence[int]) -> list[Array]:
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


def _factors(s: _Step, data: int, weight: int) -> Array:
    return np.asarray(float(s.scale(data)) * s.scales(weight).astype(np.float64) / float(s.y_scale))


def _bias(s: _Step, n: int) -> Array | int:
    return 0 if n >= len(s.x) or s.x[n] is None else s[n].astype(np.int64)


def _conv(s: _Step) -> Array:
    x, w = s.wide(0), s[1].astype(np.int64)
    rows, columns = _places(s, x.shape[1:3], w.shape[1:3], s.y_shape[1:3])
    total: Array | int = _bias(s, 2)
    for r in range(w.shape[1]):
        for c in range(w.shape[2]):
            data, inside = _taps(x, rows, columns, r, c)
            total = total + np.where(inside, data, 0).astype(np.float64) @ w[:, r, c].T.astype(np.float64)
    return s.result(_by_channel(np.asarray(total, np.int64), _factors(s, 0, 1)))


def _depthwise(s: _Step) -> Array:
    x, w = s.wide(0), s[1].astype(np.int64)
    x = np.repeat(x, w.shape[3] // x.shape[3], axis=3)
    rows, columns = _places(s, x.shape[1:3], w.shape[1:3], s.y_shape[1:3])
    total: Array | int = _bias(s, 2)
    for r in range(w.shape[1]):
        for c in range(w.shape[2]):
            data, inside = _taps(x, rows, columns, r, c)
            total = total + np.where(inside, data, 0) * w[0, r, c]
    return s.result(_by_channel(np.asarray(total), _factors(s, 0, 1)))


def _transposed(s: _Step) -> Array:
    x, w = s.wide(2), s[1].astype(np.int64)
    total = np.zeros(s.y_shape, np.int64) + _bias(s, 3)
    rows, columns = _places(s, s.y_shape[1:3], w.shape[1:3], x.shape[1:3])
    for i, j, r, c in np.ndindex(*x.shape[1:3], *w.shape[1:3]):
        h, v = rows[i, r], columns[j, c]
        if 0 <= h < total.shape[1] and 0 <= v < total.shape[2]:
            total[:, h, v] += x[:, i, j] @ w[:, r, c].T
    return s.result(_by_channel(total, _factors(s, 2, 1)))


def _dense(s: _Step) -> Array:
    total = s.wide(0).reshape(-1, s[1].shape[1]) @ s[1].astype(np.int64).T + _bias(s, 2)
    factor = (s.scale(0) * s.scales(1)).astype(np.float64) / float(s.y_scale)
    return s.result(_by_channel(np.asarray(total), factor, _times_once))


def _matmul(s: _Step) -> Array:
    a, b = s.wide(0), s.wide(1)
    a = a.swapaxes(-1, -2) if s.options.get("AdjX") else a
    b = b.swapaxes(-1, -2) if s.options.get("AdjY") else b
    return s.result(_times(a @ b, float(s.scale(0) * s.scale(1)) / float(s.y_scale)))


# --- pools and means ------------------------------------------------------------------------------


def _pooled(s: _Step, start: int, combine: Callable[[Array, Array], Array]) -> tuple[Array, Array]:
    x, kernel = s[0].astype(np.int64), (s.options["FilterHeight"], s.options["FilterWidth"])
    rows, columns = _places(s, x.shape[1:3], kernel, s.y_shape[1:3])
    total, count = np.full(s.y_shape, start, np.int64), np.zeros(s.y_shape, np.int64)
    for r, c in np.ndindex(*kernel):
        data, inside = _taps(x, rows, columns, r, c)
        total, count = np.where(inside, combine(total, data), total), count + inside
    return total, count


def _average_pool(s: _Step) -> Array:
    total, count = _pooled(s, 0, lambda a, b: a + b)
    mean = np.where(total > 0, (total + count // 2) // count, -((-total + count // 2) // count))
    return s.result(mean - s.y_zero)


def _max_pool(s: _Step) -> Array:
    return s.result(_pooled(s, -128, np.maximum)[0] - s.y_zero)


def _mean(s: _Step) -> Array:
    axes = tuple(int(a) % s[0].ndim for a in s[1])
    total = s.wide(0).sum(axis=axes)
    count = int(np.prod([s[0].shape[a] for a in set(axes)]))
    q, shift = _multiplier(float(s.scale(0)) / float(s.y_scale))
    more = min(count.bit_length() - 1, 32, 31 + shift)
    q, shift = (q << more) // count, shift - more
    scaled = _shift_right(_doubling_high(total * 2 ** max(shift, 0), q), max(-shift, 0))
    return s.result(np.asarray(scaled))


def _extreme(function: Callable[..., Array]) -> _Call:
    return lambda s: function(s[0], axis=tuple(int(a) for a in s[1]))


# --- element by element ---------------------------------------------------------------------------


def _sum(sign: int) -> _Call:
    def kernel(s: _Step) -> Array:
        a, b, twice = float(s.scale(0)), float(s.scale(1)), 2 * max(float(s.scale(0)), float(s.scale(1)))
        first, second = _times(s.wide(0) << 20, a / twice), _times(s.wide(1) << 20, b / twice)
        return s.result(_times(first + sign * second, twice / (2**20 * float(s.y_scale))))

    return kernel


def _mul(s: _Step) -> Array:
    return s.result(_times(s.wide(0) * s.wide(1), float(s.scale(0) * s.scale(1) / s.y_scale)))


def _rescale(s: _Step, activation: int = 0) -> Array:
    return s.result(_times(s.wide(0), float(s.scale(0) / s.y_scale)), activation)


def _requantise(s: _Step) -> Array:
    return s.result(_times(s.wide(0), float(s.scale(0)) / float(s.y_scale)))


def _leaky(s: _Step) -> Array:
    x, alpha = s.wide(0), np.float32(s.options["Alpha"])
    above, below = float(s.scale(0) / s.y_scale), float(s.scale(0) * alpha / s.y_scale)
    return s.result(np.where(x >= 0, _times(x, above), _times(x, below)))


def _prelu(s: _Step) -> Array:
    x, slope = s.wide(0), s.wide(1)
    above, below = float(s.scale(0) / s.y_scale), float(s.scale(0) * s.scale(1) / s.y_scale)
    return s.result(np.where(x >= 0, _times(x, above), _times(x * slope, below)))


def _absolute(s: _Step) -> Array:
    x = np.abs(s.wide(0))
    return s.result(x if s.scale(0) == s.y_scale else _times(x, float(s.scale(0) / s.y_scale)))


def _by_float(function: Callable[[Array], Array]) -> _Call:
    def kernel(s: _Step) -> Array:
        values = function((s.wide(0).astype(np.float32) * s.scale(0)).astype(np.float32)).astype(np.float32)
        scaled = values * (np.float32(1) / s.y_scale)
        return s.result(np.vectorize(_round, otypes=[np.int64])(scaled.astype(np.float64)))

    return kernel


def _sigmoid(x: Array) -> Array:
    return np.asarray(np.float32(1) / (np.float32(1) + np.exp(-x)))


def _short_high(a: Array, b: int) -> Array:
    """As `_doubling_high`, of 16 bits."""
    product = np.asarray(a, np.int64) * b
    nudged = product + np.where(product >= 0, 2**14, 1 - 2**14)
    return np.where(nudged >= 0, nudged // 2**15, -(-nudged // 2**15))


def _hard_swish(s: _Step) -> Array:
    fine = np.float32(1 / 128) * s.scale(0)
    q, shift = _multiplier(float(fine / s.y_scale))
    gate_q, gate_shift = _multiplier(float(fine / np.float32(3.0 / 32768.0)))
    x = s.wide(0) << 7
    scaled = _short_high(x, min((q + 2**15) >> 16, 2**15 - 1))
    gate = np.clip(x * 2 ** max(gate_shift - 1, 0), -(2**15), 2**15 - 1)
    gate = _short_high(gate, min((gate_q + 2**15) >> 16, 2**15 - 1))
    gate = np.clip(gate * 2, -(2**15), 2**15 - 1) if gate_shift > 0 else gate
    gate = _shift_right(gate, -gate_shift) if gate_shift < 0 else gate
    product = ((gate + 2**15) >> 1) * scaled
    high = np.where(product >= 0, product // 2**15, -(-product // 2**15))
    return s.result(_shift_right(high, -shift) if shift <= 0 else high * 2**shift)


# --- softmax --------------------------------------------------------------------------------------


def _exp(a: int) -> int:
    """e^a, a <= 0 with 26 fractional bits, with 31 fractional bits."""
    if a == 0:
        return 2**31 - 1
    rest = (a & (2**24 - 1)) - 2**24
    x = (rest << 5) + 2**28

    def high(p: int, q: int) -> int:
        return int(_doubling_high(np.array(p), q))

    x2 = high(x, x)
    x3, x4 = high(x2, x), high(x2, x2)
    x4_over_4 = int(_shift_right(np.array(x4), 2))
    series = int(_shift_right(np.array(high(x4_over_4 + x3, 715827883) + x2), 1))
    result = 1895147668 + high(1895147668, x + series)
    powers = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
    for bit, power in enumerate(powers, start=24):
        if (rest - a) >> bit & 1:
            result = high(result, power)
    return result


def _softmax(s: _Step) -> Array:
    q, shift = _multiplier(min(float(np.float32(s.options["Beta"])) * float(s.scale(0)) * 2**26, 2**31 - 1.0))
    least = -int(np.floor(31 * 2.0**26 / 2.0**shift))
    rows = s[0].reshape(-1, s[0].shape[-1]).astype(np.int64)
    result = np.full(rows.shape, -128, np.int64)
    for row, made in zip(rows, result, strict=True):
        differences = row - row.max()
        near = differences >= least
        powers = [_exp(int(_doubling_high(np.array(d) << shift, q))) for d in differences[near]]
        over, reciprocal = _reciprocal(sum((p + 2**11) >> 12 for p in powers))
        scaled = _shift_right(_doubling_high(np.array(powers), reciprocal), over + 31 - 8)
        made[near] = np.clip(scaled - 128, -128, 127)
    return np.asarray(result.astype(np.int8))


def _reciprocal(total: int) -> tuple[int, int]:
    """One over a sum with 19 fractional bits: the power of two to divide by, and 31 bits."""
    headroom = 32 - total.bit_length()
    half = ((total << headroom) - 2**31 + 2**31 - 1 + 1) // 2

    def high(p: int, q: int) -> int:
        return int(_doubling_high(np.array(p), q))

    x = 1515870810 + high(half, -1010580540)
    for _ in range(3):
        x += high(x, 2**29 - high(half, x)) * 4
    return 12 - headroom, min(x * 2, 2**31 - 1)


# --- movements ------------------------------------------------------------------------------------


def _pad(s: _Step) -> Array:
    return np.pad(s[0], s[1].tolist(), constant_values=s.y_zero)


def _slice(s: _Step) -> Array:
    ends = [None if size == -1 else begin + size for begin, size in zip(s[1], s[2], strict=True)]
    return np.asarray(
        s[0][tuple(slice(int(b), None if e is None else int(e)) for b, e in zip(s[1], ends, strict=True))]
    )


def _strided_slice(s: _Step) -> Array:
    parts: list[slice | int] = []
    for d, (begin, end, step) in enumerate(zip(s[1].tolist(), s[2].tolist(), s[3].tolist(), strict=True)):
        if s.options.get("ShrinkAxisMask", 0) >> d & 1:
            parts.append(begin)
            continue
        free = [s.options.get(mask, 0) >> d & 1 for mask in ("BeginMask", "EndMask")]
        parts.append(slice(None if free[0] else begin, None if free[1] else end, step))
    return np.asarray(s[0][tuple(parts)])


def _space_to_depth(s: _Step) -> Array:
    n, h, w, c = s[0].shape
    b = s.options["BlockSize"]
    return s[0].reshape(n, h // b, b, w // b, b, c).transpose(0, 1, 3, 2, 4, 5)


def _depth_to_space(s: _Step) -> Array:
    n, h, w, c = s[0].shape
    b = s.options["BlockSize"]
    return s[0].reshape(n, h, w, b, b, c // b // b).transpose(0, 1, 3, 2, 4, 5)


def _nearest(s: _Step) -> Array:
    image = s[0]
    for axis, after in enumerate(s[1].tolist(), start=1):
        before = image.shape[axis]
        scale = np.float32(before) / np.float32(after)
        half = np.float32(0.5 if s.options.get("HalfPixelCenters") else 0)
        places = [min(int(np.floor((np.float32(i) + half) * scale)), before - 1) for i in range(after)]
        image = image.take(places, axis)
    return image


def _bilinear(s: _Step) -> Array:
    sides = [_between(s, before, after) for before, after in zip(s[0].shape[1:3], s[1].tolist(), strict=True)]
    result = np.zeros((s[0].shape[0], *s[1].tolist(), s[0].shape[3]), np.int8)
    for (i, (y, y0, y1)), (j, (x, x0, x1)) in product(enumerate(sides[0]), enumerate(sides[1])):
        total = np.zeros((s[0].shape[0], s[0].shape[3]), np.int64)
        for row, column, weight in (
            (y0, x0, (1024 - y) * (1024 - x)), (y1, x0, y * (1024 - x)), (y0, x1, (1024 - y) * x), (y1, x1, y * x)
        ):  # fmt: skip
            total += s[0][:, row, column].astype(np.int64) * weight
        nudged = total + np.where(total > 0, 2**19, -(2**19))
        result[:, i, j] = np.where(nudged >= 0, nudged // 2**20, -(-nudged // 2**20))
    return result


def _between(s: _Step, before: int, after: int) -> list[tuple[int, int, int]]:
    """For each place: how far in 1/1024 it is from the element below; the elements around it."""
    corners = s.options.get("AlignCorners") and after > 1
    top, bottom = (before - 1, after - 1) if corners else (before, after)
    scale, places = (1024 * top + bottom // 2) // bottom, []
    for n in range(after):
        place = n * scale + (scale // 2 - 512 if s.options.get("HalfPixelCenters") else 0)
        lower, upper = max(int(place / 1024), 0), min(int((place + 1023) / 1024), before - 1)
        places.append((place - 1024 * lower, lower, upper))
    return places


def _split(s: _Step) -> list[Array]:
    return list(np.split(s[1], len(s.written), int(s[0])))


def _unpack(s: _Step) -> list[Array]:
    return [s[0].take(n, s.options["Axis"]) for n in range(len(s.written))]


_KERNELS: Mapping[str, _Call] = {
    "ABS": _absolute,
    "ADD": _sum(1),
    "ARG_MAX": lambda s: s[0].argmax(int(s[1])).astype(np.int32),
    "AVERAGE_POOL_2D": _average_pool,
    "BATCH_MATMUL": _matmul,
    "CONCATENATION": lambda s: np.concatenate([s[n] for n in range(len(s.x))], s.options["Axis"]),
    "CONV_2D": _conv,
    "DEPTHWISE_CONV_2D": _depthwise,
    "DEPTH_TO_SPACE": _depth_to_space,
    "EXPAND_DIMS": lambda s: s[0],
    "FULLY_CONNECTED": _dense,
    "GATHER": lambda s: s[0].take(s[1], s.options["Axis"]),
    "HARD_SWISH": _hard_swish,
    "LEAKY_RELU": _leaky,
    "LOGISTIC": _by_float(_sigmoid),
    "MAXIMUM": lambda s: np.maximum(s[0], s[1]),
    "MAX_POOL_2D": _max_pool,
    "MEAN": _mean,
    "MINIMUM": lambda s: np.minimum(s[0], s[1]),
    "MUL": _mul,
    "PACK": lambda s: np.stack([s[n] for n in range(len(s.x))], s.options["Axis"]),
    "PAD": _pad,
    "PRELU": _prelu,
    "QUANTIZE": _requantise,
    "REDUCE_MAX": _extreme(np.max),
    "REDUCE_MIN": _extreme(np.min),
    "RELU": lambda s: _rescale(s, 1),
    "RELU6": lambda s: _rescale(s, 3),
    "RELU_N1_TO_1": lambda s: _rescale(s, 2),
    "RESHAPE": lambda s: s[0],
    "RESIZE_BILINEAR": _bilinear,
    "RESIZE_NEAREST_NEIGHBOR": _nearest,
    "SLICE": _slice,
    "SOFTMAX": _softmax,
    "SPACE_TO_DEPTH": _space_to_depth,
    "SPLIT": _split,
    "SQUEEZE": lambda s: s[0],
    "STRIDED_SLICE": _strided_slice,
    "SUB": _sum(-1),
    "TANH": _by_float(np.tanh),
    "TILE": lambda s: np.tile(s[0], s[1].tolist()),
    "TRANSPOSE_CONV": _transposed,
    "TRANSPOSE": lambda s: s[0].transpose(s[1].tolist()),
    "UNPACK": _unpack,
}
