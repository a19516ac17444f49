"""Upgrades of operators of images: sampling, resizing, regions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from onnx import NodeProto

from vdla.compiler.graph.onnx.old_node import OldNode, Upgrade


def _upsample(old: OldNode) -> list[NodeProto]:
    """Upsample and the first Resize: pixel i of the result samples pixel i / scale of the input."""
    scales = old.take("scales")
    if scales is None and len(old.node.input) == 1:
        scales = [1.0, 1.0, old.take("height_scale"), old.take("width_scale")]
    name = old.input(1) if scales is None else old.constant(np.array(scales, np.float32), "scales")
    old.set("coordinate_transformation_mode", "asymmetric")
    old.set("nearest_mode", "floor")
    return old.final("Resize", [old.input(0), "", name])


def _resize(old: OldNode) -> list[NodeProto]:
    mode = old.attributes.get("coordinate_transformation_mode")
    if mode is not None and mode.s == b"tf_half_pixel_for_nn":
        raise old.refuse("have a coordinate mode of opset 13 or later, got tf_half_pixel_for_nn")
    return old.final("Resize", old.node.input)


def _roi_align(old: OldNode) -> list[NodeProto]:
    old.set("coordinate_transformation_mode", "output_half_pixel")
    return old.final("RoiAlign", old.node.input)


def _grid_sample(old: OldNode) -> list[NodeProto]:
    mode = old.take("mode", b"bilinear").decode()
    old.set("mode", {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode))
    return old.final("GridSample", old.node.input)


IMAGES: Mapping[str, Mapping[int, Upgrade]] = {
    "Upsample": {1: _upsample, 7: _upsample, 9: _upsample, 10: _upsample},
    "Resize": {10: _upsample, 11: _resize},
    "RoiAlign": {10: _roi_align},
    "GridSample": {16: _grid_sample},
}
