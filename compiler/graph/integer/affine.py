# SPDX-License-Identifier: Apache-2.0
"""Quantised values of a graph: their scales and zero points by QuantizeLinear and DequantizeLinear.

q stands for (q - zero_point) * scale. Activations are int8 with one float32 scale and one zero
point; weights have one scale, or one for each output channel, and no zero point.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from vdla.compiler.graph.attributes import GraphError
from vdla.compiler.graph.graph import Array, Graph, Node
from vdla.compiler.graph.integer.common_scale import MOST_FACTOR, common_scale
from vdla.hardware.numerics import NumericsError, scales_from_floats

Float32 = npt.NDArray[np.float32]


class NotIntegerError(GraphError):
    """Nodes that cannot become an integer operator; the message says what they must do."""


def decline(rule: str) -> NoReturn:
    """Refuses a pattern; `rule` reads after "must"."""
    raise NotIntegerError(rule)


@dataclass(frozen=True, slots=True)
class QuantisedActivation:
    """An int8 value with its scale and zero point."""

    name: str
    scale: np.float32
    zero_point: int


@dataclass(frozen=True, slots=True)
class QuantisedWeight:
    """Integers less their zero point in the layout of the operator, with one scale or one for each
    of its outputs. Those of 8 bits with a zero point may need 9.
    """

    values: npt.NDArray[np.int16]
    scale: Float32


@dataclass(frozen=True, slots=True)
class QuantisationParameters:
    """The scale and the zero point of a QuantizeLinear or DequantizeLinear, per tensor or axis."""

    scale: Float32
    zero_point: npt.NDArray[np.int64]
    axis: int

    @property
    def per_tensor(self) -> bool:
        """Whether one scale holds for all elements."""
        return self.scale.size == 1


def parameters(graph: Graph, node: Node) -> QuantisationParameters | None:
    """The parameters of a node; None if they are not constant, or belong to blocks."""
    scale = graph.constant(node.inputs[1])
    if scale is None or scale.dtype != np.float32 or scale.ndim > 1 or node.attribute("block_size"):
        return None
    if not (np.isfinite(scale) & (scale > 0)).all():
        return None
    given = node.inputs[2] if len(node.inputs) > 2 else ""
    zero_point = graph.constant(given) if given else np.zeros(scale.shape, np.int64)
    if zero_point is None or zero_point.size not in (1, scale.size):
        return None
    if graph.tensor(given or _integer_side(node)).dtype not in _INTEGERS:
        return None
    zero_points = np.broadcast_to(zero_point.reshape(-1).astype(np.int64), scale.size)
    return QuantisationParameters(scale.reshape(-1), zero_points, int(node.attribute("axis")))


_INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "int4", "uint4", "int2", "uint2")


def _integer_side(node: Node) -> str:
    return node.inputs[0] if node.op == "DequantizeLinear" else node.outputs[0]


def activation(graph: Graph, name: str) -> QuantisedActivation:
    """The int8 input of the DequantizeLinear that computes a float value."""
    node = graph.producers.get(name)
    if node is None or node.op != "DequantizeLinear":
        decline(f"read quantised values, got {name}")
    quantisation = parameters(graph, node)
    if quantisation is None or not quantisation.per_tensor:
        decline(f"read values of one constant scale, got {name}")
    dtype = graph.tensor(node.inputs[0]).dtype
    if dtype != "int8":
        decline(f"read activations of 8 bits, got {dtype} for {name}")
    return QuantisedActivation(node.inputs[0], quantisation.scale[0], int(quantisation.zero_point[0]))


def weight(graph: Graph, name: str, axis: int) -> QuantisedWeight:
    """A constant weight that a DequantizeLinear computes, with scales along `axis`."""
    node = graph.producers.get(name)
    values = graph.constant(node.inputs[0]) if node is not None and node.op == "DequantizeLinear" else None
    if node is None or values is None:
        decline(f"have a constant quantised weight, got {name}")
    if node.attribute("block_size"):
        return _blocked_weight(graph, node, values, axis)
    quantisation = parameters(graph, node)
    if quantisation is None:
        decline(f"have a weight of constant scales, per tensor or channel, got {name}")
    rank = values.ndim
    if not quantisation.per_tensor and quantisation.axis % rank != axis % rank:
        decline(f"have weight scales along axis {axis % rank}, got {quantisation.axis % rank}")
    sides = [1] * rank
    sides[axis] = -1
    centred = values.astype(np.int64) - quantisation.zero_point.reshape(sides)
    if centred.size and (centred.min() < -_FAR or centred.max() > _FAR):
        decline(f"have a weight of at most 8 bits, got {values.dtype}")
    return QuantisedWeight(centred.astype(np.int16), quantisation.scale)


def _blocked_weight(graph: Graph, node: Node, values: Array, axis: int) -> QuantisedWeight:
    """A weight with scales of blocks of inputs that are multiples of one scale for each output."""
    scales, size = graph.constant(node.inputs[1]), int(node.attribute("block_size"))
    inputs = int(node.attribute("axis")) % values.ndim
    known = scales is not None and scales.dtype == np.float32 and (scales > 0).all()
    if values.ndim != 2 or axis % 2 == inputs or scales is None or not known:
        decline("have a weight of two dimensions with constant scales of blocks of its inputs")
    common = common_scale(np.moveaxis(scales, inputs, 0))
    if common is None:
        decline(f"have scales of blocks that are an output's scale times 1 to {MOST_FACTOR}, got others")
    scale, factors = common

    def of_inputs(blocks: Array) -> Array:
        return np.repeat(blocks, size, inputs).take(range(values.shape[inputs]), inputs)

    given = node.inputs[2] if len(node.inputs) > 2 else ""
    zeros = graph.constant(given) if given else None
    if given and zeros is None:
        decline("have constant zero points")
    centred = values.astype(np.int64) - (0 if zeros is None else of_inputs(zeros.astype(np.int64)))
    whole = centred * of_inputs(np.moveaxis(factors, 0, inputs))
    if whole.size and np.abs(whole).max() > _FAR:
        decline(f"have a weight of at most 8 bits, scales of blocks included, got {np.abs(whole).max()}")
    return QuantisedWeight(whole.astype(np.int16), scale)


_FAR = 255  # the greatest distance of 8 bits from their zero point


def bias(graph: Graph, name: str, scale: Float32, outputs: int) -> npt.NDArray[np.int32]:
    """A constant bias as int32 in the scale of the sums; zeros if the name is empty.

    Another scale, or a float bias, is quantised as QuantizeLinear does.
    """
    values, exact = _bias(graph, name, scale, outputs)
    return quantise_bias(values, scale) if exact is None else exact


def bias_error(graph: Graph, name: str, scale: Float32, outputs: int) -> float:
    """How far a constant bias is from what `bias` makes of it, in real numbers."""
    values, exact = _bias(graph, name, scale, outputs)
    if exact is not None:
        return 0.0
    return float(np.abs(values - quantise_bias(values, scale) * scale.astype(np.float64)).max(initial=0.0))


def _bias(graph: Graph, name: str, scale: Float32, outputs: int) -> tuple[Array, npt.NDArray[np.int32] | None]:
    """A constant bias in real numbers, and its integers if they are of the scale."""
    if not name:
        return np.zeros(outputs, np.float32), np.zeros(outputs, np.int32)
    node = graph.producers.get(name)
    if node is None or node.op != "DequantizeLinear":
        return _vector(graph.constant(name), name, outputs), None
    values, quantisation = graph.constant(node.inputs[0]), parameters(graph, node)
    if values is None or quantisation is None:
        decline(f"have a constant bias, got {name}")
    flat = _vector(values, name, outputs).astype(np.int64)
    real = ((flat - quantisation.zero_point) * quantisation.scale).astype(np.float32)
    of_sums = not quantisation.zero_point.any() and bool((quantisation.scale == scale).all())
    return real, flat.astype(np.int32) if values.dtype == np.int32 and of_sums else None


def _vector(values: Array | None, name: str, outputs: int) -> Array:
    if values is None:
        decline(f"have a constant bias, got {name}")
    if values.size not in (1, outputs) or max(values.shape, default=1) != values.size:
        decline(f"have a bias of one number for each of {outputs} outputs, got shape {list(values.shape)}")
    return np.broadcast_to(values.reshape(-1), (outputs,))


def quantise_bias(values: Array, scale: Float32) -> npt.NDArray[np.int32]:
    """`values` / `scale`, rounded half to even, saturated."""
    quotients = np.rint(values.astype(np.float32) / scale).astype(np.float64)
    return np.asarray(np.clip(quotients, -(2**31), 2**31 - 1), np.int32)


def quantise(values: Array, scale: np.float32, zero_point: int) -> npt.NDArray[np.int8]:
    """Float32 values as QuantizeLinear makes them."""
    return np.asarray(np.clip(np.rint(values.astype(np.float32) / scale) + zero_point, -128, 127).astype(np.int8))


# --- factors --------------------------------------------------------------------------------------


def multipliers(factors: Array | np.floating) -> dict[str, Array]:
    """The attributes `multiplier` and `shift` of real factors, one for all or for each channel."""
    try:
        multiplier, shift = scales_from_floats(np.atleast_1d(np.asarray(factors, np.float64)))
    except NumericsError:
        decline(f"rescale by less than 2**24, got {np.max(factors)}")
    return {"multiplier": multiplier, "shift": shift}
