# SPDX-License-Identifier: Apache-2.0
"""Drafts of operators that move, select, repeat or count elements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from vdla.verification.grids.draw import Array, Draw, NodeDraft
from vdla.verification.grids.elementwise import Drafter

_SECOND = frozenset({1})


def _int64(values: Any) -> Array:  # noqa: ANN401  whatever NumPy makes an array of
    return np.asarray(values, np.int64)


def _transpose(draw: Draw) -> NodeDraft:
    rank = draw.rank(0)
    perm = {"perm": [int(axis) for axis in draw.random.permutation(rank)]} if rank and draw.chance(0.8) else {}
    return NodeDraft([draw.array(draw.shape(rank), draw.dtype())], perm)


def _reshape(draw: Draw) -> NodeDraft:
    shape = draw.shape(draw.rank(0))
    x, total = draw.array(shape, draw.dtype()), int(np.prod(shape))
    targets: list[list[int]] = [list(shape[::-1]), [total], [1, *shape], [*shape, 1]]
    if total:
        targets += [[-1], [0, -1] if shape else [-1], [-1, 1]]
    inputs: list[Array | None] = [x]
    attributes = draw.either("shape", draw.pick(targets), inputs)
    return NodeDraft(inputs, attributes, constant=_SECOND)


def _flatten(draw: Draw) -> NodeDraft:
    rank = draw.rank()
    axis = {"axis": draw.axis(rank)} if draw.chance(0.7) else {}
    return NodeDraft([draw.array(draw.shape(rank), draw.dtype())], axis)


def _squeeze(draw: Draw) -> NodeDraft:
    rank = draw.rank()
    shape = [1 if draw.chance() else extent for extent in draw.shape(rank)]
    ones = [axis for axis, extent in enumerate(shape) if extent == 1]
    inputs: list[Array | None] = [draw.array(shape, draw.dtype())]
    if not ones or draw.chance(0.3):
        return NodeDraft(inputs)
    return NodeDraft(inputs, draw.either("axes", ones[: draw.rank(1, len(ones))], inputs), constant=_SECOND)


def _unsqueeze(draw: Draw) -> NodeDraft:
    rank = draw.rank(0, 3)
    inputs: list[Array | None] = [draw.array(draw.shape(rank), draw.dtype())]
    count = draw.rank(1, 2)
    axes = sorted(int(axis) for axis in draw.random.permutation(rank + count)[:count])
    return NodeDraft(inputs, draw.either("axes", axes, inputs), constant=_SECOND)


def _concat(draw: Draw) -> NodeDraft:
    rank, dtype = draw.rank(), draw.dtype()
    shape, axis = list(draw.shape(rank)), draw.axis(rank)
    arrays = []
    for _ in range(draw.rank(1, 4)):
        shape[axis] = draw.extent(empty=True)
        arrays.append(draw.array(shape, dtype))
    return NodeDraft(arrays, {"axis": axis})


def _split(draw: Draw) -> NodeDraft:
    rank, count = draw.rank(), draw.rank(1, 3)
    shape, axis = list(draw.shape(rank)), draw.axis(rank)
    sizes = [draw.extent() for _ in range(count)]
    equal = draw.chance()
    shape[axis] = count * sizes[0] if equal else sum(sizes)
    inputs: list[Array | None] = [draw.array(shape, draw.dtype())]
    attributes = {"axis": axis} if draw.chance(0.9) or axis else {}
    if equal and (draw.has("split") or draw.has("num_outputs") or draw.chance()):
        return NodeDraft(inputs, {**attributes, **draw.known(num_outputs=count)}, outputs=count)
    sizes = [sizes[0]] * count if equal else sizes
    return NodeDraft(inputs, {**attributes, **draw.either("split", sizes, inputs)}, outputs=count, constant=_SECOND)


def _slice(draw: Draw) -> NodeDraft:
    rank = draw.rank()
    shape = draw.shape(rank)
    axes = sorted({axis % rank for axis in draw.axes(rank)})
    steps = [draw.pick([1, 1, 2, -1, -2]) for _ in axes] if draw.takes(5) else [1] * len(axes)
    starts = [draw.pick([0, 1, -2, 100]) if step > 0 else draw.pick([-1, 100, 2]) for step in steps]
    ends = [draw.pick([2, -1, 1000, 2**62]) if step > 0 else draw.pick([-1000, 0, -3]) for step in steps]
    x = draw.array(shape, draw.dtype())
    if draw.has("starts"):
        return NodeDraft([x], {"starts": starts, "ends": ends, "axes": axes})
    kind = draw.pick([np.int64, np.int32])
    ends = [min(end, 2**31 - 1) for end in ends] if kind is np.int32 else ends
    given = [np.asarray(item, kind) for item in (starts, ends, axes, steps)]
    return NodeDraft([x, *given], constant=frozenset({1, 2, 3, 4}))


def _indices(draw: Draw, shape: tuple[int, ...], extent: int) -> Array:
    low = -extent if draw.version.since >= 11 else 0
    return np.asarray(draw.random.integers(low, max(extent, 1), size=shape), draw.pick([np.int64, np.int32]))


def _gather(draw: Draw) -> NodeDraft:
    rank = draw.rank(1, 4)
    shape, axis = draw.shape(rank, empty=False), draw.axis(rank)
    indices = _indices(draw, draw.shape(draw.rank(0, 2)), shape[axis])
    return NodeDraft(
        [draw.array(shape, draw.dtype()), indices], {"axis": axis} if axis or draw.chance() else {}, constant=_SECOND
    )


def _gather_elements(draw: Draw) -> NodeDraft:
    rank = draw.rank(1, 4)
    shape, axis = draw.shape(rank, empty=False), draw.axis(rank)
    indices = _indices(draw, tuple(draw.rank(1, extent) for extent in shape), shape[axis])
    return NodeDraft([draw.array(shape, draw.dtype()), indices], {"axis": axis})


def _gather_nd(draw: Draw) -> NodeDraft:
    rank = draw.rank(2, 4)
    shape = draw.shape(rank, empty=False)
    batch = draw.rank(0, 1) if draw.has("batch_dims") else 0
    depth = draw.rank(1, rank - batch)
    columns = [draw.random.integers(0, shape[batch + d], size=(*shape[:batch], 3)) for d in range(depth)]
    attributes = {"batch_dims": batch} if batch else {}
    return NodeDraft([draw.array(shape, draw.dtype()), _int64(np.stack(columns, -1))], attributes)


def _scatter_elements(draw: Draw) -> NodeDraft:
    rank, dtype = draw.rank(1, 4), draw.dtype()
    shape, axis = draw.shape(rank, empty=False), draw.axis(rank)
    count = draw.rank(1, shape[axis])
    places = np.stack([draw.random.permutation(shape[axis])[:count] for _ in range(int(np.prod(shape)) // shape[axis])])
    moved = [extent for d, extent in enumerate(shape) if d != axis % rank]
    indices = np.moveaxis(places.reshape(*moved, count), -1, axis)
    options = draw.options(reduction=["none", "add", "mul", "max", "min"]) if dtype in ("float32", "int32") else {}
    return NodeDraft(
        [draw.array(shape, dtype), _int64(indices), draw.array(indices.shape, dtype)], {"axis": axis, **options}
    )


def _scatter_nd(draw: Draw) -> NodeDraft:
    rank, dtype = draw.rank(1, 4), draw.dtype()
    shape = draw.shape(rank, empty=False)
    depth = draw.rank(1, rank)
    cells = int(np.prod(shape[:depth]))
    flat = draw.random.permutation(cells)[: draw.rank(1, min(cells, 4))]
    indices = np.stack(np.unravel_index(flat, shape[:depth]), -1)
    options = draw.options(reduction=["none", "add", "mul", "max", "min"]) if dtype in ("float32", "int32") else {}
    return NodeDraft(
        [draw.array(shape, dtype), _int64(indices), draw.array((len(flat), *shape[depth:]), dtype)], options
    )


def _tile(draw: Draw) -> NodeDraft:
    rank = draw.rank(1, 4)
    repeats = _int64([draw.pick([1, 1, 2, 3, 0] if draw.chance(0.2) else [1, 2, 3]) for _ in range(rank)])
    return NodeDraft([draw.array(draw.shape(rank), draw.dtype()), repeats], constant=_SECOND)


def _expand(draw: Draw) -> NodeDraft:
    shape = draw.shape(draw.rank(0, 4))
    source = [1 if draw.chance() else extent for extent in shape[draw.rank(0, len(shape)) :]]
    return NodeDraft([draw.array(source, draw.dtype()), _int64(shape)], constant=_SECOND)


def _pad(draw: Draw) -> NodeDraft:
    rank = draw.rank(1, 4)
    shape, dtype = draw.shape(rank, empty=False), draw.dtype()
    mode = draw.pick(["constant", "constant", "edge", "reflect", "wrap" if draw.version.since >= 19 else "edge"])
    most = [max(extent - 1, 0) if mode == "reflect" else 2 for extent in shape]
    pads = [draw.rank(0, min(2, item)) for item in most] + [draw.rank(0, min(2, item)) for item in most]
    if mode == "constant" and draw.chance(0.3):
        pads[0] = -1 if shape[0] > 1 else 0
    x = draw.array(shape, dtype)
    if draw.has("pads"):
        return NodeDraft([x], {"pads": pads, "mode": mode, **draw.options(value=[1.5])})
    inputs: list[Array | None] = [x, _int64(pads)]
    if draw.chance():
        inputs.append(draw.array((), dtype) if mode == "constant" else None)
    if draw.takes(4) and draw.chance(0.4):
        axes = draw.axes(rank)
        chosen = [axis % rank for axis in axes]
        inputs[1] = _int64([*(pads[axis] for axis in chosen), *(pads[rank + axis] for axis in chosen)])
        inputs = [*inputs, *[None] * (3 - len(inputs)), _int64(axes)]
    return NodeDraft(
        inputs, {"mode": mode} if mode != "constant" or draw.chance() else {}, constant=frozenset({1, 2, 3})
    )


def _depth_to_space(draw: Draw) -> NodeDraft:
    block = draw.pick([1, 2, 3])
    batch, channels, height, width = draw.rank(1, 2), draw.rank(1, 3), draw.rank(1, 4), draw.rank(1, 4)
    if draw.version.name == "SpaceToDepth":
        return NodeDraft(
            [draw.array((batch, channels, height * block, width * block), draw.dtype())], {"blocksize": block}
        )
    x = draw.array((batch, channels * block * block, height, width), draw.dtype())
    return NodeDraft([x], {"blocksize": block, **draw.options(mode=["DCR", "CRD"])})


def _trilu(draw: Draw) -> NodeDraft:
    x = draw.array(draw.shape(draw.rank(2, 4)), draw.dtype())
    k = [_int64(draw.pick([-20, -1, 0, 2, 20]))] if draw.chance() else []
    return NodeDraft([x, *k], draw.options(upper=[0, 1]), constant=_SECOND)


def _one_hot(draw: Draw) -> NodeDraft:
    rank = draw.rank(1, 3)
    depth = draw.rank(2, 6)
    indices = _int64(draw.random.integers(-depth if draw.version.since >= 11 else 0, depth, size=draw.shape(rank)))
    values = draw.array((2,), draw.pick(["float32", "int64", "int32"]))
    axis = draw.options(axis=[-1, 0, rank])
    return NodeDraft([indices, _int64(draw.pick([depth, [depth]])), values], axis, constant=_SECOND)


def _compress(draw: Draw) -> NodeDraft:
    rank = draw.rank(1, 3)
    shape = draw.shape(rank, empty=False)
    axis = draw.axis(rank) if draw.chance(0.7) else None
    extent = int(np.prod(shape)) if axis is None else shape[axis]
    condition = draw.array((draw.rank(1, extent),), "bool")
    return NodeDraft([draw.array(shape, draw.dtype()), condition], {} if axis is None else {"axis": axis})


def _range(draw: Draw) -> NodeDraft:
    dtype = draw.pick(["float32", "int64", "int32", "float64"])
    values = draw.pick([(0, 7, 2), (5, -3, -2), (3, 3, 1), (1, 9, 1)])
    return NodeDraft([np.asarray(value, dtype) for value in values])


def _top_k(draw: Draw) -> NodeDraft:
    rank = draw.rank(1, 4)
    shape, axis = draw.shape(rank, empty=False), draw.axis(rank)
    values = draw.random.permutation(int(np.prod(shape))).reshape(shape)
    dtype = draw.dtype(among=("float32", "float64", "int64", "int32"))
    inputs: list[Array | None] = [(values - 50).astype(dtype)]
    k = draw.rank(1, shape[axis])
    attributes = {"k": k} if draw.has("k") else {}
    if not attributes:
        inputs.append(_int64([k]))
    return NodeDraft(inputs, {"axis": axis, **attributes, **draw.options(largest=[0, 1])}, outputs=2, constant=_SECOND)


def _unique(draw: Draw) -> NodeDraft:
    rank = draw.rank(1, 3)
    x = draw.array(draw.shape(rank, empty=False), draw.dtype(among=("float32", "int64")), 0, 3)
    axis = {"axis": draw.axis(rank)} if draw.chance() else {}
    return NodeDraft([np.rint(x).astype(x.dtype)], {**axis, **draw.options(sorted=[0, 1])}, outputs=draw.rank(1, 4))


def _non_zero(draw: Draw) -> NodeDraft:
    return NodeDraft([draw.array(draw.shape(draw.rank(1, 4)), draw.dtype(), 0, 2)])


def _eye_like(draw: Draw) -> NodeDraft:
    x = draw.array(draw.shape(2), draw.pick(["float32", "int32", "int64"]))
    return NodeDraft([x], draw.options(k=[-1, 0, 2], dtype=[1, 7]))


def _reverse_sequence(draw: Draw) -> NodeDraft:
    shape = draw.shape(draw.rank(2, 4), empty=False)
    time = draw.pick([0, 1])
    lengths = _int64(draw.random.integers(1, shape[time] + 1, size=shape[1 - time]))
    return NodeDraft([draw.array(shape, draw.dtype()), lengths], {"time_axis": time, "batch_axis": 1 - time})


def _constant_of_shape(draw: Draw) -> NodeDraft:
    shape = _int64(draw.shape(draw.rank(0)))
    if draw.chance(0.3):
        return NodeDraft([shape], constant=frozenset({0}))
    from onnx import numpy_helper

    value = draw.array((1,), draw.dtype("T2"))
    return NodeDraft([shape], {"value": numpy_helper.from_array(value)}, constant=frozenset({0}))


def _center_crop_pad(draw: Draw) -> NodeDraft:
    rank = draw.rank(1, 4)
    axes = sorted({axis % rank for axis in draw.axes(rank)})
    target = _int64([draw.extent() for _ in axes])
    return NodeDraft(
        [draw.array(draw.shape(rank, empty=False), draw.dtype()), target], {"axes": axes}, constant=_SECOND
    )


MOVEMENT: Mapping[str, Drafter] = {
    "CenterCropPad": _center_crop_pad,
    "Compress": _compress,
    "Concat": _concat,
    "ConstantOfShape": _constant_of_shape,
    "DepthToSpace": _depth_to_space,
    "Expand": _expand,
    "EyeLike": _eye_like,
    "Flatten": _flatten,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "NonZero": _non_zero,
    "OneHot": _one_hot,
    "Pad": _pad,
    "Range": _range,
    "Reshape": _reshape,
    "ReverseSequence": _reverse_sequence,
    "Scatter": _scatter_elements,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "Slice": _slice,
    "SpaceToDepth": _depth_to_space,
    "Split": _split,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "TopK": _top_k,
    "Transpose": _transpose,
    "Trilu": _trilu,
    "Unique": _unique,
    "Unsqueeze": _unsqueeze,
}
