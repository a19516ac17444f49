# SPDX-License-Identifier: Apache-2.0
"""Winograd convolution, 3x3 kernels of stride 1: F(2, 3) and F(4, 3), 2x2 or 4x4 result tiles.

An m x m tile takes (m + 2)^2 products a channel instead of 9 m^2: 2.25 times fewer for m = 2, 4
times for m = 4. Of sums over 64 to 512 channels the largest rounding error is 0.3 to 0.4 times that
of direct sums for m = 2, and 2 to 3 times for m = 4. The stages:

    <name>_pad               the image padded to whole tiles
    <name>_rows, _data       B' d B of each tile d of the image
    <name>_product           products, summed over channels
    <name>_columns, _sum     A' p A of each tile p of products
    <name>                   the result in its layout, with the bias

Source: A. Lavin, S. Gray, Fast Algorithms for Convolutional Neural Networks, CVPR 2016.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.compiler import te
from vdla.compiler.ir import Array, is_float
from vdla.compiler.operators.checks import (
    OperatorError,
    check_float,
    check_rank,
    check_weights,
    integer,
    static_extents,
    target_of,
)
from vdla.compiler.operators.conv2d import ConvGeometry, lanes_of, result_in_layout
from vdla.compiler.operators.layouts import block_size, check_layout
from vdla.compiler.operators.pad import pad
from vdla.compiler.operators.results import result_name, sum_of_products, to_accumulator
from vdla.compiler.operators.roles import OPERATOR, PLACED
from vdla.compiler.operators.windows import Ints, windows_of
from vdla.compiler.target import Target

_NAME = "winograd_conv2d"
WINDOW = 3
Matrix = Sequence[Sequence[float]]


@dataclass(frozen=True, slots=True)
class Transform:
    """The matrices for a result tile: B' of the data, G of the weight, A' of the products."""

    tile: int
    data: Matrix
    weight: Matrix
    product: Matrix

    @property
    def data_tile(self) -> int:
        """The side of a tile of the image."""
        return self.tile + WINDOW - 1


_F2 = Transform(
    2,
    ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1)),
    ((1, 0, 0), (1 / 2, 1 / 2, 1 / 2), (1 / 2, -1 / 2, 1 / 2), (0, 0, 1)),
    ((1, 1, 1, 0), (0, 1, -1, -1)),
)
# At the points 0, 1, -1, 2, -1/2: 2 and -2 would round to about twice the error.
_F4 = Transform(
    4,
    (
        (1, 3 / 2, -2, -3 / 2, 1, 0),
        (0, -1, -5 / 2, -1 / 2, 1, 0),
        (0, 1, 1 / 2, -5 / 2, 1, 0),
        (0, -1 / 2, -1, 1 / 2, 1, 0),
        (0, 2, -1, -2, 1, 0),
        (0, 1, 3 / 2, -2, -3 / 2, 1),
    ),
    (
        (1, 0, 0),
        (-1 / 3, -1 / 3, -1 / 3),
        (1 / 3, -1 / 3, 1 / 3),
        (1 / 15, 2 / 15, 4 / 15),
        (-16 / 15, 8 / 15, -4 / 15),
        (0, 0, 1),
    ),
    ((1, 1, 1, 1, 1, 0), (0, 1, -1, 2, -1 / 2, 0), (0, 1, 1, 4, 1 / 4, 0), (0, 1, -1, 8, -1 / 8, 1)),
)
TRANSFORMS = {transform.tile: transform for transform in (_F2, _F4)}


def winograd_conv2d(
    x: te.Tensor,
    weight: te.Tensor,
    bias: te.Tensor | None = None,
    pads: Ints = 0,
    out_channels: int | None = None,
    tile: int = 4,
    layout: str = "NCHW",
    name: str | None = None,
) -> te.Tensor:
    """x [N, C, H, W], weight [t + 2, t + 2, CO / lanes, C, lanes], bias [CO] -> [N, CO, OH, OW].

    `pack_winograd` makes the weight for t = `tile`; its first `out_channels` are used. `layout`
    "NCHW16c" is an image in blocks of 16 channels, the last one padded; the result then has blocks
    of the lanes of the weight, and the bias may be padded to them. Floats only; float16 and
    bfloat16 are summed in float32.
    """
    block = block_size(_NAME, "layout", layout, "NCHW", "c")
    check_layout(_NAME, "x", x, layout, block)
    transform = _transform(_NAME, tile)
    geometry = _geometry(x, weight, transform, pads, out_channels)
    geometry.check_operands(_NAME, x, weight, bias, is_blocked=block is not None)
    result = result_name(x, _NAME, name)
    data = _transform_data(x, transform, geometry, result)
    total = _transform_products(_products(data, weight, f"{result}_product"), transform, result)
    return result_in_layout(total, bias, geometry, x.dtype, block is not None, result)


def pack_winograd(weight: Array, tile: int = 4, target: Target | str = "host", lanes: int | None = None) -> Array:
    """A weight [CO, C, 3, 3] transformed for a tile t: [t + 2, t + 2, CO / lanes, C, lanes].

    By default `lanes` is the vector length.
    """
    where = "pack_winograd"
    transform = _transform(where, tile)
    check_weights(where, weight, "[CO, CI, 3, 3]")
    if weight.shape[2:] != (WINDOW, WINDOW) or not is_float(str(weight.dtype)):
        text = f"{weight.dtype}{list(weight.shape)}"
        raise OperatorError(f"{where}: weight must be an array [CO, CI, 3, 3] of floats, got {text}")
    lanes = lanes or lanes_of(len(weight), str(weight.dtype), target_of(where, target))
    matrix: NDArray[Any] = np.array(transform.weight)
    transformed = np.einsum("ir,ocrs,js->ijoc", matrix, weight.astype(np.float64), matrix)
    padded = np.pad(transformed, ((0, 0), (0, 0), (0, -len(weight) % lanes), (0, 0)))
    blocks = padded.reshape(*padded.shape[:2], -1, lanes, weight.shape[1]).swapaxes(3, 4)
    return np.ascontiguousarray(blocks.astype(weight.dtype))


# --- stages ---------------------------------------------------------------------------------------


def _transform_data(x: te.Tensor, transform: Transform, geometry: ConvGeometry, name: str) -> te.Tensor:
    """[N, m + 2, m + 2, C, TH, TW]: B' d B of each tile of the image; lanes of channels last."""
    m, windows = transform.tile, geometry.windows
    tiles = tuple(-(-count // m) for count in windows.places)
    after = (t * m + WINDOW - 1 - b - n for t, b, n in zip(tiles, windows.before, windows.size, strict=True))
    lanes, none = x.shape[4:], (0,) * (len(x.shape) - 4)
    image = pad(x, (0, 0, *windows.before, *none, 0, 0, *after, *none), name=f"{name}_pad")

    def along_rows(n: te.Value, c: te.Value, th: te.Value, i: te.Value, w: te.Value, *lane: te.Value) -> te.Value:
        return _row_times(transform.data, i, lambda r: to_accumulator(image[(n, c, th * m + r, w, *lane)]))

    shape = (*x.shape[:2], tiles[0], transform.data_tile, image.shape[3], *lanes)
    rows = te.compute(shape, along_rows, f"{name}_rows", PLACED)

    def along_columns(*indices: te.Value) -> te.Value:
        n, i, j, c, th, tw, *lane = indices
        return _row_times(transform.data, j, lambda s: rows[(n, c, th, i, tw * m + s, *lane)])

    shape = (x.shape[0], transform.data_tile, transform.data_tile, x.shape[1], *tiles, *lanes)
    return te.compute(shape, along_columns, f"{name}_data", PLACED)


def _products(data: te.Tensor, weight: te.Tensor, name: str) -> te.Tensor:
    """[N, m + 2, m + 2, CO / lanes, TH, TW, lanes]: products, summed over channels."""
    ci = te.reduce_axis(weight.shape[3], "ci")
    lanes = None if len(data.shape) == 6 else data.shape[6]

    def value(*indices: te.Value) -> te.Value:
        n, i, j, cb, th, tw, c = indices
        place = (n, i, j, ci, th, tw) if lanes is None else (n, i, j, ci // lanes, th, tw, ci % lanes)
        return sum_of_products(data[place], weight[i, j, cb, ci, c], [ci])

    shape = (*data.shape[:3], weight.shape[2], *data.shape[4:6], weight.shape[4])
    return te.compute(shape, value, name, {OPERATOR: _NAME})


def _transform_products(product: te.Tensor, transform: Transform, name: str) -> te.Tensor:
    """[N, CO / lanes, TH * m, TW * m, lanes]: A' p A of each tile of products."""
    m, side = transform.tile, transform.data_tile
    batch, _, _, blocks, down, across, lanes = product.shape

    def along_rows(n: te.Value, cb: te.Value, oh: te.Value, tw: te.Value, j: te.Value, c: te.Value) -> te.Value:
        return _row_times(transform.product, oh % m, lambda i: product[n, i, j, cb, oh // m, tw, c])

    columns = te.compute((batch, blocks, down * m, across, side, lanes), along_rows, f"{name}_columns", PLACED)

    def along_columns(n: te.Value, cb: te.Value, oh: te.Value, ow: te.Value, c: te.Value) -> te.Value:
        return _row_times(transform.product, ow % m, lambda j: columns[n, cb, oh, ow // m, j, c])

    return te.compute((batch, blocks, down * m, across * m, lanes), along_columns, f"{name}_sum", PLACED)


def _row_times(matrix: Matrix, row: te.Value, element: Callable[[int], te.Value]) -> te.Value:
    """The product of a row of a matrix and a vector; elements with factor 0 are not read."""
    sums = [_weighted_sum(factors, element) for factors in matrix]
    value = sums[-1]
    for number in reversed(range(len(sums) - 1)):
        value = te.select(row == number, sums[number], value)
    return value


def _weighted_sum(factors: Sequence[float], element: Callable[[int], te.Value]) -> te.Value:
    """The sum of factor times element, without multiplications by 1 and -1."""
    total: te.Value | None = None
    for number, factor in sorted(enumerate(factors), key=lambda item: -item[1]):
        if not factor:
            continue
        value = element(number)
        scaled = value if abs(factor) == 1 else value * float(abs(factor))
        total = scaled if total is None else total + scaled if factor > 0 else total - scaled
    assert total is not None
    return total


# --- checks ---------------------------------------------------------------------------------------


def _transform(where: str, tile: object) -> Transform:
    """The transform for result tiles of side `tile`."""
    side = integer(where, "tile", tile)
    if side not in TRANSFORMS:
        raise OperatorError(f"{where}: tile must be 2 or 4, got {side}")
    return TRANSFORMS[side]


def _geometry(
    x: te.Tensor, weight: te.Tensor, transform: Transform, pads: Ints, out_channels: int | None
) -> ConvGeometry:
    """The geometry of a convolution with a packed weight."""
    check_float(_NAME, "x", x)
    check_rank(_NAME, "weight", weight, 5, 5)
    extents = static_extents(_NAME, "weight's extent", weight.shape)
    side = transform.data_tile
    if extents[:2] != [side, side]:
        rule = f"weight must be [{side}, {side}, ...], as pack_winograd makes it for tile={transform.tile}"
        raise OperatorError(f"{_NAME}: {rule}, got {extents}")
    most = extents[2] * extents[4]
    outputs = most if out_channels is None else integer(_NAME, "out_channels", out_channels)
    if not 0 < outputs <= most:
        raise OperatorError(f"{_NAME}: out_channels must be in 1..{most}, the channels of weight, got {outputs}")
    windows = windows_of(_NAME, x.shape[2:4], (WINDOW, WINDOW), 1, pads)
    return ConvGeometry(windows, 1, extents[3], outputs, extents[4])
