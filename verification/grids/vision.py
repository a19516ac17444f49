# SPDX-License-Identifier: Apache-2.0
"""Drafts of operators on regions, grids and blocks of images, and of losses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from vdla.verification.grids.draw import Array, Draw, NodeDraft
from vdla.verification.grids.elementwise import Drafter

_SECOND = frozenset({1})
_FEW_FLOATS = ("float32", "float32", "float64", "float16")


def _int64(values: Any) -> Array:  # noqa: ANN401  whatever NumPy makes an array of
    return np.asarray(values, np.int64)


def _suppression(draw: Draw) -> NodeDraft:
    batch, classes, count = draw.rank(1, 2), draw.rank(1, 3), draw.rank(1, 9)
    boxes = np.asarray(draw.random.uniform(0, 4, size=(batch, count, 4)), np.float32)
    if draw.chance(0.1):
        boxes, count = boxes[:, :0], 0
    scores = draw.array((batch, classes, count), "float32", 0, 1)
    if draw.chance(0.3):
        scores = np.round(scores, 1)  # equal scores
    inputs: list[Array | None] = [boxes, scores]
    optional: list[Array | None] = [
        _int64(draw.pick([0, 1, 3, 20])).reshape(draw.pick([(), (1,)])),
        np.asarray(draw.pick([0.0, 0.3, 0.5, 1.0]), np.float32).reshape(draw.pick([(), (1,)])),
        np.asarray(draw.pick([0.0, 0.4, -1.0]), np.float32).reshape(draw.pick([(), (1,)])),
    ]
    if draw.chance(0.1):
        return NodeDraft(inputs, draw.options(center_point_box=[0, 1]))
    inputs += [optional[0], *(item if draw.chance(0.8) else None for item in optional[1:])]
    return NodeDraft(inputs, draw.options(center_point_box=[0, 1]), constant=frozenset({2, 3, 4}))


def _grid_sample(draw: Draw) -> NodeDraft:
    new = draw.version.since >= 20
    sides = draw.pick([2, 2, 3]) if new else 2
    shape = (draw.rank(1, 2), draw.rank(1, 3), *draw.shape(sides, empty=False))
    target = draw.shape(sides)
    dtype = draw.dtype("T1", among=_FEW_FLOATS)
    grid = draw.array((shape[0], *target, sides), dtype if new else "float32", -1.3, 1.3)
    modes = ["nearest", "linear", *(["cubic"] if sides == 2 else [])] if new else ["nearest", "bilinear", "bicubic"]
    options = draw.options(mode=modes, padding_mode=["zeros", "border", "reflection"], align_corners=[0, 1])
    near = 1e-4 if dtype != grid.dtype.name else 0.0  # references round coordinates to the grid's type
    return NodeDraft([draw.array(shape, dtype), grid], options, tolerance=near)


def _affine_grid(draw: Draw) -> NodeDraft:
    sides, batch = draw.pick([2, 3]), draw.rank(1, 2)
    theta = draw.array((batch, sides, sides + 1), draw.dtype("T1", among=_FEW_FLOATS))
    size = _int64([batch, draw.rank(1, 3), *(draw.rank(1, 5) for _ in range(sides))])
    return NodeDraft([theta, size], draw.options(align_corners=[0, 1]), constant=_SECOND)


def _rois(draw: Draw, count: int, dtype: str) -> Array:
    corners = np.asarray(draw.random.uniform(0, 8, size=(count, 2, 2)))
    return np.concatenate([corners.min(1), corners.max(1) + 0.5], 1).astype(dtype)


def _roi_align(draw: Draw) -> NodeDraft:
    shape, dtype = (draw.rank(1, 2), draw.rank(1, 3), draw.rank(2, 9), draw.rank(2, 9)), draw.dtype("T1", _FEW_FLOATS)
    count = draw.rank(0, 4)
    indices = _int64(draw.random.integers(shape[0], size=count))
    options = draw.options(
        mode=["avg", "max"], output_height=[1, 2, 3], output_width=[1, 2], sampling_ratio=[0, 1, 2],
        spatial_scale=[0.5, 1.0], coordinate_transformation_mode=["half_pixel", "output_half_pixel"],
    )  # fmt: skip
    return NodeDraft([draw.array(shape, dtype), _rois(draw, count, dtype), indices], options)


def _roi_pool(draw: Draw) -> NodeDraft:
    shape = (draw.rank(1, 2), draw.rank(1, 3), draw.rank(4, 9), draw.rank(4, 9))
    count = draw.rank(1, 4)
    rois = np.concatenate([draw.random.integers(shape[0], size=(count, 1)), _rois(draw, count, "float32")], 1)
    attributes = {"pooled_shape": [draw.rank(1, 3), draw.rank(1, 3)], **draw.options(spatial_scale=[0.5, 1.0])}
    return NodeDraft([draw.array(shape), rois.astype(np.float32)], attributes)


def _deformable(draw: Draw) -> NodeDraft:
    dtype = draw.dtype(among=("float32", "float32", "float64"))
    batch, kernel = draw.rank(1, 2), [draw.rank(1, 3), draw.rank(1, 3)]
    group, inner, outer = draw.pick([(1, 2, 3), (2, 4, 4)])
    groups = draw.pick([1, 2])
    strides, dilations = draw.pick([[1, 1], [2, 1]]), draw.pick([[1, 1], [1, 2]])
    pads = draw.pick([[0, 0, 0, 0], [1, 1, 1, 1], [1, 0, 0, 1]])
    image = [(kernel[d] - 1) * dilations[d] + draw.rank(1, 5) for d in range(2)]
    reach = [(kernel[d] - 1) * dilations[d] + 1 for d in range(2)]
    extents = [(image[d] + pads[d] + pads[2 + d] - reach[d]) // strides[d] + 1 for d in range(2)]
    taps = kernel[0] * kernel[1]
    inputs: list[Array | None] = [
        draw.array((batch, inner, *image), dtype), draw.array((outer, inner // group, *kernel), dtype),
        draw.array((batch, groups * taps * 2, *extents), dtype, -2, 2),
    ]  # fmt: skip
    if draw.chance(0.6):
        inputs.append(draw.array((outer,), dtype) if draw.chance() else None)
        inputs.append(draw.array((batch, groups * taps, *extents), dtype, 0, 1))
    attributes = {"group": group, "offset_group": groups, "strides": strides, "dilations": dilations, "pads": pads}
    if draw.chance():
        attributes["kernel_shape"] = kernel
    return NodeDraft(inputs, attributes, constant=frozenset({1, 3}))


def _unpool(draw: Draw) -> NodeDraft:
    sides = draw.rank(1, 3)
    batch, channels = draw.rank(1, 2), draw.rank(1, 3)
    small, kernel = [draw.rank(1, 3) for _ in range(sides)], [draw.pick([2, 3]) for _ in range(sides)]
    large = [(extent - 1) * step + step for extent, step in zip(small, kernel, strict=True)]
    x = draw.array((batch, channels, *small), draw.dtype("T1", among=_FEW_FLOATS))
    total = batch * channels * int(np.prod(large))
    places = draw.random.permutation(total)[: x.size].reshape(x.shape)
    inputs: list[Array | None] = [x, _int64(places)]
    attributes = {"kernel_shape": kernel, "strides": kernel}
    if draw.chance(0.3):
        inputs.append(_int64([batch, channels, *large]))
    return NodeDraft(inputs, attributes, constant=frozenset({2}))


def _col2im(draw: Draw) -> NodeDraft:
    sides = draw.rank(1, 3)
    kernel = [draw.rank(1, 3) for _ in range(sides)]
    attributes: dict[str, Any] = draw.options(
        strides=[[1] * sides, [2] * sides],
        dilations=[[1] * sides, [2] * sides],
        pads=[[0] * 2 * sides, [1] * 2 * sides],
    )
    strides, dilations = (attributes.get(name, [1] * sides) for name in ("strides", "dilations"))
    pads = attributes.get("pads", [0] * 2 * sides)
    image = [(kernel[d] - 1) * dilations[d] + draw.rank(1, 4) for d in range(sides)]
    counts = [
        (image[d] + pads[d] + pads[sides + d] - (kernel[d] - 1) * dilations[d] - 1) // strides[d] + 1
        for d in range(sides)
    ]
    shape = (draw.rank(1, 2), draw.rank(1, 3) * int(np.prod(kernel)), int(np.prod(counts)))
    x = draw.array(shape, draw.dtype(among=("float32", "float32", "float64", "float16", "int32")))
    return NodeDraft([x, _int64(image), _int64(kernel)], attributes, constant=frozenset({1, 2}))


def _determinant(draw: Draw) -> NodeDraft:
    size = draw.rank(1, 4)
    return NodeDraft([draw.array((*draw.shape(draw.rank(0, 2)), size, size), draw.dtype(among=_FEW_FLOATS), -2, 2)])


def _loss(draw: Draw) -> NodeDraft:
    soft = draw.version.name == "SoftmaxCrossEntropyLoss"
    dtype = draw.dtype(among=("float32", "float32", "float64"))
    classes = draw.rank(1, 5)
    shape = (draw.rank(1, 4), classes, *draw.shape(draw.rank(0, 2), empty=False))
    labels = draw.random.integers(classes, size=(shape[0], *shape[2:]))
    options = draw.options(reduction=["none", "sum", "mean"], ignore_index=[0, classes - 1, -1])
    if options.get("ignore_index", 0) < 0 and labels.size > 1:
        labels.reshape(-1)[0] = -1
    inputs: list[Array | None] = [draw.array(shape, dtype), labels.astype(draw.pick([np.int32, np.int64]))]
    if draw.chance():
        inputs.append(draw.array((classes,), dtype, 0.1, 2))
    return NodeDraft(inputs, options, outputs=draw.rank(1, 2) if soft else 1)


VISION: Mapping[str, Drafter] = {
    **dict.fromkeys(("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"), _loss),
    "AffineGrid": _affine_grid,
    "Col2Im": _col2im,
    "DeformConv": _deformable,
    "Det": _determinant,
    "GridSample": _grid_sample,
    "MaxRoiPool": _roi_pool,
    "MaxUnpool": _unpool,
    "NonMaxSuppression": _suppression,
    "RoiAlign": _roi_align,
}
