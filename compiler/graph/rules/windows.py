"""Padding of convolutions and pools by `pads` or `auto_pad`."""

from __future__ import annotations

from collections.abc import Sequence

from vdla.compiler import operators
from vdla.compiler.graph.rules.rule import NodeCall


def spatial_options(call: NodeCall, rank: int) -> tuple[Sequence[int], Sequence[int]]:
    """Strides and dilations of `rank` spatial dimensions."""
    return tuple(call.attribute("strides", (1,) * rank)), tuple(call.attribute("dilations", (1,) * rank))


def pads_of(call: NodeCall, extents: Sequence[int], kernel_shape: Sequence[int]) -> Sequence[int]:
    """The padding before each spatial dimension, then after each."""
    auto = call.attribute("auto_pad", "NOTSET")
    strides, dilations = spatial_options(call, len(extents))
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        return operators.same_pads(extents, kernel_shape, strides, dilations, auto)
    none = (0,) * (2 * len(extents))
    return none if auto == "VALID" else tuple(call.attribute("pads", none))
