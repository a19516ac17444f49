# SPDX-License-Identifier: Apache-2.0
"""Rules between the operands of a node that ONNX's inference of types leaves out.

Without them a node that breaks one would be refused only when it runs, or compute something else.
Extents that are not known yet break no rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

from vdla.compiler.graph.graph import Array, Graph, TensorType
from vdla.compiler.graph.onnx.attribute_rules import wrong_word
from vdla.compiler.graph.onnx.errors import OnnxError
from vdla.compiler.graph.onnx.node_operands import NodeOperands, agree, extents_text, first_of
from vdla.compiler.graph.onnx.tabular_rules import TABULAR_RULES


def check_operands(graph: Graph, place: str = "") -> None:
    """Refuses the first node whose operands contradict each other.

    Raises:
        OnnxError: the message names the node, the rule and the operand.
    """
    where = place or graph.name
    for node in graph.nodes:
        label = f"{node.op} {node.name or node.outputs[0]}"
        rule = _RULES.get(node.op)
        broken = wrong_word(node) or (None if rule is None else rule(NodeOperands(graph, node)))
        if broken is not None:
            raise OnnxError(f"{where}: {label}: {broken}")
        for key, body in node.bodies.items():
            check_operands(body, f"{where}, {key} of {label}")


# --- rules ----------------------------------------------------------------------------------------


def _conv(at: NodeOperands) -> str | None:
    data, weight = at.shape(0), at.shape(1)
    if data is None or weight is None or len(data) != len(weight) or len(data) < 3:
        return None
    group, transposed = at.whole("group", 1), at.node.op == "ConvTranspose"
    outputs = weight[1] if transposed else weight[0]
    lanes = outputs * group if transposed and isinstance(outputs, int) else outputs
    return first_of(
        _channels(at, data, weight),
        at.differs(2, "the bias", (lanes,)),
        None if transposed else _too_small(at, data, weight),
    )


def _channels(at: NodeOperands, data: Sequence[int | str | None], weight: Sequence[int | str | None]) -> str | None:
    """The weight is [O, I / group, ...], that of ConvTranspose [I, O / group, ...]."""
    group, transposed = at.whole("group", 1), at.node.op == "ConvTranspose"
    outputs, inputs = (weight[1], weight[0]) if transposed else (weight[0], weight[1])
    if group < 1:
        return f"group must be positive, got {group}"
    channels = inputs if transposed or not isinstance(inputs, int) else inputs * group
    if not agree(channels, data[1]):
        product = "" if transposed or group == 1 else f" in each of {group} groups"
        return f"the weight must read the {data[1]} channels of the data, got {inputs}{product}"
    split = inputs if transposed else outputs
    if isinstance(split, int) and split % group:
        return f"the weight's first extent must be a multiple of the {group} groups, got {split}"
    kernel = at.node.attributes.get("kernel_shape")
    if kernel is not None and not all(map(agree, kernel, weight[2:])):
        return f"kernel_shape must be that of the weight, {extents_text(weight[2:])}, got {extents_text(kernel)}"
    return None


def _too_small(at: NodeOperands, data: Sequence[object], weight: Sequence[object]) -> str | None:
    """Padded data smaller than the kernel."""
    sides = len(weight) - 2
    if at.node.attributes.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        return None
    pads = at.node.attributes.get("pads", (0,) * 2 * sides)
    dilations = at.node.attributes.get("dilations", (1,) * sides)
    for axis, (extent, taps) in enumerate(zip(data[2:], weight[2:], strict=True)):
        if not isinstance(extent, int) or not isinstance(taps, int) or extent == 0:
            continue
        padded, span = extent + pads[axis] + pads[axis + sides], (taps - 1) * dilations[axis] + 1
        if padded < span:
            return f"the padded data must be at least as large as the kernel, {span}, got {padded}"
    return None


def _reshape(at: NodeOperands) -> str | None:
    data, result = at.shape(0), at.graph.types.get(at.node.outputs[0])
    if data is None or not isinstance(result, TensorType) or result.shape is None:
        return None
    known, made = ([extent for extent in shape if isinstance(extent, int)] for shape in (data, result.shape))
    if len(known) < len(data) or len(made) < len(result.shape) or prod(known) == prod(made):
        return None
    return f"the result must have the {prod(known)} elements of the data, got {extents_text(result.shape)}"


def _gather(at: NodeOperands) -> str | None:
    data, indices = at.shape(0), at.graph.constant(at.node.inputs[1])
    axis = at.whole("axis", 0)
    if data is None or indices is None or not indices.size or not -len(data) <= axis < len(data):
        return None
    return _outside(indices, data[axis])


def _outside(indices: Array, extent: int | str | None) -> str | None:
    if not isinstance(extent, int):
        return None
    outside = indices[(indices < -extent) | (indices >= extent)]
    return f"indices must be from {-extent} to {extent - 1}, got {outside.flat[0]}" if outside.size else None


def _quantisation(at: NodeOperands) -> str | None:
    """A scale of a tensor has no rank or, in older models, one element."""
    data, scale = at.shape(0), at.shape(1)
    if data is None or scale is None or tuple(scale) in ((), (1,)):
        return None
    axis = at.whole("axis", 1)
    if not -len(data) <= axis < len(data):
        return f"axis must be from {-len(data)} to {len(data) - 1}, got {axis}"
    blocked = at.whole("block_size", 0) > 0
    alone = None if blocked else at.differs(1, "the scale", (data[axis],))
    return first_of(alone, at.differs(2, "the zero point", scale))


def _integer_conv(at: NodeOperands) -> str | None:
    """The weight of QLinearConv is its fourth operand, the bias its ninth."""
    quantised = at.node.op == "QLinearConv"
    data, weight = at.shape(0), at.shape(3 if quantised else 1)
    if data is None or weight is None or len(data) != len(weight) or len(data) < 3:
        return None
    return first_of(_channels(at, data, weight), at.differs(8, "the bias", weight[:1]) if quantised else None)


def _integer_product(at: NodeOperands) -> str | None:
    """A zero point is one number, or one a row of the first operand or a column of the second."""
    left, right = at.shape(0), at.shape(1)
    if left is None or right is None or len(left) < 2 or len(right) < 2:
        return None
    sides = ((2, "the first zero point", left[-2]), (3, "the second zero point", right[-1]))
    given = [(place, what, wanted) for place, what, wanted in sides if at.shape(place) not in (None, (), (1,))]
    flat = [item for item in given if len(at.shape(item[0]) or ()) == 1]
    return first_of(*(at.differs(place, what, (wanted,)) for place, what, wanted in flat))


def _blocks(at: NodeOperands) -> str | None:
    """DepthToSpace takes channels apart, SpaceToDepth the image."""
    data, block = at.shape(0), at.whole("blocksize", 1)
    if data is None or len(data) != 4 or block < 1:
        return None if block > 0 else f"blocksize must be positive, got {block}"
    deep = at.node.op == "DepthToSpace"
    size, parts = (block * block, data[1:2]) if deep else (block, data[2:])
    wrong = [extent for extent in parts if isinstance(extent, int) and extent % size]
    what = "channels" if deep else "height and width"
    return f"{what} must be multiples of {size}, got {wrong[0]}" if wrong else None


def _cumulative(at: NodeOperands) -> str | None:
    data, axis = at.shape(0), at.graph.constant(at.node.inputs[1])
    if data is None or axis is None or axis.size != 1 or -len(data) <= int(axis.reshape(())) < len(data):
        return None
    return f"axis must be from {-len(data)} to {len(data) - 1}, got {axis.reshape(())}"


def _gather_nd(at: NodeOperands) -> str | None:
    data, indices = at.shape(0), at.graph.constant(at.node.inputs[1])
    if data is None or indices is None or not indices.size or not indices.ndim:
        return None
    start = at.whole("batch_dims", 0)
    for place, extent in enumerate(data[start : start + indices.shape[-1]]):
        sentence = _outside(indices[..., place], extent)
        if sentence is not None:
            return sentence
    return None


def _resize(at: NodeOperands) -> str | None:
    scales = at.graph.constant(at.node.inputs[2]) if len(at.node.inputs) > 2 and at.node.inputs[2] else None
    if scales is None or not scales.size or (scales > 0).all():
        return None
    return f"scales must be positive, got {scales.min():g}"


def _channelwise(at: NodeOperands) -> str | None:
    """Normalisations with one scale and one bias a channel."""
    data = at.shape(0)
    if data is None or len(data) < 2:
        return None
    return first_of(*(at.differs(place, what, (data[1],)) for place, what in ((1, "the scale"), (2, "the bias"))))


def _layer_norm(at: NodeOperands) -> str | None:
    data, axis = at.shape(0), at.whole("axis", -1)
    if data is None or not -len(data) <= axis < len(data):
        return None
    wanted = data[axis % len(data) :]
    return first_of(*(at.onto(place, what, wanted) for place, what in ((1, "the scale"), (2, "the bias"))))


def _gemm(at: NodeOperands) -> str | None:
    result = at.graph.types.get(at.node.outputs[0])
    return at.onto(2, "the bias", result.shape) if isinstance(result, TensorType) else None


def _prelu(at: NodeOperands) -> str | None:
    return at.onto(1, "the slope", at.shape(0))


def _lrn(at: NodeOperands) -> str | None:
    size = at.whole("size", 1)
    return None if size > 0 else f"size must be positive, got {size}"


_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def _recurrent(at: NodeOperands) -> str | None:
    data, recurrence = at.shape(0), at.shape(2)
    if data is None or recurrence is None or len(data) != 3 or len(recurrence) != 3:
        return None
    count = 2 if at.node.attributes.get("direction") == "bidirectional" else 1
    hidden = at.whole("hidden_size", 0) or recurrence[2]
    rows = _GATES[at.node.op] * hidden if isinstance(hidden, int) else None
    return first_of(
        at.differs(1, "W", (count, rows, data[2])),
        at.differs(2, "R", (count, rows, hidden)),
        at.differs(3, "B", (count, None if rows is None else 2 * rows)),
    )


_RULES: Mapping[str, Callable[[NodeOperands], str | None]] = {
    **dict.fromkeys(("Conv", "ConvTranspose"), _conv),
    **dict.fromkeys(("ConvInteger", "QLinearConv"), _integer_conv),
    **dict.fromkeys(("CumProd", "CumSum"), _cumulative),
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), _blocks),
    **dict.fromkeys(("Gather", "GatherElements"), _gather),
    **dict.fromkeys(("GroupNormalization", "InstanceNormalization"), _channelwise),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization"), _layer_norm),
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), _quantisation),
    **dict.fromkeys(_GATES, _recurrent),
    "GatherND": _gather_nd,
    "Gemm": _gemm,
    "LRN": _lrn,
    "MatMulInteger": _integer_product,
    "PRelu": _prelu,
    "Reshape": _reshape,
    "Resize": _resize,
    **TABULAR_RULES,
}
