# SPDX-License-Identifier: Apache-2.0
"""The upgrades by operator and by the opset in which its older meaning began.

An operator whose newest meaning includes the older one needs no entry: its later versions admit
more element types, or have attributes whose defaults give the older meaning.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from onnx import NodeProto, TensorProto, helper

from vdla.compiler.graph.onnx.microsoft import MICROSOFT
from vdla.compiler.graph.onnx.old_node import OldNode, Upgrade
from vdla.compiler.graph.onnx.qonnx import QONNX
from vdla.compiler.graph.onnx.upgrades_of_networks import IMAGES, NETWORKS, batch_normalization

# --- attributes that became inputs ----------------------------------------------------------------


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


def _in_float(upgrade: Upgrade, wider: int = TensorProto.DOUBLE) -> Upgrade:
    """Integers as floats and back, for operators that the newest opset defines for floats only."""

    def upgraded(old: OldNode) -> list[NodeProto]:
        kind = old.types.get(old.input(0))
        if kind is None or kind.tensor_type.elem_type not in _INTEGERS:
            return upgrade(old)
        wide = old.value("Cast", [old.input(0)], to=wider)
        result = old.fresh("wide")
        node = helper.make_node(old.node.op_type, [wide, *old.node.input[1:]], [result])
        node.attribute.extend(old.node.attribute)
        inner = OldNode(node, {**old.types, wide: kind}, old.constants)  # rank and extents are the same
        made = [*old.made, *upgrade(inner)]
        return [
            *made,
            helper.make_node("Cast", [result], old.node.output, old.node.name, to=kind.tensor_type.elem_type),
        ]

    return upgraded


def _unchanged(old: OldNode) -> list[NodeProto]:
    return old.final(old.node.op_type, old.node.input)


_INTEGERS = (
    *(TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64),
    *(TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64),
)
_REDUCTIONS = ("L1", "L2", "Mean", "Prod", "SumSquare")
_LOGARITHMS = ("ReduceLogSum", "ReduceLogSumExp")

PARAMETERS: Mapping[str, Mapping[int, Upgrade]] = {
    **{f"Reduce{name}": {1: _axes, 11: _axes, 13: _axes} for name in _REDUCTIONS},
    **{name: {**dict.fromkeys((1, 11, 13), _in_float(_axes)), 18: _in_float(_unchanged)} for name in _LOGARITHMS},
    "Erf": {9: _in_float(_unchanged, TensorProto.FLOAT)},  # as onnx.reference: 4 is 1
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


# --- upgrades from opset 6, in which operands were broadcast on request and training was a flag ---


def _broadcast(old: OldNode) -> list[NodeProto]:
    """An operand aligned at `axis` gets trailing dimensions of extent 1."""
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
    return batch_normalization(old)


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


def _dropout_of_opset_6(old: OldNode) -> list[NodeProto]:
    if not old.take("is_test", 0):
        raise old.refuse("not train, got is_test = 0")
    old.take("ratio")
    return old.final("Dropout", old.node.input)


_ARITHMETIC = ("Add", "Div", "Mul", "Sub")
_LOGICAL = ("And", "Equal", "Greater", "Less", "Or", "Pow", "Xor")

OPSET_6: Mapping[str, Mapping[int, Upgrade]] = {
    **{name: {6: _broadcast} for name in _ARITHMETIC},
    **{name: {1: _broadcast} for name in _LOGICAL},
    "Gemm": {6: _gemm},
    "BatchNormalization": {6: _batch_normalization},
    "PRelu": {6: _p_relu},
    "Dropout": {6: _dropout_of_opset_6},
}


def _label_encoder(old: OldNode) -> list[NodeProto]:
    """Strings as their places in a list, of equal ones the last, or places as the strings."""
    words = old.take("classes_strings", [])
    kind = old.types.get(old.input(0))
    of_words = kind is not None and kind.tensor_type.elem_type == TensorProto.STRING
    whole, text = old.take("default_int64", -1), old.take("default_string", b"_Unused")
    sides = ("keys", "values") if of_words else ("values", "keys")
    places: list[int] = list(range(len(words)))
    if of_words:
        last = dict(zip(words, places, strict=True))
        words, places = list(last), list(last.values())
    for side, key, values in zip(sides, ("strings", "int64s"), (words, places), strict=True):
        old.set(f"{side}_{key}", values)
    old.set("default_int64" if of_words else "default_string", whole if of_words else text)
    node = old.final("LabelEncoder", [old.input(0)])
    node[-1].domain = "ai.onnx.ml"
    return node


CLASSICAL: Mapping[str, Mapping[int, Upgrade]] = {"ai.onnx.ml.LabelEncoder": {1: _label_encoder}}

_TABLES = (CLASSICAL, PARAMETERS, IMAGES, NETWORKS, OPSET_6, MICROSOFT, QONNX)

UPGRADES: Mapping[str, Mapping[int, Upgrade]] = {
    op: {since: upgrade for table in _TABLES for since, upgrade in table.get(op, {}).items()}
    for op in sorted({op for table in _TABLES for op in table})
}
