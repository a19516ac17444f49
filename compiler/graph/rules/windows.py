# SPDX-License-Identifier: Apache-2.0
"""Options of windows: strides, dilations, and padding by `pads` or `auto_pad`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vdla.compiler import te
from vdla.compiler.graph.graph import Attribute
from vdla.compiler.graph.rules.rule import NodeCall
from vdla.compiler.operators.checks import static_extents
from vdla.support.window import AUTO_PADS, window_of

WindowOptions = tuple[Sequence[int], Sequence[int], Sequence[int]]  # strides, pads, dilations


def spatial_options(call: NodeCall, rank: int) -> tuple[Sequence[int], Sequence[int]]:
    """Strides and dilations of `rank` spatial dimensions."""
    return tuple(call.attribute("strides", (1,) * rank)), tuple(call.attribute("dilations", (1,) * rank))


def window_options(
    attributes: Mapping[str, Attribute], extents: Sequence[te.Dim], kernel_shape: Sequence[int]
) -> WindowOptions:
    """The options in the attributes of a convolution or a pool.

    Raises:
        OperatorError: `auto_pad` needs an extent that is no number.
    """
    known = attributes.get("auto_pad") in AUTO_PADS
    size = static_extents("same_pads", "spatial extent", extents) if known else (0,) * len(extents)
    window = window_of(attributes, size, kernel_shape)
    return window.strides, window.pads, window.dilations
