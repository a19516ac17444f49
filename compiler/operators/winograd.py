"""Winograd's convolution with 3 x 3 windows of stride 1: F(2, 3) and F(4, 3), tiles of 2 or 4 results a side.

A tile of m x m results takes (m + 2)^2 products a channel instead of 9 m^2: 2.25 times fewer with m = 2, 4 times with
m = 4. It rounds differently: errors are about 3 and 10 times those of the plain sums.

    `<name>_pad` the image up to whole tiles         `<name>_rows`, `<name>_data` B' d B of each tile d
    `<name>_product` summed over channels            `<name>_columns`, `<name>_sum` A' p A of each tile p of products
    `<name>` in the order of the result, with the bias

Source: A. Lavin, S. Gray, Fast Algorithms for Convolutional Neural Networks, CVPR 2016.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.compiler import te
from vdla.compiler.ir import Array, is_float
from vdla.compiler.operators.checks import (
    OperatorError,
    check_bias,
    check_float,
    check_rank,
    check_same_dtype,
    check_weights,
    integer,
    machine_of,
    static_extent,
    static_extents,
)
from vdla.compiler.operators.conv2d import Part, arranged, lanes_of
from vdla.compiler.operators.pad import pad
from vdla.compiler.operators.results import result_name, to_accumulator
from vdla.compiler.operators.windows import Ints, windows_of
from vdla.compiler.target import Target

NAME = "winograd_conv2d"
STAGE = {"operator": "winograd_stage"}  # what only the schedule of the product moves
WINDOW = 3
Matrix = Sequence[Sequence[float]]


@dataclass(frozen=True, slots=True)
class Transform:
    """The matrices for tiles of `results`: B' of the data, G of the weights, A' of the products."""

    results: int
    data: Matrix
    weight: Matrix
    product: Matrix

    @property
    def taken(self) -> int:
        """The elements of the image that a tile takes, along one side."""
        return self.results + WINDOW - 1


F2 = Transform(
    2,
    ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1)),
    ((1, 0, 0), (1 / 2, 1 / 2, 1 / 2), (1 / 2, -1 / 2, 1 / 2), (0, 0, 1)),
    ((1, 1, 1, 0), (0, 1, -1, -1)),
)
F4 = Transform(
    4,
    (
        (4, 0, -5, 0, 1, 0),
        (0, -4, -4, 1, 1, 0),
        (0, 4, -4, -1, 1, 0),
        (0, -2, -1, 2, 1, 0),
        (0, 2, -1, -2, 1, 0),
        (0, 4, 0, -5, 0, 1),
    ),
    (
        (1 / 4, 0, 0),
        (-1 / 6, -1 / 6, -1 / 6),
        (-1 / 6, 1 / 6, -1 / 6),
        (1 / 24, 1 / 12, 1 / 6),
        (1 / 24, -1 / 12, 1 / 6),
        (0, 0, 1),
    ),
    ((1, 1, 1, 1, 1, 0), (0, 1, -1, 2, -2, 0), (0, 1, 1, 4, 4, 0), (0, 1, -1, 8, -8, 1)),
)
TRANSFORMS = {transform.results: transform for transform in (F2, F4)}


def winograd_conv2d(
    x: te.Tensor,
    weight: te.Tensor,
    bias: te.Tensor | None = None,
    pads: Ints = 0,
    out_channels: int | None = None,
    name: str | None = None,
) -> te.Tensor:
    """x [N, C, H, W], weight [m + 2, m + 2, CO / lanes, C, lanes], bias [CO] -> [N, CO, OH, OW].

    `pack_winograd` makes the weights, of `out_channels` channels (all of the lanes by default). Floats only; narrow
    ones are summed in float32.
    """
    transform, part = part_of(x, weight, pads, out_channels)
    check_operands(x, weight, bias, part)
    result = result_name(x, NAME, name)
    data = transformed_data(x, transform, part, result)
    product = multiplied(data, weight, f"{result}_product")
    return arranged(transformed_product(product, transform, result), bias, part, x, result)


def pack_winograd(weight: Array, results: int = 4, target: Target | str = "host") -> Array:
    """Weights [CO, CI, 3, 3] transformed for tiles of `results`: [m + 2, m + 2, CO / lanes, CI, lanes]."""
    where = "pack_winograd"
    if integer(where, "results", results) not in TRANSFORMS:
        raise OperatorError(f"{where}: results must be 2 or 4, got {results}")
    check_weights(where, weight, "[CO, CI, 3, 3]")
    if weight.shape[2:] != (WINDOW, WINDOW) or not is_float(str(weight.dtype)):
        found = f"{weight.dtype}{list(weight.shape)}"
        raise OperatorError(f"{where}: weight must be an array [CO, CI, 3, 3] of floats, got {found}")
    lanes = lanes_of(len(weight), str(weight.dtype), machine_of(where, target))
    matrix: NDArray[Any] = np.array(TRANSFORMS[results].weight)
    changed = np.einsum("ir,ocrs,js->ijoc", matrix, weight.astype(np.float64), matrix)
    whole = np.pad(changed, ((0, 0), (0, 0), (0, -len(weight) % lanes), (0, 0)))
    blocks = whole.reshape(*whole.shape[:2], -1, lanes, weight.shape[1]).swapaxes(3, 4)
    return np.ascontiguousarray(blocks.astype(weight.dtype))


# --- stages ----------------------------------------------------------------------------------------------------------


def transformed_data(x: te.Tensor, transform: Transform, part: Part, name: str) -> te.Tensor:
    """[N, m + 2, m + 2, C, TH, TW]: B' d B of each tile."""
    m, windows = transform.results, part.windows
    tiles = tuple(-(-count // m) for count in windows.counts)
    after = (t * m + WINDOW - 1 - b - n for t, b, n in zip(tiles, windows.before, windows.extents, strict=True))
    image = pad(x, (0, 0, *windows.before), (0, 0, *after), name=f"{name}_pad")

    def along_rows(n: te.Value, c: te.Value, th: te.Value, i: te.Value, w: te.Value) -> te.Value:
        return combined(transform.data, i, lambda r: to_accumulator(image[n, c, th * m + r, w]))

    rows = te.compute((*x.shape[:2], tiles[0], transform.taken, image.shape[3]), along_rows, f"{name}_rows", STAGE)

    def along_columns(n: te.Value, i: te.Value, j: te.Value, c: te.Value, th: te.Value, tw: te.Value) -> te.Value:
        return combined(transform.data, j, lambda s: rows[n, c, th, i, tw * m + s])

    shape = (x.shape[0], transform.taken, transform.taken, x.shape[1], *tiles)
    return te.compute(shape, along_columns, f"{name}_data", STAGE)


def multiplied(data: te.Tensor, weight: te.Tensor, name: str) -> te.Tensor:
    """[N, m + 2, m + 2, CO / lanes, TH, TW, lanes]: the products, summed over channels."""
    ci = te.reduce_axis(data.shape[3], "ci")

    def value(*at: te.Value) -> te.Value:
        n, i, j, cb, th, tw, c = at
        return te.sum(data[n, i, j, ci, th, tw] * to_accumulator(weight[i, j, cb, ci, c]), axis=ci)

    shape = (*data.shape[:3], weight.shape[2], *data.shape[4:], weight.shape[4])
    return te.compute(shape, value, name, annotations={"operator": NAME})


def transformed_product(product: te.Tensor, transform: Transform, name: str) -> te.Tensor:
    """[N, CO / lanes, TH * m, TW * m, lanes]: A' p A of each tile."""
    m, taken = transform.results, transform.taken
    batch, _, _, blocks, down, across, lanes = product.shape

    def along_rows(n: te.Value, cb: te.Value, oh: te.Value, tw: te.Value, j: te.Value, c: te.Value) -> te.Value:
        return combined(transform.product, oh % m, lambda i: product[n, i, j, cb, oh // m, tw, c])

    columns = te.compute((batch, blocks, down * m, across, taken, lanes), along_rows, f"{name}_columns", STAGE)

    def along_columns(n: te.Value, cb: te.Value, oh: te.Value, ow: te.Value, c: te.Value) -> te.Value:
        return combined(transform.product, ow % m, lambda j: columns[n, cb, oh, ow // m, j, c])

    return te.compute((batch, blocks, down * m, across * m, lanes), along_columns, f"{name}_sum", STAGE)


def combined(matrix: Matrix, row: te.Value, element: Any) -> te.Value:  # noqa: ANN401  a function of an index
    """The sum of elements with the factors of one row of a matrix; what has the factor 0 is not read."""
    sums = [weighted(factors, element) for factors in matrix]
    value = sums[-1]
    for number in reversed(range(len(sums) - 1)):
        value = te.select(row == number, sums[number], value)
    return value


def weighted(factors: Sequence[float], element: Any) -> te.Value:  # noqa: ANN401  a function of an index
    """The sum of factor times element, multiplications by 1 and -1 left out."""
    total: te.Value | None = None
    for number, factor in sorted(enumerate(factors), key=lambda item: -item[1]):
        if not factor:
            continue
        value = element(number)
        scaled = value if abs(factor) == 1 else value * float(abs(factor))
        total = scaled if total is None else total + scaled if factor > 0 else total - scaled
    assert total is not None
    return total


# --- checks ----------------------------------------------------------------------------------------------------------


def part_of(x: te.Tensor, weight: te.Tensor, pads: Ints, out_channels: int | None) -> tuple[Transform, Part]:
    """The transform that the weights are made for, and the parts of the convolution."""
    check_rank(NAME, "x", x, 4, 4)
    check_float(NAME, "x", x)
    check_rank(NAME, "weight", weight, 5, 5)
    extents = static_extents(NAME, "weight's extent", weight.shape)
    sides = [transform.taken for transform in TRANSFORMS.values()]
    if extents[0] != extents[1] or extents[0] not in sides:
        rule = "weight must be [4, 4, ...] or [6, 6, ...], as pack_winograd makes it"
        raise OperatorError(f"{NAME}: {rule}, got {extents}")
    most = extents[2] * extents[4]
    outs = most if out_channels is None else integer(NAME, "out_channels", out_channels)
    if not 0 < outs <= most:
        raise OperatorError(f"{NAME}: out_channels must be in 1..{most}, the channels of weight, got {outs}")
    windows = windows_of(NAME, x.shape[2:4], (WINDOW, WINDOW), 1, pads)
    return TRANSFORMS[extents[0] - WINDOW + 1], Part(windows, 1, extents[3], outs, extents[4])


def check_operands(x: te.Tensor, weight: te.Tensor, bias: te.Tensor | None, part: Part) -> None:
    """Refuse operands that do not fit each other."""
    check_same_dtype(NAME, x, weight, *([] if bias is None else [bias]))
    channels = static_extent(NAME, "extent 1 of x", x.shape[1])
    if part.channels != channels:
        raise OperatorError(f"{NAME}: weight must have {channels} input channels, as x, got {part.channels}")
    check_bias(NAME, bias, part.outs)
