# SPDX-License-Identifier: Apache-2.0
"""Drafts of control flow, sequences, optionals, and of constants and random values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, helper, numpy_helper

from vdla.verification.grids.draw import Array, Draw, NodeDraft
from vdla.verification.grids.elementwise import Drafter

_MOVED = ("float32", "float64", "float16", "int32", "int64", "bool", "object")


def _code(dtype: str) -> int:
    return int(TensorProto.STRING if dtype == "object" else helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def _node(op: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> NodeProto:  # noqa: ANN401
    return helper.make_node(op, list(inputs), list(outputs), **attributes)


def _value(name: str, dtype: str, shape: Sequence[int | str] | None = None) -> Any:  # noqa: ANN401
    return helper.make_tensor_value_info(name, _code(dtype), shape)


def _graph(nodes: Sequence[NodeProto], inputs: Sequence[Any], outputs: Sequence[Any]) -> GraphProto:
    return helper.make_graph(list(nodes), "body", list(inputs), list(outputs))


def _constant(name: str, value: Any) -> NodeProto:  # noqa: ANN401
    return _node("Constant", [], [name], value=numpy_helper.from_array(np.asarray(value)))


# --- control flow ---------------------------------------------------------------------------------


def _if(draw: Draw) -> NodeDraft:
    """Branches of values captured from outside; their results may differ in shape."""
    dtype, shape = draw.pick(["float32", "float32", "int64", "float64"]), draw.shape(draw.rank(1, 3))
    x, z = draw.array(shape, dtype), draw.array(shape, dtype)
    other = draw.pick(["Neg", "Identity", "Unsqueeze", "Constant"])
    after: list[NodeProto] = [_node("Neg" if other == "Neg" else "Identity", ["x2"], ["e0"])]
    if other == "Unsqueeze":
        axes = {"axes": [0]} if draw.version.since < 13 else {}
        after = [
            _constant("one", np.array([0])),
            _node("Unsqueeze", ["x2", *([] if axes else ["one"])], ["e0"], **axes),
        ]
    if other == "Constant":
        after = [_constant("e0", draw.array(draw.shape(2), dtype))]
    then = [_node(draw.pick(["Add", "Sub", "Mul"]), ["x1", "x2"], ["t0"])]
    outputs = draw.rank(1, 2)
    if outputs == 2:
        then.append(_node("Shape", ["t0"], ["t1"]))
        after.append(_node("Shape", ["e0"], ["e1"]))
    typed = None if draw.chance() or draw.version.since < 11 else shape
    branches = {
        name: _graph(
            nodes, [], [_value(f"{prefix}{i}", [dtype, "int64"][i], typed if i == 0 and prefix == "t" else None)
                        for i in range(outputs)]
        )
        for name, prefix, nodes in (("then_branch", "t", then), ("else_branch", "e", after))
    }  # fmt: skip
    condition = np.asarray(draw.chance()).reshape(draw.pick([(), (1,)]))
    return NodeDraft(
        [condition, x, z], branches, outputs=outputs, constant=frozenset({0, 2}), names=("x0",), trusted=True
    )


def _loop(draw: Draw) -> NodeDraft:
    """A sum with as many steps as a count or a condition allows; steps of it are stacked."""
    dtype, shape = draw.pick(["float32", "float32", "float64", "int64"]), draw.shape(draw.rank(0, 3))
    state, step = draw.array(shape, dtype, 1, 3), draw.array(shape, dtype, 0, 2)
    typed = None if draw.chance(0.3) else shape  # without steps and shapes, that of stacked ones is open
    count = np.asarray(draw.pick([0, 1, 3, 5] if typed is not None else [1, 4]), np.int64)
    count = count.reshape(draw.pick([(), (1,)]))
    stop = draw.chance()
    nodes = [_node("Add", ["v", "x3"], ["v_out"])]
    if stop:
        nodes += [
            _constant("limit", np.asarray(draw.pick([0, 1, 2]), np.int64)), _node("Less", ["i", "limit"], ["go_on"])
        ]  # fmt: skip
    else:
        nodes.append(_node("Identity", ["go"], ["go_on"]))
    scans = draw.rank(0, 2)
    kinds = [dtype, "int64"][:scans]
    if scans:
        nodes.append(_node("Mul", ["v", "v_out"], ["s0"]))
    if scans == 2:
        nodes.append(_node("Identity", ["i"], ["s1"]))
    given_flag = draw.chance(0.6)  # ONNX Runtime holds its declared shape against that of the operand
    flag = None if given_flag and draw.chance() else ()
    given = [_value("i", "int64", ()), _value("go", "bool", flag), _value("v", dtype, typed)]
    results = [_value("go_on", "bool", flag), _value("v_out", dtype, typed)]
    results += [_value(f"s{i}", kind, typed if i == 0 else ()) for i, kind in enumerate(kinds)]
    body = _graph(nodes, given, results)
    first = typed is None or draw.pick([True, True, False])
    inputs: list[Array | None] = [
        count if draw.chance(0.8) or not stop else None,
        np.asarray(first).reshape((1,) if flag is None and not stop else ()) if given_flag else None,
        state,
        step,
    ]
    names = ["x0" if inputs[0] is not None else "", "x1" if inputs[1] is not None else "", "x2"]
    return NodeDraft(
        inputs, {"body": body}, outputs=1 + scans, constant=frozenset({0, 1, 3}), names=names, trusted=True
    )


def _scan(draw: Draw) -> NodeDraft:
    """Sums of the elements so far, along axes and in directions of their own."""
    old = draw.version.since < 9
    dtype, rank, steps = draw.pick(["float32", "float32", "float64"]), draw.rank(0, 2), draw.rank(1, 5)
    item = draw.shape(rank, empty=False)
    batch = draw.rank(1, 2)
    states, sequences = draw.rank(0, 2), draw.rank(1, 2)
    attributes: dict[str, Any] = {"num_scan_inputs": sequences}
    axes = [0] * sequences
    if not old and draw.chance(0.4):
        axes = [draw.rank(0, rank) for _ in range(sequences)]
        ends = draw.version.since >= 11 and draw.chance()
        attributes["scan_input_axes"] = [axis - (rank + 1 if ends else 0) for axis in axes]
    if draw.chance(0.4):
        attributes["directions" if old else "scan_input_directions"] = [draw.rank(0, 1) for _ in range(sequences)]
    before = (batch,) if old else ()
    inputs: list[Array | None] = [draw.array((*before, *item), dtype) for _ in range(states)]
    inputs += [draw.array((*before, *item[:axis], steps, *item[axis:]), dtype) for axis in axes]
    nodes = [_node("Add", ["s0", "z0"], ["p0"])] if states else [_node("Neg", ["z0"], ["p0"])]
    if states == 2:
        nodes.append(_node("Mul", ["s1", f"z{sequences - 1}"], ["p1"]))
    nodes.append(_node("Sub", [nodes[0].output[0], f"z{sequences - 1}"], ["q0"]))
    if not states:
        outs = ["q0"]
    else:
        outs = [f"p{i}" for i in range(states)] + ["q0"]
        if not old and draw.chance(0.4):
            attributes["scan_output_axes"] = [draw.rank(0, rank)]
        if not old and draw.chance(0.4):
            attributes["scan_output_directions"] = [draw.rank(0, 1)]
    given = [_value(f"s{i}", dtype, item) for i in range(states)]
    given += [_value(f"z{i}", dtype, item) for i in range(sequences)]
    attributes["body"] = _graph(nodes, given, [_value(name, dtype, item) for name in outs])
    names = [f"x{i}" for i in range(len(inputs))]
    return NodeDraft(inputs, attributes, outputs=len(outs), names=["", *names] if old else names)


# --- sequences ------------------------------------------------------------------------------------


def _elements(draw: Draw, least: int = 1, equal: bool = False) -> tuple[list[Array | None], NodeProto]:
    """Tensors and the node that makes a sequence of them; their shapes may differ."""
    dtype, rank, count = draw.pick(_MOVED), draw.rank(0, 3), draw.rank(least, 4)
    shape = draw.shape(rank)
    arrays: list[Array | None] = [draw.array(shape if equal else draw.shape(rank), dtype) for _ in range(count)]
    return arrays, _node("SequenceConstruct", [f"x{i}" for i in range(count)], ["sequence"])


def _place(draw: Draw, low: int, high: int) -> Array:
    return np.asarray(draw.rank(low, high), draw.pick([np.int32, np.int64]))


def _construct(draw: Draw) -> NodeDraft:
    arrays, _ = _elements(draw)
    return NodeDraft(arrays, compiled=False)


def _of_sequence(draw: Draw) -> NodeDraft:
    """SequenceAt, SequenceErase, SequenceInsert and SequenceLength."""
    arrays, before = _elements(draw)
    name, count = draw.version.name, len(arrays)
    if name == "SequenceLength":
        return NodeDraft(arrays, before=[before], names=["sequence"], compiled=False)
    names, place = ["sequence"], len(arrays)
    if name == "SequenceInsert":
        first = arrays[0]
        assert first is not None
        arrays.append(first[..., :1] if first.ndim else first)
        names.append(f"x{count}")
        place += 1
        if draw.chance():
            arrays.append(_place(draw, -count, count))
    elif name == "SequenceAt" or draw.chance(0.7):
        arrays.append(_place(draw, -count, count - 1))
    if len(arrays) > place:
        names.append(f"x{place}")
    return NodeDraft(arrays, before=[before], names=names, constant=frozenset({place}), compiled=False)


def _empty_sequence(draw: Draw) -> NodeDraft:
    return NodeDraft([], {"dtype": _code(draw.pick(_MOVED))} if draw.chance() else {}, compiled=False)


def _concat_sequence(draw: Draw) -> NodeDraft:
    arrays, before = _elements(draw, equal=True)
    first = arrays[0]
    assert first is not None
    stacked = not first.ndim or draw.chance()
    axis = draw.rank(-first.ndim - stacked, first.ndim - 1 + stacked)
    return NodeDraft(
        arrays, {"axis": axis, "new_axis": int(stacked)}, before=[before], names=["sequence"], compiled=False
    )


def _split_to_sequence(draw: Draw) -> NodeDraft:
    rank = draw.rank(1, 3)
    x = draw.array(draw.shape(rank, empty=False), draw.dtype(among=_MOVED))
    axis = draw.axis(rank)
    extent = x.shape[axis]
    inputs: list[Array | None] = [x]
    if draw.chance(0.7):
        cut = draw.rank(0, extent)
        kind = draw.pick([np.int32, np.int64])
        inputs.append(np.asarray([cut, extent - cut] if draw.chance() else draw.rank(1, extent), kind))
    options = draw.options(keepdims=[0, 1])
    return NodeDraft(inputs, {"axis": axis, **options}, constant=frozenset({1}), compiled=False)


def _sequence_map(draw: Draw) -> NodeDraft:
    arrays, before = _elements(draw)
    first = arrays[0]
    assert first is not None
    dtype = "object" if first.dtype.kind == "O" else first.dtype.name
    body = _graph([_node("Shape", ["e"], ["r"])], [_value("e", dtype)], [_value("r", "int64")])
    outputs = 1
    if draw.chance():
        nodes = [_node("Identity", ["e"], ["q"]), _node("Shape", ["e"], ["r"])]
        body = _graph(nodes, [_value("e", dtype)], [_value("q", dtype), _value("r", "int64")])
        outputs = 2
    return NodeDraft(arrays, {"body": body}, outputs=outputs, before=[before], names=["sequence"], compiled=False)


# --- optionals ------------------------------------------------------------------------------------


def _optional(draw: Draw) -> NodeDraft:
    if draw.chance():
        arrays, before = _elements(draw)
        return NodeDraft(arrays, before=[before], names=["sequence"], compiled=False)
    return NodeDraft([draw.array(draw.shape(), draw.pick(_MOVED))], compiled=False)


def _of_optional(draw: Draw) -> NodeDraft:
    arrays, before = _elements(draw)
    chain = [before]
    chosen = "sequence"
    if draw.chance():
        arrays, chain, chosen = arrays[:1], [], "x0"
    if draw.version.since < 18 or draw.chance():
        chain.append(_node("Optional", [chosen], ["option"]))
        chosen = "option"
    elif draw.version.name == "OptionalHasElement" and draw.chance(0.3):
        return NodeDraft([], compiled=False)
    return NodeDraft(arrays, before=chain, names=[chosen], compiled=False)


# --- constants and random values ------------------------------------------------------------------


def _constants(draw: Draw) -> NodeDraft:
    values: dict[str, Any] = {
        "value": numpy_helper.from_array(draw.array(draw.shape(draw.rank(0, 3)), draw.pick(_MOVED))),
        "value_float": 1.5,
        "value_floats": [0.5, -1.0] if draw.chance() else [2.0],
        "value_int": -3,
        "value_ints": [1, 2, 3],
        "value_string": "Zug",
        "value_strings": ["a", "", "über"],
    }
    if draw.has("sparse_value"):
        places = helper.make_tensor("", TensorProto.INT64, (2,), [1, 4])
        kept = helper.make_tensor("", TensorProto.FLOAT, (2,), [0.5, 2.0])
        values["sparse_value"] = helper.make_sparse_tensor(kept, places, [2, 3])
    name = draw.pick([name for name in values if draw.has(name)])
    return NodeDraft([], {name: values[name]})


def _certain(draw: Draw) -> NodeDraft:
    """Random values with one outcome: no deviation, an interval of a point, certain events."""
    dtype = draw.pick(["float32", "float64", "float16"])
    attributes: dict[str, Any] = {"dtype": _code(dtype)} if draw.chance() else {}
    if draw.chance():
        attributes["seed"] = 3.0
    name = draw.version.name
    shape = draw.shape(draw.rank(1, 3))
    if "Normal" in name:
        attributes |= {"mean": draw.pick([0.0, 1.5]), "scale": 1e-30}
    elif "Uniform" in name:
        attributes |= {"low": 0.5, "high": 0.5}
    if name.endswith("Like"):
        return NodeDraft([draw.array(shape, dtype)], attributes)
    if name.startswith("Random"):
        return NodeDraft([], {**attributes, "shape": list(shape)})
    if name == "Bernoulli":
        return NodeDraft([np.round(draw.array(shape, dtype, 0, 1))], attributes)
    classes = draw.rank(1, 4)
    logits = np.full((draw.rank(1, 3), classes), -1e4, np.float32)
    logits[:, draw.rank(0, classes - 1)] = 0
    kind = {"dtype": draw.pick([TensorProto.INT32, TensorProto.INT64])} if draw.chance() else {}
    return NodeDraft([logits], {**draw.options(sample_size=[1, 3]), **kind})


_RANDOM = "Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike"
BODIES: Mapping[str, Drafter] = {
    **dict.fromkeys(("OptionalGetElement", "OptionalHasElement"), _of_optional),
    **dict.fromkeys(("SequenceAt", "SequenceErase", "SequenceInsert", "SequenceLength"), _of_sequence),
    **dict.fromkeys(_RANDOM.split(), _certain),
    "ConcatFromSequence": _concat_sequence,
    "Constant": _constants,
    "If": _if,
    "Loop": _loop,
    "Optional": _optional,
    "Scan": _scan,
    "SequenceConstruct": _construct,
    "SequenceEmpty": _empty_sequence,
    "SequenceMap": _sequence_map,
    "SplitToSequence": _split_to_sequence,
}
