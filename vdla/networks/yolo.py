# SPDX-License-Identifier: Apache-2.0
"""A detector in the shape of YOLOv8n (Jocher et al., 2023): CSP stages, a pyramid, a head of boxes.

`width` multiplies the channels. The result has a column for each place of the three grids: centre,
width and height of a box, and a score for each class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from vdla.networks.layers import Feature, add, batch_norm, concat, conv, silu
from vdla.networks.moments import Moments, standard
from vdla.networks.network_builder import Dimension, NetworkBuilder

if TYPE_CHECKING:
    from onnx import ModelProto

    from vdla.support.arrays import Array

STAGES = ((32, 1), (64, 2), (128, 2), (256, 1))
"""Channels and bottlenecks of each stage behind the stem."""
BINS = 16
"""Of the distribution over distances of each side of a box."""


def yolo_v8n(
    batch: Dimension = 1, image: int = 640, width: float = 1.0, classes: int = 80, seed: int = 0
) -> ModelProto:
    """`image` [batch, 3, image, image] to `boxes` [batch, 4 + classes, places]; the size of images
    must be a multiple of 32.
    """
    net = NetworkBuilder("yolo_v8n", seed)
    net.input("image", (batch, 3, image, image))
    x = _unit(net, Feature("image", 3, image, standard(3)), int(16 * width), 3, "stem", 2)
    levels = []
    for index, (channels, repeats) in enumerate(STAGES):
        x = _unit(net, x, int(channels * width), 3, f"stage{index}.down", 2)
        x = _stage(net, x, int(channels * width), repeats, f"stage{index}", residual=True)
        levels.append(x)
    _, fine, middle, _ = levels
    coarse = _pooled_pyramid(net, x, "pyramid")
    middle = _merged(net, _doubled(net, coarse, "up0"), middle, "merge0")
    fine = _merged(net, _doubled(net, middle, "up1"), fine, "merge1")
    middle = _merged(net, _unit(net, fine, fine.channels, 3, "down0", 2), middle, "merge2")
    coarse = _merged(net, _unit(net, middle, middle.channels, 3, "down1", 2), coarse, "merge3")
    grids = [_head(net, level, fine.channels, classes, f"head{i}") for i, level in enumerate((fine, middle, coarse))]
    sizes = [level.size for level in (fine, middle, coarse)]
    return net.model({_boxes(net, grids, sizes, image, classes): (batch, 4 + classes, sum(n * n for n in sizes))})


def _unit(net: NetworkBuilder, x: Feature, channels: int, kernel: int, name: str, strides: int = 1) -> Feature:
    """Convolution, batch normalisation, SiLU."""
    x = batch_norm(net, conv(net, x, channels, kernel, name, strides), f"{name}.bn")
    return silu(net, x, f"{name}.silu")


def _stage(net: NetworkBuilder, x: Feature, channels: int, repeats: int, name: str, residual: bool = False) -> Feature:
    """Half of the channels through `repeats` bottlenecks; the results of all are joined."""
    half = channels // 2
    x = _unit(net, x, channels, 1, f"{name}.in")
    parts = [_part(x, f"{name}.half{i}", i * half, half) for i in range(2)]
    net.nodes("Split", [x.name], f"{name}.halves", [part.name for part in parts], axis=1, num_outputs=2)
    for index in range(repeats):
        y = _unit(net, parts[-1], half, 3, f"{name}.{index}.first")
        y = _unit(net, y, half, 3, f"{name}.{index}.second")
        parts.append(add(net, parts[-1], y, f"{name}.{index}.add") if residual else y)
    return _unit(net, concat(net, parts, f"{name}.join"), channels, 1, f"{name}.out")


def _part(x: Feature, name: str, begin: int, channels: int) -> Feature:
    """Some of the channels."""
    mean, variance = (values[begin : begin + channels] for values in (x.moments.mean, x.moments.variance))
    return Feature(name, channels, x.size, Moments(mean, variance))


def _pooled_pyramid(net: NetworkBuilder, x: Feature, name: str) -> Feature:
    """The maxima of three windows, each of the maxima before, beside their input."""
    channels = x.channels
    parts = [_unit(net, x, channels // 2, 1, f"{name}.in")]
    for index in range(3):
        pooled = f"{name}.pool{index}"
        net.node("MaxPool", [parts[-1].name], pooled, kernel_shape=[5, 5], strides=[1, 1], pads=[2] * 4)
        parts.append(replace(parts[-1], name=pooled))
    return _unit(net, concat(net, parts, f"{name}.join"), channels, 1, f"{name}.out")


def _doubled(net: NetworkBuilder, x: Feature, name: str) -> Feature:
    """Twice the size, by the nearest pixel."""
    scales = net.constant(f"{name}.scales", np.array([1, 1, 2, 2], np.float32))
    options = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    net.node("Resize", [x.name, "", scales], name, **options)
    return replace(x, name=name, size=2 * x.size)


def _merged(net: NetworkBuilder, x: Feature, y: Feature, name: str) -> Feature:
    """A stage on two joined features, with the channels of the second."""
    return _stage(net, concat(net, [x, y], f"{name}.join_in"), y.channels, 1, name)


# --- the head -------------------------------------------------------------------------------------


def _head(net: NetworkBuilder, x: Feature, least: int, classes: int, name: str) -> str:
    """Distributions of the four sides and scores of all classes, [batch, 64 + classes, places]."""
    branches = []
    for branch, results in (("sides", 4 * BINS), ("scores", classes)):
        channels = max(least, results) if branch == "sides" else max(least, min(classes, 100))
        y = _unit(net, x, channels, 3, f"{name}.{branch}.0")
        y = _unit(net, y, channels, 3, f"{name}.{branch}.1")
        branches.append(conv(net, y, results, 1, f"{name}.{branch}", bias=True))
    joined = concat(net, branches, f"{name}.join")
    shape = net.constant(f"{name}.shape", np.array([0, joined.channels, -1]))
    return net.node("Reshape", [joined.name, shape], f"{name}.places")


def _boxes(net: NetworkBuilder, grids: Sequence[str], sizes: Sequence[int], image: int, classes: int) -> str:
    """`boxes`: expected distances of the sides from each place as centres and sizes, and scores."""
    net.node("Concat", grids, "grids", axis=2)
    net.nodes(
        "Split", ["grids", net.constant("parts", np.array([4 * BINS, classes]))], "parts", ["sides", "classes"], axis=1
    )
    net.node("Reshape", ["sides", net.constant("bins.shape", np.array([0, 4, BINS, -1]))], "bins")
    net.node("Transpose", ["bins"], "bins.first", perm=[0, 2, 1, 3])
    net.node("Softmax", ["bins.first"], "bins.shares", axis=1)
    weight = net.constant("bins.weight", np.arange(BINS, dtype=np.float32).reshape(1, BINS, 1, 1))
    net.node("Conv", ["bins.shares", weight], "distances.image", kernel_shape=[1, 1])
    net.node("Reshape", ["distances.image", net.constant("distances.shape", np.array([0, 4, -1]))], "distances")
    net.nodes("Split", ["distances"], "corners", ["before", "after"], axis=1, num_outputs=2)
    places, steps = (net.constant(name, values) for name, values in _places(sizes, image).items())
    net.node("Sub", [places, "before"], "first")
    net.node("Add", [places, "after"], "last")
    two = net.constant("two", np.array(2, np.float32))
    net.node("Div", [net.node("Add", ["first", "last"], "both"), two], "centres")
    net.node("Sub", ["last", "first"], "extents")
    net.node("Concat", ["centres", "extents"], "sides.grid", axis=1)
    net.node("Mul", ["sides.grid", steps], "sides.image")
    net.node("Sigmoid", ["classes"], "scores")
    return net.node("Concat", ["sides.image", "scores"], "boxes", axis=1)


def _places(sizes: Sequence[int], image: int) -> dict[str, Array]:
    """The centres of all places in steps of their grids, and these steps in pixels."""
    centres, steps = [], []
    for size in sizes:
        rows, columns = np.indices((size, size), np.float32) + np.float32(0.5)
        centres.append(np.stack([columns.reshape(-1), rows.reshape(-1)]))
        steps.append(np.full(size * size, image / size, np.float32))
    return {"places": np.concatenate(centres, axis=1)[None], "steps": np.concatenate(steps)[None, None]}
