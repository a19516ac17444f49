# SPDX-License-Identifier: Apache-2.0
"""Quantised layers of thirteen kinds and many shapes, each as a graph of one integer operator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from vdla.compiler.graph import Graph, Node, TensorType, check_graph

Shape = tuple[int, ...]
_RESULTS = {"multiplier": np.array([1 << 23]), "shift": np.array([33]), "y_zero_point": 0, "low": -128, "high": 127}


@dataclass(frozen=True, slots=True)
class PlacementLayer:
    """A layer: its kind, its shape as text, and its graph, whose result is `y`."""

    kind: str
    shape: str
    graph: Graph


def placement_layers() -> Iterator[PlacementLayer]:
    """All layers, a kind after the other; small and large, of whole and of partial blocks."""
    for kind, (make, cases) in _KINDS.items():
        for case in cases:
            yield PlacementLayer(kind, ", ".join(f"{key}={_text(value)}" for key, value in case.items()), make(**case))


def _text(value: object) -> str:
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)


# --- graphs of one operator -----------------------------------------------------------------------


def conv(shape: Shape, outputs: int, kernel: int, group: int = 1, stride: int = 1) -> Graph:
    """A convolution of images [N, C, ...] with pads that keep the extents, over the stride."""
    size = tuple(-(-extent // stride) for extent in shape[2:])
    weight = (outputs, shape[1] // group, *(kernel,) * len(size))
    options = _window(len(size), kernel // 2, stride)
    return _graph("QConv", shape, (shape[0], outputs, *size), (weight, (outputs,)), **options, group=group)


def depthwise(shape: Shape, kernel: int, stride: int = 1) -> Graph:
    """A convolution with a kernel of its own for each channel."""
    return conv(shape, shape[1], kernel, shape[1], stride)


def transposed(shape: Shape, outputs: int, kernel: int, stride: int) -> Graph:
    """A transposed convolution without pads."""
    size = tuple((extent - 1) * stride + kernel for extent in shape[2:])
    weight = (shape[1], outputs, *(kernel,) * len(size))
    options = {**_window(len(size), 0, stride), "output_padding": (0,) * len(size)}
    return _graph("QConvTranspose", shape, (shape[0], outputs, *size), (weight, (outputs,)), **options, group=1)


def dense(rows: int, terms: int, outputs: int) -> Graph:
    """Rows times a constant matrix."""
    return _graph("QDense", (rows, terms), (rows, outputs), ((outputs, terms), (outputs,)), x_zero_point=0)


def matmul(batch: int, rows: int, terms: int, columns: int) -> Graph:
    """A product of two activations."""
    types = {"x": (batch, rows, terms), "z": (batch, terms, columns)}
    return _graph_of("QMatMul", types, (batch, rows, columns), a_zero_point=0, b_zero_point=0)


def pool(op: str, shape: Shape, kernel: int, **options: Any) -> Graph:  # noqa: ANN401  attributes
    """A pool of windows that do not overlap."""
    size = tuple(extent // kernel for extent in shape[2:])
    window = _window(len(size), 0, kernel)
    return _graph(op, shape, (*shape[:2], *size), (), **window, kernel_shape=(kernel,) * len(size), **options)


def maxima(shape: Shape, kernel: int) -> Graph:
    """The largest element of each window."""
    return pool("QMaxPool", shape, kernel)


def averages(shape: Shape, kernel: int) -> Graph:
    """The mean of each window."""
    return pool("QAveragePool", shape, kernel, count_include_pad=1)


def addition(shape: Shape) -> Graph:
    """The sum of an activation with itself."""
    return _graph_of("QAdd", {"x": shape, "z": shape}, shape, a_zero_point=0, b_zero_point=0, factors=(1, 1))


def leaky(shape: Shape) -> Graph:
    """A LeakyRelu."""
    return _graph("QLeakyRelu", shape, shape, (), x_zero_point=0, factors=(100, 7))


def rescale(shape: Shape) -> Graph:
    """An activation in another scale."""
    return _graph("QRescale", shape, shape, (), x_zero_point=0)


def _window(rank: int, pad: int, stride: int) -> dict[str, Any]:
    ones = (1,) * rank
    return {"strides": (stride,) * rank, "pads": (pad,) * 2 * rank, "dilations": ones, "x_zero_point": 0}


def _graph(op: str, shape: Shape, result: Shape, constants: tuple[Shape, ...], **options: Any) -> Graph:  # noqa: ANN401
    """A node that reads an activation `x` and constants: int8 weights, an int32 bias."""
    dtypes = {f"c{index}": "int8" if len(dims) > 1 else "int32" for index, dims in enumerate(constants)}
    arrays = {name: np.ones(dims, dtypes[name]) for name, dims in zip(dtypes, constants, strict=True)}
    return _graph_of(op, {"x": shape}, result, arrays, **options)


def _graph_of(
    op: str,
    inputs: Mapping[str, Shape],
    result: Shape,
    constants: Mapping[str, np.ndarray[Any, Any]] | None = None,
    **options: Any,  # noqa: ANN401  attributes
) -> Graph:
    constants = constants or {}
    node = Node(f"vdla.{op}", (*inputs, *constants), ("y",), {**_RESULTS, **options}, "y")
    types = {name: TensorType("int8", shape) for name, shape in {**inputs, "y": result}.items()}
    types |= {name: TensorType(array.dtype.name, array.shape) for name, array in constants.items()}
    return check_graph(Graph("layer", tuple(inputs), ("y",), (node,), constants, types))


# --- shapes ---------------------------------------------------------------------------------------


def _images(*shapes: tuple[int, ...]) -> list[Shape]:
    return [(1, *shape) for shape in shapes]


_SMALL_TO_LARGE = _images(
    (8, 5, 5), (16, 7, 7), (32, 14, 14), (48, 28, 28), (64, 40, 40), (100, 20, 20), (32, 112, 112), (256, 14, 14)
)
_SIGNALS = _images((2, 2000), (16, 100), (32, 500), (64, 256), (40, 999))
_KINDS: Mapping[str, Any] = {
    "image": (conv, [
        {"shape": shape, "outputs": outputs, "kernel": kernel, "stride": stride}
        for shape, outputs, kernel, stride in (
            ((1, 3, 32, 32), 16, 3, 1), ((1, 3, 224, 224), 64, 7, 2), ((1, 1, 28, 28), 8, 5, 1),
            ((1, 16, 7, 7), 16, 3, 1), ((1, 64, 14, 14), 64, 3, 1), ((1, 64, 56, 56), 128, 3, 2),
            ((1, 256, 7, 7), 512, 3, 1), ((1, 24, 30, 20), 20, 3, 1), ((2, 32, 28, 28), 48, 3, 1),
            ((1, 128, 28, 28), 128, 3, 1),
        )
    ]),
    "one tap": (conv, [
        {"shape": shape, "outputs": outputs, "kernel": 1, "stride": stride}
        for shape, outputs, stride in (
            ((1, 16, 7, 7), 96, 1), ((1, 96, 28, 28), 24, 1), ((1, 32, 112, 112), 16, 1), ((1, 960, 7, 7), 160, 1),
            ((1, 64, 56, 56), 256, 1), ((1, 256, 56, 56), 128, 2), ((1, 10, 13, 17), 30, 1), ((1, 512, 14, 14), 512, 1),
        )
    ]),
    "groups": (conv, [
        {"shape": shape, "outputs": outputs, "kernel": 3, "group": group, "stride": stride}
        for shape, outputs, group, stride in (
            ((1, 64, 28, 28), 64, 4, 1), ((1, 64, 28, 28), 64, 2, 2), ((1, 128, 14, 14), 256, 8, 1),
            ((1, 32, 10, 10), 32, 2, 1), ((1, 256, 14, 14), 256, 16, 1),
        )
    ]),
    "depthwise": (depthwise, [
        {"shape": shape, "kernel": kernel, "stride": stride}
        for shape in _images((8, 7, 7), (32, 14, 14), (96, 28, 28), (32, 112, 112), (24, 33, 21))
        for kernel, stride in ((3, 1), (3, 2), (5, 1))
    ]),
    "signal": (conv, [
        {"shape": shape, "outputs": outputs, "kernel": kernel}
        for shape in _SIGNALS for outputs, kernel in ((32, 5), (64, 9), (20, 3))
    ]),
    "transposed": (transposed, [
        {"shape": shape, "outputs": outputs, "kernel": kernel, "stride": stride}
        for shape, outputs in (((1, 16, 5, 5), 16), ((1, 64, 8, 8), 32), ((1, 128, 14, 14), 64), ((1, 20, 11, 9), 12),
                               ((1, 32, 60), 32), ((1, 16, 250), 24))
        for kernel, stride in ((4, 2), (3, 1), (2, 2))
    ]),
    "dense": (dense, [
        {"rows": rows, "terms": terms, "outputs": outputs}
        for rows, terms, outputs in (
            (1, 84, 10), (1, 512, 200), (1, 2048, 1000), (16, 128, 128), (64, 100, 70), (197, 384, 384), (8, 784, 64),
            (128, 768, 512),
        )
    ]),
    "matmul": (matmul, [
        {"batch": batch, "rows": rows, "terms": terms, "columns": columns}
        for batch, rows, terms, columns in (
            (1, 16, 16, 16), (6, 197, 64, 197), (3, 40, 24, 50), (1, 128, 512, 128), (12, 64, 64, 64),
        )
    ]),
    "maxima": (maxima, [
        {"shape": shape, "kernel": kernel} for shape in [*_SMALL_TO_LARGE, *_SIGNALS[1:4]] for kernel in (2, 4)
    ]),
    "averages": (averages, [
        {"shape": shape, "kernel": shape[2] if kernel is None else kernel}
        for shape in _SMALL_TO_LARGE for kernel in (3, None)
    ]),
    "addition": (addition, [{"shape": shape} for shape in [*_SMALL_TO_LARGE, (1, 64, 100), (4, 32)]]),
    "leaky": (leaky, [{"shape": shape} for shape in [*_SMALL_TO_LARGE, (1, 64, 100), (4, 32)]]),
    "rescale": (rescale, [{"shape": shape} for shape in [*_SMALL_TO_LARGE, (1, 64, 100), (4, 32)]]),
}  # fmt: skip
