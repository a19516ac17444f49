# SPDX-License-Identifier: Apache-2.0
"""Random operators, compiled, run and compared with a naive model.

Operator, configuration and seed identify a case and replay it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from helpers import reference
from vdla.compiler.interpret import interpret
from vdla.compiler.operators.vdla.operator import Operator
from vdla.compiler.templates.channelwise import depthwise_conv2d, pool2d
from vdla.compiler.templates.conv2d import conv2d
from vdla.compiler.templates.conv2d_transpose import conv2d_transpose
from vdla.compiler.templates.elementwise import extremum, leaky_relu, rescale, residual_add
from vdla.compiler.templates.products import batched_matmul, dense
from vdla.hardware.config import Config
from vdla.simulator.simulate import Mode, simulate

Array = np.ndarray[Any, Any]
Options = dict[str, Any]


@dataclass(frozen=True)
class OperatorCase:
    """An operator, its plain operands, and the expected results."""

    operator: Operator
    operands: Mapping[str, Any]
    expected: Array

    def check(self, by_interpreter: bool = False) -> None:
        """Compiles, verifies, simulates and compares; also interprets the loop nest."""
        packed = self.operator.pack(**self.operands)
        found = simulate(self.operator.program, packed, mode=Mode.FUNCTION).outputs
        np.testing.assert_array_equal(self.operator.unpack(found), self.expected)
        if by_interpreter:
            meant = interpret(self.operator.function, packed)
            np.testing.assert_array_equal(meant["output"], found["output"])


class Draw:
    """Random choices from a seed."""

    def __init__(self, config: Config, seed: int) -> None:
        self.config = config
        self.rng = np.random.default_rng(seed)
        self.low, self.high = reference.limits(config.inp_bits)

    def integer(self, low: int, high: int) -> int:
        """An integer from low to high, inclusive."""
        return int(self.rng.integers(low, high + 1))

    def pair(self, low: int, high: int) -> tuple[int, int]:
        """Two integers from low to high."""
        return self.integer(low, high), self.integer(low, high)

    def chance(self, share: float) -> bool:
        """True with the given probability."""
        return bool(self.rng.random() < share)

    def elements(self, shape: tuple[int, ...], bits: int) -> Array:
        """Random elements over their whole range."""
        low, high = reference.limits(bits)
        return self.rng.integers(low, high + 1, shape)

    def zero(self) -> int:
        """A zero point, often 0."""
        return self.integer(self.low, self.high) if self.chance(0.4) else 0

    def pads(self, most: tuple[int, int]) -> tuple[int, ...]:
        """Padding of both directions, or of each side."""
        pads = tuple(self.integer(0, n) for n in most)
        return (*pads, *(self.integer(0, n) for n in most)) if self.chance(0.5) else pads

    def image(self, kernel: tuple[int, int], pads: tuple[int, ...], dilations: tuple[int, int]) -> tuple[int, int]:
        """Rows and columns of an image that the kernel fits."""
        sums = [a + b for a, b in zip(pads[:2], pads[-2:], strict=True)]
        least = [max(1, (k - 1) * d + 1 - p) for k, d, p in zip(kernel, dilations, sums, strict=True)]
        return self.integer(least[0], least[0] + 9), self.integer(least[1], least[1] + 9)

    def channels(self, blocks: int = 3) -> int:
        """A number of channels of up to `blocks` blocks, rarely whole blocks."""
        return self.integer(1, max(2, blocks * min(16, max(self.config.block_in, self.config.block_out))))

    def scale(self, channels: int, sums: Array) -> tuple[Array, Array]:
        """A bias and a real multiplier for each channel; results fill their range."""
        spread = max(1.0, float(np.abs(sums).max()))
        factor = self.rng.uniform(0.5, 2.0, channels) * (self.high + 1) / spread
        bias = self.rng.integers(-int(spread) - 1, int(spread) + 2, channels) // 4
        return bias, np.minimum(factor, 100.0)

    def output(self) -> Options:
        """Options of the results."""
        if self.chance(0.2):
            return {"raw": True}
        zero_point = self.zero()
        activation = "relu" if self.chance(0.4) else "none"
        low = zero_point if activation == "relu" else self.low
        floor = self.integer(low, self.high) if self.chance(0.2) else None
        ceiling = self.integer(low if floor is None else floor, self.high) if self.chance(0.3) else None
        return {"zero_point": zero_point, "activation": activation, "floor": floor, "ceiling": ceiling}

    def finish(self, sums: Array, bias: Array, factor: Array, options: Options) -> Array:
        """The results with these options."""
        if options.get("raw"):
            return sums
        zero_point, ceiling = options["zero_point"], options["ceiling"]
        low = zero_point if options.get("activation") == "relu" else self.low
        floor = options.get("floor")
        low = low if floor is None else max(low, floor)
        return reference.requantise(sums, bias, factor, zero_point, low, self.high if ceiling is None else ceiling)


def _finished(draw: Draw, sums: Array, options: Options) -> tuple[Options, Array]:
    """The operands `bias` and `multiplier`, and the results that they give."""
    bias, factor = draw.scale(sums.shape[1], sums)
    operands = {} if options.get("raw") else {"bias": bias, "multiplier": factor}
    return operands, draw.finish(sums, bias, factor, options)


def conv2d_case(config: Config, seed: int) -> OperatorCase:
    """A convolution with any kernel, strides, pads and dilations."""
    draw = Draw(config, seed)
    kernel, strides, pads, dilations = draw.pair(1, 4), draw.pair(1, 3), draw.pads((3, 3)), draw.pair(1, 2)
    height, width = draw.image(kernel, pads, dilations)
    batch, channels, out = draw.integer(1, 3), draw.channels(), draw.channels()
    options = draw.output()
    zero = 0 if options.get("raw") else draw.zero()
    operator = conv2d(
        config, batch=batch, height=height, width=width, in_channels=channels, out_channels=out, kernel=kernel,
        strides=strides, pads=pads, dilations=dilations, input_zero_point=zero, virtual_threads=draw.integer(1, 3),
        packing=str(draw.rng.choice(["auto", "channels", "patches"])), **options,
    )  # fmt: skip
    data = draw.elements((batch, channels, height, width), config.inp_bits)
    weight = draw.elements((out, channels, *kernel), config.wgt_bits)
    sums = reference.conv2d(data, weight, strides, pads, dilations, zero)
    operands, expected = _finished(draw, sums, options)
    return OperatorCase(operator, {"data": data, "weight": weight, **operands}, expected)


def grouped_conv2d_case(config: Config, seed: int) -> OperatorCase:
    """A convolution of several groups, of few channels or of several blocks."""
    draw = Draw(config, seed)
    kernel, strides, pads, dilations = draw.pair(1, 3), draw.pair(1, 2), draw.pads((2, 2)), draw.pair(1, 2)
    height, width = draw.image(kernel, pads, dilations)
    batch, groups = draw.integer(1, 2), draw.integer(2, 9)
    inputs, outputs = (max(1, draw.channels() // draw.integer(1, groups)) for _ in range(2))
    options = draw.output()
    zero = 0 if options.get("raw") else draw.zero()
    operator = conv2d(
        config, batch=batch, height=height, width=width, in_channels=groups * inputs, out_channels=groups * outputs,
        kernel=kernel, strides=strides, pads=pads, dilations=dilations, groups=groups, input_zero_point=zero,
        virtual_threads=draw.integer(1, 3), **options,
    )  # fmt: skip
    data = draw.elements((batch, groups * inputs, height, width), config.inp_bits)
    weight = draw.elements((groups * outputs, inputs, *kernel), config.wgt_bits)
    pairs = zip(np.split(data, groups, axis=1), np.split(weight, groups), strict=True)
    sums = np.concatenate([reference.conv2d(x, w, strides, pads, dilations, zero) for x, w in pairs], axis=1)
    operands, expected = _finished(draw, sums, options)
    return OperatorCase(operator, {"data": data, "weight": weight, **operands}, expected)


def dense_case(config: Config, seed: int) -> OperatorCase:
    """A matrix product."""
    draw = Draw(config, seed)
    rows, features, out = draw.integer(1, 40), draw.channels(6), draw.channels(6)
    options = draw.output()
    zero = 0 if options.get("raw") else draw.zero()
    operator = dense(
        config, rows=rows, in_features=features, out_features=out, input_zero_point=zero,
        virtual_threads=draw.integer(1, 3), **options,
    )  # fmt: skip
    data, weight = draw.elements((rows, features), config.inp_bits), draw.elements((out, features), config.wgt_bits)
    sums = reference.wrap32((data - zero) @ weight.T)
    operands, expected = _finished(draw, sums, options)
    return OperatorCase(operator, {"data": data, "weight": weight, **operands}, expected)


def batched_matmul_case(config: Config, seed: int) -> OperatorCase:
    """Products of two activations, the second one with rows or with columns of its depth."""
    draw = Draw(config, seed)
    batch, rows, depth, columns = draw.integer(1, 5), draw.integer(1, 20), draw.channels(4), draw.channels(4)
    options, transposed = draw.output(), draw.chance(0.5)
    zero = 0 if options.get("raw") else draw.zero()
    operator = batched_matmul(
        config, batch=batch, rows=rows, depth=depth, columns=columns, transposed=transposed, input_zero_point=zero,
        virtual_threads=draw.integer(1, 3), **options,
    )  # fmt: skip
    data = draw.elements((batch, rows, depth), config.inp_bits)
    other = draw.elements((batch, columns, depth), config.wgt_bits)
    sums = reference.wrap32((data - zero) @ other.transpose(0, 2, 1))
    _, factors = draw.scale(1, sums)
    expected = draw.finish(sums, np.zeros(1, np.int64), factors, options)
    operands = {} if options.get("raw") else {"multiplier": float(factors[0])}
    given = other if transposed else other.transpose(0, 2, 1)
    return OperatorCase(operator, {"data": data, "other": given, **operands}, expected)


def depthwise_case(config: Config, seed: int) -> OperatorCase:
    """A depthwise convolution."""
    draw = Draw(config, seed)
    kernel, strides, pads, dilations = draw.pair(1, 4), draw.pair(1, 3), draw.pads((3, 3)), draw.pair(1, 2)
    height, width = draw.image(kernel, pads, dilations)
    batch, channels = draw.integer(1, 3), draw.channels()
    options = draw.output()
    zero = 0 if options.get("raw") else draw.zero()
    operator = depthwise_conv2d(
        config, batch=batch, height=height, width=width, channels=channels, kernel=kernel, strides=strides,
        pads=pads, dilations=dilations, input_zero_point=zero, virtual_threads=draw.integer(1, 3), **options,
    )  # fmt: skip
    data = draw.elements((batch, channels, height, width), config.inp_bits)
    weight = draw.elements((channels, 1, *kernel), config.wgt_bits)
    sums = reference.depthwise_conv2d(data, weight, strides, pads, dilations, zero)
    operands, expected = _finished(draw, sums, options)
    return OperatorCase(operator, {"data": data, "weight": weight, **operands}, expected)


def conv2d_transpose_case(config: Config, seed: int) -> OperatorCase:
    """A transposed convolution with any kernel, strides, pads and output padding."""
    draw = Draw(config, seed)
    kernel, strides = draw.pair(1, 5), draw.pair(1, 3)
    extra = tuple(draw.integer(0, s - 1) for s in strides)
    height, width = draw.pair(1, 7)
    sizes = zip((height, width), strides, kernel, extra, strict=True)
    height_most, width_most = (min(3, ((n - 1) * s + k + e - 1) // 2) for n, s, k, e in sizes)
    pads = draw.pads((height_most, width_most))
    batch, channels, out = draw.integer(1, 3), draw.channels(), draw.channels()
    options = draw.output()
    zero = 0 if options.get("raw") else draw.zero()
    operator = conv2d_transpose(
        config, batch=batch, height=height, width=width, in_channels=channels, out_channels=out, kernel=kernel,
        strides=strides, pads=pads, output_padding=extra, input_zero_point=zero,
        virtual_threads=draw.integer(1, 3), **options,
    )  # fmt: skip
    data = draw.elements((batch, channels, height, width), config.inp_bits)
    weight = draw.elements((channels, out, *kernel), config.wgt_bits)
    sums = reference.conv2d_transpose(data, weight, strides, pads, extra, zero)
    operands, expected = _finished(draw, sums, options)
    return OperatorCase(operator, {"data": data, "weight": weight, **operands}, expected)


def pool2d_case(config: Config, seed: int) -> OperatorCase:
    """Maximum or average pooling, with or without padding in the count."""
    draw = Draw(config, seed)
    kernel, strides, dilations = draw.pair(1, 4), draw.pair(1, 3), draw.pair(1, 2)
    pads = draw.pads((min(2, kernel[0] - 1), min(2, kernel[1] - 1)))
    height, width = draw.image(kernel, pads, dilations)
    batch, channels, kind = draw.integer(1, 3), draw.channels(), str(draw.rng.choice(["max", "average"]))
    options = draw.output()
    zero = 0 if options.get("raw") else draw.zero()
    include = options.get("raw", False) or kind == "max" or draw.chance(0.5)
    operator = pool2d(
        config, kind=kind, batch=batch, height=height, width=width, channels=channels, kernel=kernel, strides=strides,
        pads=pads, dilations=dilations, input_zero_point=zero, count_include_pad=include,
        virtual_threads=draw.integer(1, 3), **options,
    )  # fmt: skip
    data = draw.elements((batch, channels, height, width), config.inp_bits)
    window = (kernel, strides, pads, dilations)
    if kind == "max":
        sums, divisor = np.maximum(reference.max_pool2d(data, *window), draw.low) - zero, np.int64(1)
    else:
        sums = reference.sum_pool2d(data, *window, zero)
        counts = reference.counts((height, width), *window)
        divisor = np.int64(kernel[0] * kernel[1]) if include else np.maximum(counts, 1)
    bias, factor = draw.scale(channels, sums)
    if options.get("raw"):
        return OperatorCase(operator, {"data": data}, sums)
    operands = {"bias": bias, "multiplier": factor} if draw.chance(0.5) else {"bias": bias}
    factor = factor if "multiplier" in operands else np.ones(channels)
    expected = draw.finish(sums, bias, factor[:, None, None] / divisor, options)
    return OperatorCase(operator, {"data": data, **operands}, expected)


def residual_add_case(config: Config, seed: int) -> OperatorCase:
    """A residual addition of two activations with different scales."""
    draw = Draw(config, seed)
    batch, channels, (height, width) = draw.integer(1, 3), draw.channels(), draw.pair(1, 12)
    options = draw.output()
    zeros = (0, 0) if options.get("raw") else (draw.zero(), draw.zero())
    factors = draw.integer(-400, 32767), draw.integer(-32767, 32767)
    operator = residual_add(
        config, batch=batch, height=height, width=width, channels=channels, factors=factors, input_zero_points=zeros,
        virtual_threads=draw.integer(1, 3), **options,
    )  # fmt: skip
    data, other = (draw.elements((batch, channels, height, width), config.inp_bits) for _ in range(2))
    sums = reference.residual_add(data - zeros[0], other - zeros[1], factors)
    operands, expected = _finished(draw, sums, options)
    return OperatorCase(operator, {"data": data, "other": other, **operands}, expected)


def elementwise_case(config: Config, seed: int) -> OperatorCase:
    """A rescaling, a leaky relu, a maximum or a minimum."""
    draw = Draw(config, seed)
    template = [rescale, leaky_relu, extremum, extremum][seed % 4]
    kind = ["", "", "maximum", "minimum"][seed % 4]
    shape = (draw.integer(1, 3), draw.channels(), *draw.pair(1, 12))
    sides = dict(zip(("batch", "channels", "height", "width"), shape, strict=True))
    options, zeros = draw.output(), (draw.zero(), draw.zero())
    options = options if "floor" in options else {"zero_point": 1, "floor": None, "ceiling": None}
    data, other = (draw.elements(shape, config.inp_bits) for _ in range(2))
    first, second = draw.integer(0, 32767), draw.integer(0, 32767)
    given: Options = {**sides, "virtual_threads": draw.integer(1, 3)}
    operands = {"data": data}
    if template is rescale:
        given |= {"input_zero_point": zeros[0]}
        sums = data - zeros[0]
    elif template is leaky_relu:
        options.pop("activation", None)
        given |= {"input_zero_point": zeros[0], "factors": (first, second)}
        sums = np.maximum((data - zeros[0]) * first, (data - zeros[0]) * second)
    else:
        given |= {"kind": kind, "input_zero_points": zeros, "factors": (first, second)}
        operands |= {"other": other}
        sums = getattr(np, kind)((data - zeros[0]) * first, (other - zeros[1]) * second)
    more, expected = _finished(draw, sums, options)
    return OperatorCase(template(config, **given, **options), {**operands, **more}, expected)


CASES: dict[str, Callable[[Config, int], OperatorCase]] = {
    "conv2d": conv2d_case,
    "grouped_conv2d": grouped_conv2d_case,
    "dense": dense_case,
    "batched_matmul": batched_matmul_case,
    "depthwise_conv2d": depthwise_case,
    "conv2d_transpose": conv2d_transpose_case,
    "pool2d": pool2d_case,
    "residual_add": residual_add_case,
    "elementwise": elementwise_case,
}
