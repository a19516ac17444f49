"""Upgrades of operators whose attributes became inputs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from onnx import NodeProto

from vdla.compiler.graph.onnx.old_node import OldNode, Upgrade


def _axes(old: OldNode) -> list[NodeProto]:
    """Squeeze, Unsqueeze and reductions: the attribute `axes` as an input."""
    axes = old.take("axes")
    return old.final(old.node.op_type, [old.input(0)] if axes is None else [old.input(0), old.integers(axes, "axes")])


def _clip(old: OldNode) -> list[NodeProto]:
    dtype = old.dtype(old.input(0))
    limits = [old.take("min"), old.take("max")]
    with np.errstate(invalid="ignore"):
        arrays = [None if limit is None else np.array(limit).astype(dtype) for limit in limits]
    names = ["" if limit is None else old.constant(limit, "limit") for limit in arrays]
    return old.final("Clip", [old.input(0), *names])


def _slice(old: OldNode) -> list[NodeProto]:
    starts, ends, axes = old.take("starts"), old.take("ends"), old.take("axes")
    names = [old.integers(starts, "starts"), old.integers(ends, "ends")]
    if axes is not None:
        names.append(old.integers(axes, "axes"))
    return old.final("Slice", [old.input(0), *names])


def _pad(old: OldNode) -> list[NodeProto]:
    pads, value = old.take("pads"), old.take("value", 0.0)
    names = [old.integers(pads, "pads")]
    if value:
        names.append(old.constant(np.array(value).astype(old.dtype(old.input(0))), "value"))
    return old.final("Pad", [old.input(0), *names])


def _top_k(old: OldNode) -> list[NodeProto]:
    return old.final("TopK", [old.input(0), old.integers([old.take("k")], "k")])


def _split(old: OldNode) -> list[NodeProto]:
    split = old.take("split")
    names = [name for name in old.node.input[1:] if name]
    if split is not None:
        names = [old.integers(split, "split")]
    if not names:
        old.set("num_outputs", len(old.node.output))
    return old.final("Split", [old.input(0), *names])


def _dropout(old: OldNode) -> list[NodeProto]:
    """Without training, dropout is the identity; the mask of opset 7 had the type of the data."""
    ratio = old.constant(np.array(old.take("ratio", 0.5), np.float32), "ratio")
    return old.final("Dropout", [old.input(0), ratio])


def _dft(old: OldNode) -> list[NodeProto]:
    axis = old.constant(np.array(old.take("axis", 1), np.int64), "axis")
    return old.final("DFT", [old.input(0), old.input(1), axis])


_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Mean", "Prod", "SumSquare")

PARAMETERS: Mapping[str, Mapping[int, Upgrade]] = {
    **{f"Reduce{name}": {1: _axes, 11: _axes, 13: _axes} for name in _REDUCTIONS},
    "ReduceMax": {1: _axes, 11: _axes, 12: _axes, 13: _axes},
    "ReduceMin": {1: _axes, 11: _axes, 12: _axes, 13: _axes},
    "ReduceSum": {1: _axes, 11: _axes},
    "Squeeze": {1: _axes, 11: _axes},
    "Unsqueeze": {1: _axes, 11: _axes},
    "Clip": {6: _clip},
    "Slice": {1: _slice},
    "Pad": {2: _pad},
    "TopK": {1: _top_k},
    "Split": {2: _split, 11: _split, 13: _split},
    "Dropout": {7: _dropout, 10: _dropout},
    "DFT": {17: _dft},
}
