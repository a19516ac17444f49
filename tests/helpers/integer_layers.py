# SPDX-License-Identifier: Apache-2.0
"""Random integer graphs of images of any rank: each layer reads the one before; a seed replays."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from vdla.compiler.graph import Graph, Node, TensorType, check_graph

Shape = tuple[int, ...]
LAYERS = ("conv", "grouped", "depthwise", "transposed", "max", "average", "whole", "add", "rescale", "leaky")


class IntegerLayers:
    """A graph that grows from its input `x`, an image [N, C, ...]; each method adds a layer."""

    def __init__(self, seed: int, shape: Shape) -> None:
        self.rng = np.random.default_rng(seed)
        self.rank, self.last = len(shape) - 2, "x"
        self.nodes: list[Node] = []
        self.constants: dict[str, np.ndarray] = {}
        self.types = {"x": TensorType("int8", shape)}

    def graph(self) -> Graph:
        """All layers; each result is an output."""
        outputs = tuple(node.outputs[0] for node in self.nodes)
        return check_graph(Graph("g", ("x",), outputs, tuple(self.nodes), self.constants, self.types))

    def layer(self, kind: str) -> None:
        """A layer of LAYERS."""
        match kind:
            case "conv":
                self.conv(1, self._integer(1, 20))
            case "grouped":
                groups = int(self.rng.choice(_divisors(self.shape[1])))
                self.conv(groups, groups * self._integer(1, 4))
            case "depthwise":
                self.conv(self.shape[1], self.shape[1])
            case "transposed":
                self._transposed()
            case "max" | "average" | "whole":
                self._pool(kind)
            case "add":
                self._add()
            case "rescale":
                self._append("vdla.QRescale", (), self.shape, 1, x_zero_point=self._zero())
            case "leaky":
                factors = (100, self._integer(1, 100))
                self._append("vdla.QLeakyRelu", (), self.shape, 100, x_zero_point=self._zero(), factors=factors)
            case _:
                raise ValueError(kind)

    @property
    def shape(self) -> Shape:
        return tuple(int(extent) for extent in self.types[self.last].extents)

    def conv(self, groups: int, outputs: int) -> None:
        """A convolution."""
        count, channels, *size = self.shape
        window, results = self._window(size)
        weight = self._constant(-128, 128, (outputs, channels // groups, *window.pop("kernel_shape")), np.int8)
        taps = self.constants[weight][0].size
        options = {"group": groups, "x_zero_point": self._zero(), **window}
        shape = (count, outputs, *results)
        self._append("vdla.QConv", (weight, self._bias(outputs)), shape, 99 * taps**0.5, outputs, **options)

    def _transposed(self) -> None:
        count, channels, *size = self.shape
        kernel, strides = (self._each(1, most) for most in (4, 3))
        more = tuple(self._integer(0, stride - 1) for stride in strides)
        full = [(n - 1) * s + k + e for n, s, k, e in zip(size, strides, kernel, more, strict=True)]
        pads = tuple(self._integer(0, int(extent > 2)) for extent in full * 2)
        results = [n - pads[d] - pads[self.rank + d] for d, n in enumerate(full)]
        outputs = self._integer(1, 20)
        weight = self._constant(-128, 128, (channels, outputs, *kernel), np.int8)
        options = {"strides": strides, "pads": pads, "dilations": (1,) * self.rank, "output_padding": more, "group": 1}
        spread, shape = 99 * (channels * prod(kernel)) ** 0.5, (count, outputs, *results)
        inputs = (weight, self._bias(outputs))
        self._append("vdla.QConvTranspose", inputs, shape, spread, x_zero_point=self._zero(), **options)

    def _pool(self, kind: str) -> None:
        count, channels, *size = self.shape
        window, results = self._window(size, padded=False)
        if kind == "whole":
            ones = (1,) * self.rank
            window, results = {**window, "kernel_shape": tuple(size), "strides": ones, "dilations": ones}, list(ones)
        options = {} if kind == "max" else {"count_include_pad": self._integer(0, 1)}
        op = "vdla.QMaxPool" if kind == "max" else "vdla.QAveragePool"
        self._append(op, (), (count, channels, *results), 1, x_zero_point=self._zero(), **window, **options)

    def _add(self) -> None:
        """The sum with an earlier value of the same shape, or with a constant of fewer extents."""
        same = [name for name, kind in self.types.items() if name != self.last and kind.extents == self.shape]
        same = [name for name in same if name not in self.constants]
        smaller = tuple(extent if self.rng.integers(2) else 1 for extent in self.shape)
        other = same[0] if same else self._constant(-128, 128, smaller, np.int8)
        factors = (self._integer(1, 126), self._integer(1, 126))
        zeros = {"a_zero_point": self._zero(), "b_zero_point": self._zero()}
        self._append("vdla.QAdd", (other,), self.shape, sum(factors), factors=factors, **zeros)

    # --- parts

    def _window(self, size: Sequence[int], *, padded: bool = True) -> tuple[dict[str, Any], list[int]]:
        """The options of a window that fits the image, and the extents of its results."""
        while True:
            kernel, strides = (self._each(1, most) for most in (4, 3))
            dilations = self._each(1, 2)
            pads = tuple(self._integer(0, 2 * padded) for _ in range(2 * self.rank))
            spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
            rooms = [n + pads[d] + pads[self.rank + d] - spans[d] for d, n in enumerate(size)]
            if min(rooms) >= 0:
                options = {"kernel_shape": kernel, "strides": strides, "pads": pads, "dilations": dilations}
                return options, [room // stride + 1 for room, stride in zip(rooms, strides, strict=True)]

    def _append(
        self, op: str, inputs: tuple[str, ...], shape: Shape, spread: float, scales: int = 1, **options: Any
    ) -> None:
        """A node whose sums have about the given spread, with one multiplier or one a channel."""
        scale = self.rng.uniform(0.4, 1.2, scales) / spread
        shift = np.floor(23 - np.log2(scale)).astype(np.int64)
        factors = {"multiplier": np.round(scale * 2.0**shift).astype(np.int64), "shift": shift}
        bounds = {"low": self._integer(-128, -100), "high": self._integer(100, 127)}
        name, attributes = f"v{len(self.nodes)}", {**factors, **bounds, "y_zero_point": self._zero(), **options}
        self.types[name] = TensorType("int8", shape)
        self.nodes.append(Node(op, (self.last, *inputs), (name,), attributes, name))
        self.last = name

    def _bias(self, outputs: int) -> str:
        return self._constant(-2000, 2000, (outputs,), np.int32)

    def _constant(self, low: int, high: int, shape: Shape, dtype: type) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = self.rng.integers(low, high, shape).astype(dtype)
        self.types[name] = TensorType(np.dtype(dtype).name, shape)
        return name

    def _each(self, low: int, high: int) -> Shape:
        return tuple(self._integer(low, high) for _ in range(self.rank))

    def _integer(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def _zero(self) -> int:
        return int(self.rng.choice([0, -128, self._integer(-128, 127)]))


def _divisors(number: int) -> list[int]:
    return [each for each in range(1, number + 1) if number % each == 0]
