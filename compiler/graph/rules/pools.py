# SPDX-License-Identifier: Apache-2.0
"""Rules of pooling, of plain images and of those in blocks of channels."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from vdla.compiler import operators, te
from vdla.compiler.graph.rules.rule import NodeCall
from vdla.compiler.graph.rules.windows import window_options

_Pool = Callable[..., te.Tensor]


def _windowed(call: NodeCall, function: _Pool) -> _Pool:
    """A pooling function with the options of a node."""
    x, kernel = call.tensor(0), tuple(call.attribute("kernel_shape"))
    strides, pads, dilations = window_options(call.node.attributes, call.input_type().extents[2:], kernel)
    rounds_up = bool(call.attribute("ceil_mode", 0))
    return partial(function, x, kernel, strides=strides, pads=pads, dilations=dilations, ceil_mode=rounds_up)


def max_pool(call: NodeCall) -> tuple[te.Tensor, ...]:
    """The rule of MaxPool."""
    largest = _windowed(call, operators.max_pool)(layout=call.input_type().layout, name=call.name())
    if not call.wants(1):
        return (largest,)
    indices = _windowed(call, operators.max_pool_indices)
    if not call.attribute("storage_order", 0):
        return largest, indices(name=call.name(1))
    return largest, _column_major(call, indices(name=f"{call.name(1)}_row_major"))


def _column_major(call: NodeCall, indices: te.Tensor) -> te.Tensor:
    """Positions in images whose first spatial dimension is the fastest."""
    extents = call.tensor(0).shape[2:]

    def value(v: te.Value) -> te.Value:
        size = math.prod(extents)
        place, total, below = v % size, v // size * size, 1
        above = size
        for extent in extents:
            above //= extent
            total = total + place // above % extent * below
            below *= extent
        return total

    return operators.elementwise(indices, value, call.name(1))


def average_pool(call: NodeCall) -> te.Tensor:
    """The rule of AveragePool."""
    layout, include = call.input_type().layout, bool(call.attribute("count_include_pad", 0))
    return _windowed(call, operators.average_pool)(count_include_pad=include, layout=layout, name=call.name())


def global_average_pool(call: NodeCall) -> te.Tensor:
    """The mean of each channel; that of blocks is a plain image."""
    kind = call.input_type()
    channels = kind.extents[1] if kind.lanes else None
    return operators.global_average_pool(call.tensor(0), kind.layout, channels, call.name())


def lp_pool(call: NodeCall) -> te.Tensor:
    """The rule of LpPool."""
    return _windowed(call, operators.lp_pool)(p=call.attribute("p", 2), name=call.name())
