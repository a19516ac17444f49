# SPDX-License-Identifier: Apache-2.0
"""Upgrades of operators of networks: normalisations, softmax, scans, transposed convolutions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from onnx import GraphProto, NodeProto, helper

from vdla.compiler.graph.onnx.old_node import OldNode, Upgrade


def _softmax(old: OldNode) -> list[NodeProto]:
    """Softmax over all axes from `axis` on, as one."""
    axis = int(old.take("axis", 1))
    rank = old.rank(old.input(0))
    op = old.node.op_type
    if rank is not None and axis % rank == rank - 1:
        old.set("axis", -1)
        return old.final(op, [old.input(0)])
    shape = old.value("Shape", [old.input(0)])
    rows = old.value("Flatten", [old.input(0)], axis=axis)
    old.set("allowzero", 1)
    return old.final("Reshape", [old.value(op, [rows], axis=-1), shape])


def batch_normalization(old: OldNode) -> list[NodeProto]:
    """Refuses the forms of training, and those that do not normalise per channel."""
    if any(old.node.output[1:]):
        raise old.refuse("have one output, got the further ones of training")
    if not old.take("spatial", 1):
        raise old.refuse("normalise per channel, got spatial = 0")
    return old.final("BatchNormalization", old.node.input, old.node.output[:1])


def _group_normalization(old: OldNode) -> list[NodeProto]:
    """Scale and bias of each group become those of each channel."""
    groups = int(old.attributes["num_groups"].i)
    channels = old.value("Shape", [old.input(0)], start=1, end=2)
    group_channels = old.value("Div", [channels, old.integers([groups], "groups")])
    extents = old.value("Concat", [old.integers([groups], "groups"), group_channels], axis=0)
    column, flat = old.integers([groups, 1], "column"), old.integers([-1], "flat")
    parameters = []
    for name in old.node.input[1:3]:
        rows = old.value("Expand", [old.value("Reshape", [name, column]), extents])
        parameters.append(old.value("Reshape", [rows, flat]))
    return old.final("GroupNormalization", [old.input(0), *parameters])


def _scan(old: OldNode) -> list[NodeProto]:
    """The scan of opset 8 runs once for each element of a batch: a scan in a scan."""
    if old.input(0):
        raise old.refuse("have sequences of one length, got sequence_lens")
    inputs, outputs = list(old.node.input[1:]), list(old.node.output)
    body = helper.get_attribute_value(old.attributes["body"])
    directions = old.take("directions")
    outer = GraphProto()
    outer.name = f"{body.name}_batch"
    inner = helper.make_node("Scan", [f"{name}/one" for name in inputs], [f"{name}/one" for name in outputs])
    inner.attribute.extend([old.attributes["body"], old.attributes["num_scan_inputs"]])
    if directions:
        inner.attribute.append(helper.make_attribute("scan_input_directions", list(directions)))
    outer.node.append(inner)
    for names, values in ((inner.input, outer.input), (inner.output, outer.output)):
        for name in names:
            values.add().name = name
    old.attributes.clear()
    old.set("body", outer)
    old.set("num_scan_inputs", len(inputs))
    return old.final("Scan", inputs)


def _mean_variance_normalization(old: OldNode) -> list[NodeProto]:
    """With its axes written out: ONNX's inference does not supply their default."""
    axes = old.take("axes", [0, 2, 3])
    old.set("axes", axes)
    return old.final("MeanVarianceNormalization", old.node.input)


def _conv_transpose(old: OldNode) -> list[NodeProto]:
    """With explicit pads in place of `auto_pad` or `output_shape`, where they are known.

    As in ONNX Runtime, SAME cuts results to the input times the stride and does not extend them.
    ONNX's inference adds `output_padding` to that, and loses the rank of results that are smaller
    than the input.
    """
    mode, wanted = old.peek("auto_pad", b"NOTSET"), old.peek("output_shape", None)
    kernel = old.peek("kernel_shape", (old.extents(old.input(1)) or [])[2:])
    rank = len(kernel)
    strides, gaps = old.peek("strides", [1] * rank), old.peek("dilations", [1] * rank)
    extra = old.peek("output_padding", [0] * rank)
    if wanted is not None:
        spatial = (old.extents(old.input(0)) or [])[2:]
        wanted = wanted[-rank:]
    elif mode.startswith(b"SAME"):
        spatial, wanted = [1] * rank, strides  # the cut does not depend on the extent
    else:
        return [old.node]
    options = (spatial, kernel, strides, gaps, extra, wanted)
    if None in (*kernel, *spatial) or not rank or any(len(option) != rank for option in options):
        return [old.node]
    cut = [(n - 1) * s + (k - 1) * g + 1 + e - out for n, k, s, g, e, out in zip(*options, strict=True)]
    if old.take("output_shape") is not None:
        old.set("output_padding", [e - min(total, 0) for e, total in zip(extra, cut, strict=True)])
    cut = [max(total, 0) for total in cut]
    before = [total // 2 if mode == b"SAME_UPPER" else total - total // 2 for total in cut]
    old.take("auto_pad")
    old.set("pads", [*before, *(total - first for total, first in zip(cut, before, strict=True))])
    return old.final("ConvTranspose", old.node.input)


def _scatter(old: OldNode) -> list[NodeProto]:
    return old.final("ScatterElements", old.node.input)


NETWORKS: Mapping[str, Mapping[int, Upgrade]] = {
    **{name: {1: _softmax, 11: _softmax} for name in ("Hardmax", "LogSoftmax", "Softmax")},
    "BatchNormalization": {7: batch_normalization, 9: batch_normalization},
    "ConvTranspose": {1: _conv_transpose, 11: _conv_transpose, 22: _conv_transpose},
    "GroupNormalization": {18: _group_normalization},
    "MeanVarianceNormalization": {9: _mean_variance_normalization, 13: _mean_variance_normalization},
    "Scan": {8: _scan},
    "Scatter": {9: _scatter, 11: _scatter},
}


# --- images ---------------------------------------------------------------------------------------


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
