"""Options of windows: strides, dilations, and padding by `pads` or `auto_pad`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vdla.compiler import operators
from vdla.compiler.graph.graph import Attribute
from vdla.compiler.graph.rules.rule import NodeCall

WindowOptions = tuple[Sequence[int], Sequence[int], Sequence[int]]  # strides, pads, dilations


def spatial_options(call: NodeCall, rank: int) -> tuple[Sequence[int], Sequence[int]]:
    """Strides and dilations of `rank` spatial dimensions."""
    return tuple(call.attribute("strides", (1,) * rank)), tuple(call.attribute("dilations", (1,) * rank))


def pads_of(call: NodeCall, extents: Sequence[int], kernel_shape: Sequence[int]) -> Sequence[int]:
    """The padding before each spatial dimension, then after each."""
    return window_options(call.node.attributes, extents, kernel_shape)[1]


def window_options(
    attributes: Mapping[str, Attribute], extents: Sequence[int], kernel_shape: Sequence[int]
) -> WindowOptions:
    """The options in the attributes of a convolution or a pool."""
    ones, none = (1,) * len(extents), (0,) * (2 * len(extents))
    strides, dilations = tuple(attributes.get("strides", ones)), tuple(attributes.get("dilations", ones))
    auto = attributes.get("auto_pad", "NOTSET")
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        return strides, operators.same_pads(extents, kernel_shape, strides, dilations, auto), dilations
    return strides, none if auto == "VALID" else tuple(attributes.get("pads", none)), dilations
