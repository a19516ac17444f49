"""The plan of a node that is a convolution of an image in either layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vdla.compiler import operators, te
from vdla.compiler.graph.graph import Attribute
from vdla.compiler.graph.rules.algorithm import ALGORITHM, LANES
from vdla.compiler.graph.rules.windows import window_options
from vdla.compiler.target import Target

PLANE = slice(2, 4)
"""The spatial dimensions of an image, also of one in blocks."""
BLOCKED_RANK = 5
"""The dimensions of an image in blocks."""


def image_layout(x: te.Tensor) -> str:
    """The layout of an image of two spatial dimensions, plain or in blocks."""
    return "NCHW" if len(x.shape) < BLOCKED_RANK else f"NCHW{x.shape[-1]}c"


def blocked_plan(
    attributes: Mapping[str, Attribute],
    x_shape: Sequence[int],
    weight_shape: Sequence[int],
    dtype: str,
    target: Target,
    *,
    lanes: int | None,
    into_blocks: bool,
) -> operators.ConvolutionPlan:
    """The plan of a convolution with a node's options; `lanes` are those of x, None if it is plain.

    `x_shape` is that of the plain image.

    Raises:
        OperatorError: the algorithm that a node asks for does not apply.
    """
    strides, pads, dilations = window_options(attributes, x_shape[PLANE], weight_shape[PLANE])
    return operators.plan_convolution(
        x_shape,
        weight_shape,
        strides,
        pads,
        dilations,
        attributes.get("group", 1),
        dtype,
        target,
        attributes.get(ALGORITHM),
        layout="NCHW" if lanes is None else f"NCHW{lanes}c",
        result_layout="blocks" if into_blocks else "NCHW",
        weight_lanes=attributes.get(LANES),
    )
