# SPDX-License-Identifier: Apache-2.0
"""Convolutions and matrix products of quantised values as integer operators."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler.graph.graph import Array, Graph, Node, TensorType
from vdla.compiler.graph.integer.affine import (
    Float32,
    QuantisedWeight,
    activation,
    bias,
    bias_error,
    decline,
    multipliers,
    weight,
)
from vdla.compiler.graph.integer.result import QuantisedResult, sole
from vdla.compiler.graph.integer.windows import spatial, window_options
from vdla.compiler.graph.rewriting import Replacement, fresh_name


def fuse_conv(result: QuantisedResult, node: Node, added: str = "") -> Replacement:
    """vdla.QConv: x, weight int8 [CO, C / group, ...], bias int32 [CO]."""
    graph = result.graph
    sole(graph, node)
    x, factors = activation(graph, node.inputs[0]), weight(graph, node.inputs[1], 0)
    spatial(graph, node)
    attributes = {
        **window_options(graph, node, factors.values.shape[2:]),
        "group": int(node.attribute("group")),
        "x_zero_point": x.zero_point,
    }
    sums = _scales(x.scale, factors, len(factors.values))
    return _with_constants(result, node, "vdla.QConv", x.name, factors, sums, _bias_name(node, added), attributes)


def fuse_conv_transpose(result: QuantisedResult, node: Node, added: str = "") -> Replacement:
    """vdla.QConvTranspose: x, weight int8 [C, CO / group, ...], bias int32 [CO]."""
    graph = result.graph
    sole(graph, node)
    x, factors = activation(graph, node.inputs[0]), weight(graph, node.inputs[1], 1)
    kernel, group = factors.values.shape[2:], int(node.attribute("group"))
    if node.attribute("auto_pad") not in ("NOTSET", "VALID") or "output_shape" in node.attributes:
        decline("have explicit pads")
    attributes = {
        **window_options(graph, node, kernel),
        "output_padding": tuple(node.attributes.get("output_padding", (0,) * len(kernel))),
        "group": group,
        "x_zero_point": x.zero_point,
    }
    if group > 1 and factors.scale.size > 1:
        decline("have one weight scale, since a channel of the weight belongs to one output channel of each group")
    sums = _scales(x.scale, factors, factors.values.shape[1] * group)
    name = _bias_name(node, added)
    return _with_constants(result, node, "vdla.QConvTranspose", x.name, factors, sums, name, attributes)


def fuse_gemm(result: QuantisedResult, node: Node, added: str = "") -> Replacement:
    """vdla.QDense: x, weight int8 [N, K], bias int32 [N]."""
    graph, options = result.graph, node.attributes
    sole(graph, node)
    if options.get("transA", 0):
        decline("read its first operand without transposition, got transA")
    if float(options.get("alpha", 1.0)) != 1.0 or float(options.get("beta", 1.0)) != 1.0:
        decline("have an alpha and a beta of 1")
    transposed = bool(options.get("transB", 0))
    x, factors = activation(graph, node.inputs[0]), weight(graph, node.inputs[1], 0 if transposed else 1)
    if not transposed:
        factors = replace(factors, values=np.ascontiguousarray(factors.values.T))
    return _dense(result, node, x.name, x.scale, x.zero_point, factors, _bias_name(node, added))


def fuse_matmul(result: QuantisedResult, node: Node, added: str = "") -> Replacement:
    """vdla.QDense for a constant weight of two dimensions, else vdla.QMatMul."""
    graph = result.graph
    sole(graph, node)
    ranks = [len(graph.tensor(name).shape or ()) for name in node.inputs]
    if min(ranks) < 2:
        decline(f"multiply tensors of two or more dimensions, got {ranks}")
    source = graph.producers.get(node.inputs[1])
    if (
        source is not None
        and source.op == "DequantizeLinear"
        and graph.constant(source.inputs[0]) is not None
        and ranks[1] == 2
    ):
        x, factors = activation(graph, node.inputs[0]), weight(graph, node.inputs[1], 1)
        factors = replace(factors, values=np.ascontiguousarray(factors.values.T))
        return _dense(result, node, x.name, x.scale, x.zero_point, factors, added)
    if added:
        decline("have a constant weight, since a bias is added")
    a, b = (activation(graph, name) for name in node.inputs)
    depth = (graph.tensor(node.inputs[0]).shape or ())[-1]
    _check_sums((depth if isinstance(depth, int) else 1) * _reach(a.zero_point) * _reach(b.zero_point))
    attributes = {
        "a_zero_point": a.zero_point,
        "b_zero_point": b.zero_point,
        **multipliers(result.from_scale(a.scale * b.scale)),
    }
    return result.becomes("vdla.QMatMul", (a.name, b.name), attributes, (node,))


def fuse_biased(result: QuantisedResult, node: Node) -> Replacement | None:
    """A product plus a constant; None for other additions."""
    graph = result.graph
    for product, added in (node.inputs, node.inputs[::-1]):
        before = graph.producers.get(product)
        if before is None or before.op not in BIASED or len(before.inputs) > 2 or not is_bias(graph, added, before):
            continue
        if graph.readers(node.outputs[0]) != 1:
            decline("have a float result that only a QuantizeLinear reads")
        inner = replace(result, nodes=(node, *result.nodes))
        return BIASED[before.op](inner, before, added)
    return None


def is_bias(graph: Graph, name: str, product: Node) -> bool:
    """Whether a constant has one element for each output of a product."""
    shape = _constant_shape(graph, name)
    if shape is None:
        return False
    rank = len(graph.tensor(product.outputs[0]).shape or ())
    place = rank - 1 if product.op in ("MatMul", "Gemm") else 1
    full = (1,) * (rank - len(shape)) + shape
    return len(full) == rank and all(extent == 1 for d, extent in enumerate(full) if d != place)


def _constant_shape(graph: Graph, name: str) -> tuple[int, ...] | None:
    node = graph.producers.get(name)
    value = graph.constant(node.inputs[0] if node is not None and node.op == "DequantizeLinear" else name)
    return None if value is None else value.shape


BIASED = {"Conv": fuse_conv, "ConvTranspose": fuse_conv_transpose, "Gemm": fuse_gemm, "MatMul": fuse_matmul}


# --- parts ----------------------------------------------------------------------------------------


def _bias_name(node: Node, added: str) -> str:
    return added or (node.inputs[2] if len(node.inputs) > 2 else "")


def _scales(scale: np.float32, factors: QuantisedWeight, outputs: int) -> Float32:
    """The scale of the sums of each output."""
    return np.broadcast_to(np.asarray(scale * factors.scale, np.float32), (outputs,))


def _dense(
    result: QuantisedResult, node: Node, x: str, scale: np.float32, zero_point: int, factors: QuantisedWeight, name: str
) -> Replacement:
    sums = _scales(scale, factors, len(factors.values))
    return _with_constants(result, node, "vdla.QDense", x, factors, sums, name, {"x_zero_point": zero_point})


def _with_constants(
    result: QuantisedResult,
    node: Node,
    op: str,
    x: str,
    factors: QuantisedWeight,
    sums: Float32,
    bias_name: str,
    attributes: dict[str, Any],
) -> Replacement:
    graph = result.graph
    channel = 1 if op == "vdla.QConvTranspose" else 0
    finer = _for_bias(result, factors, sums, bias_name)
    factors, sums = replace(factors, values=factors.values * np.int16(finer)), sums / np.float32(finer)
    added = bias(graph, bias_name, sums, len(sums))
    _check_sums(_greatest(factors.values, added, attributes["x_zero_point"], channel))
    places, parts = in_int8(factors.values, 1 - channel, attributes.get("group", 1))
    x, extra = (x, Replacement()) if places is None else _gathered(result, x, places, 1 if op != "vdla.QDense" else -1)
    values: dict[str, Array] = {
        fresh_name(graph, f"{result.name}_weight"): parts,
        fresh_name(graph, f"{result.name}_bias"): added,
    }
    types = {name: TensorType(value.dtype.name, value.shape) for name, value in values.items()}
    made = Replacement(extra.nodes, {**extra.constants, **values}, {**extra.types, **types})
    return result.becomes(op, (x, *values), {**attributes, **multipliers(result.from_scale(sums))}, (node,), made)


_BIAS_ERROR = 1 / 256
"""Of a step of the result; how far its bias may be."""


def _for_bias(result: QuantisedResult, factors: QuantisedWeight, sums: Float32, name: str) -> int:
    """The power of two by which weights are multiplied, so that their sums have steps fine enough
    for the bias; 1 for weights that fill 8 bits.

    Weights of few bits have coarse sums, to whose steps a bias of another scale would be rounded.
    """
    room = 127 // max(1, int(np.abs(factors.values).max(initial=1)))
    finer = 1
    while 2 * finer <= room and _error(result, sums, name, finer) > _BIAS_ERROR:
        finer *= 2
    return finer


def _error(result: QuantisedResult, sums: Float32, name: str, finer: int) -> float:
    return bias_error(result.graph, name, sums / np.float32(finer), len(sums)) / float(result.scale)


def in_int8(
    values: npt.NDArray[np.int16], axis: int, group: int = 1
) -> tuple[npt.NDArray[np.int64] | None, npt.NDArray[np.int8]]:
    """A weight as one of int8 with further input channels along `axis`, and their places.

    A channel whose numbers leave int8 comes again with the rest of them, so that the sums are the
    same; with groups, all channels do. The places are None where none comes again.
    """
    parts = [np.clip(values, *_INT8)]
    while (remainder := values - sum(parts)).any():
        parts.append(np.clip(remainder, *_INT8))
    channels = np.moveaxis(np.stack(parts), 1 + axis, 0)  # channel, part, the other dimensions
    used = np.asarray(channels.any(axis=tuple(range(2, channels.ndim))) | (group > 1))
    used[:, 0] = True
    place, part = np.nonzero(used)
    made = np.moveaxis(channels[place, part], 0, axis).astype(np.int8)
    repeated = place if group == 1 or axis == 0 else np.repeat(np.arange(values.shape[axis] * group), len(parts))
    return (None if len(parts) == 1 else repeated), np.ascontiguousarray(made)


_INT8 = (-128, 127)


def _gathered(result: QuantisedResult, x: str, places: npt.NDArray[np.int64], axis: int) -> tuple[str, Replacement]:
    """The channels of x at these places."""
    graph = result.graph
    kind = graph.tensor(x)
    shape = list(kind.shape or ())
    shape[axis] = len(places)
    names = fresh_name(graph, f"{result.name}_channels"), fresh_name(graph, f"{result.name}_places")
    node = Node("Gather", (x, names[1]), names[:1], {"axis": axis % len(shape)})
    types = {names[0]: replace(kind, shape=tuple(shape)), names[1]: TensorType("int64", places.shape)}
    return names[0], Replacement((node,), {names[1]: places.astype(np.int64)}, types)


def _greatest(weight: npt.NDArray[np.int16], added: npt.NDArray[np.int32], x_zero_point: int, channel: int) -> int:
    """The greatest magnitude of a sum; `channel` is the dimension of the weight's outputs."""
    taps = np.abs(np.moveaxis(weight, channel, 0).astype(np.int64)).reshape(weight.shape[channel], -1)
    sums = taps.sum(axis=1) * _reach(x_zero_point)
    return int((np.abs(added.astype(np.int64)).reshape(-1, len(sums)) + sums).max(initial=0))


def _reach(zero_point: int) -> int:
    """The greatest distance of an int8 number from its zero point."""
    return max(127 - zero_point, zero_point + 128)


def _check_sums(greatest: int) -> None:
    """Refuses sums that could wrap; a saturated bias is at the limit itself."""
    if greatest >= 2**31 - 1:
        decline(f"have sums within int32, got up to {greatest}")
