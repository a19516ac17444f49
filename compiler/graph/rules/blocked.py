"""Rules of operators on images in blocks of channels, [N, C / lanes, H, W, lanes].

The last block may be padded; lanes of padding channels hold any values.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from vdla.compiler import operators, te
from vdla.compiler.graph.rules.blocked_plan import BLOCKED_RANK, PLANE, blocked_plan, image_layout
from vdla.compiler.graph.rules.conv_layouts import is_laid_out, laid_out_conv
from vdla.compiler.graph.rules.rule import FusionClass, NodeCall, OperatorRule
from vdla.compiler.graph.rules.windows import window_options


def _to_blocked(call: NodeCall) -> te.Tensor:
    return operators.to_blocked(call.tensor(0), call.attribute("lanes"), name=call.name())


def _from_blocked(call: NodeCall) -> te.Tensor:
    return operators.from_blocked(call.tensor(0), call.attribute("channels"), name=call.name())


def _conv(call: NodeCall) -> te.Tensor:
    """A convolution of an image in either layout; into blocks if it has `lanes`."""
    if is_laid_out(call):
        return laid_out_conv(call)
    x, weight, bias = call.tensor(0), call.constant(1, "weight"), call.constant(2, "bias")
    if weight is None:
        call.decline("have a weight")
    plan = blocked_plan(
        call.node.attributes,
        (x.shape[0], weight.shape[1] * call.attribute("group", 1), *x.shape[PLANE]),
        weight.shape,
        x.dtype,
        call.target,
        lanes=x.shape[-1] if len(x.shape) == BLOCKED_RANK else None,
        into_blocks=bool(call.attribute("lanes", 0)),
    )
    added = None if bias is None else call.pack("bias", plan.pack_bias(bias))
    return plan.apply(x, call.pack("weight", plan.pack(weight)), added, call.name())


# --- pools ----------------------------------------------------------------------------------------


def _windowed(call: NodeCall, function: Callable[..., te.Tensor]) -> partial[te.Tensor]:
    """A pooling function with the options of a node."""
    x, kernel = call.tensor(0), tuple(call.attribute("kernel_shape"))
    options = window_options(call.node.attributes, x.shape[PLANE], kernel)
    rounds_up = bool(call.attribute("ceil_mode", 0))
    return partial(function, x, kernel, *options, rounds_up, layout=image_layout(x), name=call.name())


def _max_pool(call: NodeCall) -> te.Tensor:
    return _windowed(call, operators.max_pool)()


def _average_pool(call: NodeCall) -> te.Tensor:
    include = bool(call.attribute("count_include_pad", 0))
    return _windowed(call, operators.average_pool)(count_include_pad=include)


def _global_average_pool(call: NodeCall) -> te.Tensor:
    """The mean of each channel, a plain image."""
    x = call.tensor(0)
    return operators.global_average_pool(x, image_layout(x), call.attribute("channels"), call.name())


BLOCKED = (
    OperatorRule("vdla.ToBlocked", FusionClass.INJECTIVE, _to_blocked),
    OperatorRule("vdla.FromBlocked", FusionClass.INJECTIVE, _from_blocked),
    OperatorRule("vdla.BlockedConv", FusionClass.COMPLEX, _conv),
    OperatorRule("vdla.BlockedMaxPool", FusionClass.REDUCTION, _max_pool),
    OperatorRule("vdla.BlockedAveragePool", FusionClass.REDUCTION, _average_pool),
    OperatorRule("vdla.BlockedGlobalAveragePool", FusionClass.REDUCTION, _global_average_pool),
)
