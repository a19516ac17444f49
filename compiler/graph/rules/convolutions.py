"""Rules of convolutions: 1-D ones are two-dimensional with one row."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from vdla.compiler import operators, te
from vdla.compiler.graph.graph import Array
from vdla.compiler.graph.rules.rule import FusionClass, NodeCall, OperatorRule
from vdla.compiler.graph.rules.windows import pads_of, spatial_options

_PLANE = 2  # spatial dimensions of the fast forms


def _conv(call: NodeCall) -> te.Tensor:
    return convolve(call, call.tensor(0), call.tensor(1), call.optional(2), call.name())


def convolve(call: NodeCall, x: te.Tensor, weight: te.Tensor, bias: te.Tensor | None, name: str) -> te.Tensor:
    """A convolution with the options of a node."""
    kernel, groups = weight.shape[2:], call.attribute("group", 1)
    strides, dilations = spatial_options(call, len(kernel))
    pads = pads_of(call, x.shape[2:], kernel)
    known = call.constants[1] if weight is call.tensor(1) else None
    if len(kernel) == _PLANE:
        return _plane(call, x, weight, known, bias, strides, pads, dilations, groups)(name=name)
    if len(kernel) > _PLANE:
        return operators.convolution(x, weight, bias, strides, pads, dilations, groups, name=name)
    row, taps = (operators.unsqueeze(t, 2, name=f"{name}_{what}") for t, what in ((x, "row"), (weight, "taps")))
    known = None if known is None else known[:, :, None]
    flat = _plane(call, row, taps, known, bias, (1, *strides), (0, pads[0], 0, pads[1]), (1, *dilations), groups)
    return operators.squeeze(flat(name=f"{name}_plane"), 2, name=name)


def _plane(
    call: NodeCall,
    x: te.Tensor,
    weight: te.Tensor,
    known: Array | None,
    bias: te.Tensor | None,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    groups: int,
) -> partial[te.Tensor]:
    """A two-dimensional convolution, which lacks only its name; `known` is a constant weight."""
    if groups == x.shape[1] and weight.shape[1] == 1 and groups > 1:
        return partial(operators.depthwise_conv2d, x, weight, bias, strides, pads, dilations)
    if known is not None:
        plan = operators.plan_convolution(
            x.shape, weight.shape, strides, pads, dilations, groups, weight.dtype, call.target
        )
        return partial(plan.apply, x, call.pack("weight", plan.pack(known)), bias)
    return partial(operators.conv2d, x, weight, bias, strides, pads, dilations, groups, target=call.target)


def _conv_transpose(call: NodeCall) -> te.Tensor:
    x, weight = call.tensor(0), call.tensor(1)
    kernel, result = weight.shape[2:], call.extents[2:]
    strides, dilations = spatial_options(call, len(kernel))
    pads, extra = _transposed_pads(call, x.shape[2:], kernel, result)
    groups = call.attribute("group", 1)
    return operators.conv_transpose(
        x, weight, call.optional(2), strides, pads, extra, dilations, groups, name=call.name()
    )


def _transposed_pads(
    call: NodeCall, extents: Sequence[int], kernel: Sequence[int], result: Sequence[int]
) -> tuple[Sequence[int], Sequence[int]]:
    """Padding and output padding: those of the attributes, or such that the result is as large as
    it is.
    """
    rank, auto = len(kernel), call.attribute("auto_pad", "NOTSET")
    none, extra = (0,) * (2 * rank), tuple(call.attribute("output_padding", (0,) * rank))
    if auto == "NOTSET" and "output_shape" not in call.node.attributes:
        return tuple(call.attribute("pads", none)), extra
    if auto == "VALID":
        return none, extra
    strides, dilations = spatial_options(call, rank)
    before, after, added = [], [], []
    for d in range(rank):
        total = strides[d] * (extents[d] - 1) + extra[d] + (kernel[d] - 1) * dilations[d] + 1 - result[d]
        cut = max(total, 0)
        half = cut // 2 if auto == "SAME_UPPER" else cut - cut // 2
        before.append(half)
        after.append(cut - half)
        added.append(extra[d] + cut - total)
    return (*before, *after), added


CONVOLUTIONS = (
    OperatorRule("Conv", FusionClass.COMPLEX, _conv),
    OperatorRule("ConvTranspose", FusionClass.COMPLEX, _conv_transpose),
)
