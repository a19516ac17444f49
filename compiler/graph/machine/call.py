# SPDX-License-Identifier: Apache-2.0
"""What the accelerator does for one node: an operator with the layouts of its activations.

`MachineNode` has what the operators of all nodes need: shapes, layouts, options of the results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NoReturn, TypeVar

import numpy as np

from vdla.compiler.graph.attributes import GraphError
from vdla.compiler.graph.graph import Array, Graph, Node, TensorType
from vdla.compiler.graph.machine.packing import Channels, InputLayout, PackedLayout
from vdla.compiler.operators.vdla import Operator
from vdla.compiler.operators.vdla.roles import OUTPUT
from vdla.hardware.config import Config

_LOW, _HIGH = -128, 127


@dataclass(frozen=True, eq=False)
class OperatorCall:
    """An operator of the accelerator for one node.

    `inputs` has value and layout of each parameter that is an activation, `constants` the packed
    arrays of the others; `output` is the layout of the result. Without an operator, the inputs are
    the parts of the result. `with_maker` is the same as one operator with the one that makes its
    operand for nobody else.
    """

    operator: Operator | None
    inputs: Mapping[str, tuple[str, InputLayout]]
    constants: Mapping[str, Array]
    output: PackedLayout
    with_maker: OperatorCall | None = None

    @property
    def macs(self) -> int:
        """The multiply-accumulates of the operator, without padding."""
        return 0 if self.operator is None else self.operator.macs


@dataclass(frozen=True, slots=True)
class MachineNode:
    """A node and the machine that it is to run on."""

    graph: Graph
    node: Node
    config: Config
    made: Mapping[str, PackedLayout]

    @property
    def options(self) -> Mapping[str, Any]:
        """The attributes of the node."""
        return self.node.attributes

    def shape(self, name: str) -> tuple[int, ...]:
        """The extents of an int8 tensor."""
        kind = self.graph.types[name]
        if not isinstance(kind, TensorType) or not kind.static:
            decline(f"have known extents, got {kind}")
        if kind.dtype != self.config.inp_dtype:
            decline(f"have the machine's activations, {self.config.inp_dtype}, got {kind.dtype}")
        if 0 in kind.extents:
            decline("have at least one element")
        return kind.extents

    def image(self, name: str) -> PackedLayout:
        """The layout of an input whose channels are dimension 1."""
        return self._layout(Channels.IMAGE, name, self.config.block_in)

    def rows(self, name: str) -> PackedLayout:
        """The layout of an input whose channels are its last dimension."""
        return self._layout(Channels.ROWS, name, self.config.block_in)

    def activation(self, name: str, channels: Channels) -> PackedLayout:
        """The layout of an input of an element-wise operator."""
        return self._layout(channels, name, self.config.block_in)

    def channels(self, names: Sequence[str]) -> Channels:
        """Where the channels of element-wise operands are: as in the one that is packed last."""
        packed = [layout.channels for name, layout in self.made.items() if name in names]
        return packed[-1] if packed else Channels.IMAGE

    def result(self, channels: Channels) -> PackedLayout:
        """The layout of the result."""
        return self._layout(channels, self.node.outputs[0], self.config.block_out)

    def _layout(self, channels: Channels, name: str, block: int) -> PackedLayout:
        shape = self.shape(name)
        if channels is Channels.IMAGE and len(shape) < 2:
            decline(f"have a batch and channels, got {list(shape)}")
        if channels is Channels.IMAGE and len(shape) > 4:
            decline(f"read an image of one or two dimensions, got {len(shape) - 2}")
        return PackedLayout(channels, shape, self.config.batch, block)

    def constant(self, index: int) -> Array:
        """A constant input."""
        found = self.graph.constant(self.node.inputs[index])
        if found is None:
            decline("have constant weights")
        return found

    @property
    def multiplier(self) -> Array:
        """The real multipliers of the requantisation."""
        return np.asarray(np.ldexp(self.options["multiplier"].astype(np.float64), -self.options["shift"]))

    @property
    def results(self) -> dict[str, Any]:
        """The options of a template that say what becomes of the sums."""
        low, high, zero = self.options["low"], self.options["high"], self.options["y_zero_point"]
        options: dict[str, Any] = {"zero_point": zero}
        if low != _LOW:
            options["floor"] = low
        if high != _HIGH:
            options["ceiling"] = high
        return options

    def kernel(self, extents: tuple[int, ...]) -> tuple[int, int]:
        """A kernel of one or two dimensions as one of two."""
        height, width = (1, *extents)[-2:]
        return height, width

    def window(self, rank: int) -> dict[str, Any]:
        """Strides, pads and dilations of images of `rank` dimensions, as a template takes them."""
        missing = 2 - rank
        strides, dilations = ((1,) * missing + tuple(self.options[key]) for key in ("strides", "dilations"))
        begin, end = self.options["pads"][:rank], self.options["pads"][rank:]
        pads = (*(0,) * missing, *begin, *(0,) * missing, *end)
        return {"strides": strides, "pads": pads, "dilations": dilations}


def made(
    operator: Operator,
    inputs: Mapping[str, tuple[str, InputLayout]],
    constants: Mapping[str, Array],
    output: PackedLayout,
) -> OperatorCall:
    """The call, with the blocks that each parameter of the operator's function has."""
    blocked = {p: (value, _blocked(operator, p, layout)) for p, (value, layout) in inputs.items()}
    result = _blocked(operator, OUTPUT, output)
    return OperatorCall(operator, blocked, constants, result)


Layout = TypeVar("Layout", bound=InputLayout)


def _blocked(operator: Operator, parameter: str, layout: Layout) -> Layout:
    """The layout in the blocks of a parameter of the operator's function."""
    dims = operator.function.buffers[parameter].dims
    found = replace(layout, block=dims[-1]) if isinstance(layout, PackedLayout) else layout
    if operator.layouts[parameter].gaps or prod(found.packed_shape) != prod(dims):
        decline(f"have channels that fill their blocks without gaps, got {list(dims)} for {list(layout.shape)}")
    return found


# --- refusals -------------------------------------------------------------------------------------


class NotAcceleratedError(GraphError):
    """A node that no template of the accelerator computes; the message says what it must do."""


def decline(rule: str) -> NoReturn:
    """Refuses a node; `rule` reads after "must"."""
    raise NotAcceleratedError(rule)
