"""Upgrades from opset 6, in which operands were broadcast on request and training was a flag."""

from __future__ import annotations

from collections.abc import Mapping

from onnx import NodeProto

from vdla.compiler.graph.onnx.old_node import OldNode, Upgrade


def _broadcast(old: OldNode) -> list[NodeProto]:
    """An operand that was aligned at `axis` gets the dimensions behind it that it lacks."""
    axis = old.take("axis")
    old.take("broadcast")
    left, right = old.input(0), old.input(1)
    if axis is not None:
        ranks = old.rank(left), old.rank(right)
        if ranks[0] is None or ranks[1] is None:
            raise old.refuse("have operands of known rank where it has an axis")
        missing = ranks[0] - axis % ranks[0] - ranks[1]
        axes = range(ranks[1], ranks[1] + missing)
        right = old.value("Unsqueeze", [right, old.integers(axes, "axes")]) if missing > 0 else right
    return old.final(old.node.op_type, [left, right])


def _gemm(old: OldNode) -> list[NodeProto]:
    old.take("broadcast")
    return old.final("Gemm", old.node.input)


def _batch_normalization(old: OldNode) -> list[NodeProto]:
    if not old.take("is_test", 0):
        raise old.refuse("not train, got is_test = 0")
    if any(old.node.output[1:]):
        raise old.refuse("have one output, got the further ones of training")
    if not old.take("spatial", 1):
        raise old.refuse("normalise per channel, got spatial = 0")
    return old.final("BatchNormalization", old.node.input, old.node.output[:1])


def _p_relu(old: OldNode) -> list[NodeProto]:
    """A slope of each channel, the second dimension of the data."""
    ranks = old.rank(old.input(0)), old.rank(old.input(1))
    if ranks[0] is None or ranks[1] is None:
        raise old.refuse("have operands of known rank")
    axes = range(ranks[1], ranks[0] - 1)
    slope = old.input(1)
    if ranks[1] == 1 and axes and not _one_element(old, slope):
        slope = old.value("Unsqueeze", [slope, old.integers(axes, "axes")])
    return old.final("PRelu", [old.input(0), slope])


def _one_element(old: OldNode, name: str) -> bool:
    return [dim.dim_value for dim in old.types[name].tensor_type.shape.dim] == [1]


def _dropout(old: OldNode) -> list[NodeProto]:
    if not old.take("is_test", 0):
        raise old.refuse("not train, got is_test = 0")
    old.take("ratio")
    return old.final("Dropout", old.node.input)


_ARITHMETIC = ("Add", "Div", "Mul", "Sub")
_OTHERS = ("And", "Equal", "Greater", "Less", "Or", "Pow", "Xor")

OPSET_6: Mapping[str, Mapping[int, Upgrade]] = {
    **{name: {6: _broadcast} for name in _ARITHMETIC},
    **{name: {1: _broadcast} for name in _OTHERS},
    "Gemm": {6: _gemm},
    "BatchNormalization": {6: _batch_normalization},
    "PRelu": {6: _p_relu},
    "Dropout": {6: _dropout},
}
