# SPDX-License-Identifier: Apache-2.0
"""The accelerator call of one node: an operator with the layouts of its activations.

`MachineNode` has what all templates need: shapes, layouts, options of the results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import Parameter, signature
from math import prod
from typing import Any, NoReturn, TypeVar

import numpy as np

from vdla.compiler.graph.attributes import GraphError
from vdla.compiler.graph.graph import Array, Graph, Node, TensorType
from vdla.compiler.graph.machine.factor_layout import FactorLayout
from vdla.compiler.graph.machine.packing import Channels, InputLayout, PackedLayout, Patches
from vdla.compiler.graph.machine.row_results import RowResults
from vdla.compiler.operators.vdla import Operator, WrittenOperator
from vdla.compiler.operators.vdla.roles import DATA, OUTPUT
from vdla.hardware.config import Config


@dataclass(frozen=True, eq=False)
class OperatorCall:
    """An operator of the accelerator for one node.

    `inputs` has the value and the layout of each activation, `constants` the packed arrays of the
    other parameters; `output` is the layout of the result. Without an operator, the result is the
    concatenation of the inputs. `with_maker` is one call in place of this and of the one that
    computes its operand for no other reader. `kept` names the tensors that stay on the machine, and
    their parts, by those of the operator's program; `offsets` has the values of the graph that say
    where the parts are.
    """

    operator: Operator | WrittenOperator | None
    inputs: Mapping[str, tuple[str, InputLayout]]
    constants: Mapping[str, Array]
    output: PackedLayout | FactorLayout | RowResults
    with_maker: OperatorCall | None = None
    kept: Mapping[str, str] = field(default_factory=dict)
    offsets: Mapping[str, str] = field(default_factory=dict)

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
    def options(self) -> dict[str, Any]:
        """What the attributes of the node say, by the names of templates' options."""
        attributes = self.node.attributes
        options = {
            _OPTIONS.get(name, name): _of_image(name, value)
            for name, value in attributes.items()
            if name not in _UNBOUNDED or value != _UNBOUNDED[name]
        }
        if "a_zero_point" in attributes:
            options["input_zero_points"] = attributes["a_zero_point"], attributes["b_zero_point"]
        return options

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

    def activation(self, name: str, channels: Channels) -> PackedLayout:
        """The layout of an input."""
        return self._layout(channels, name, self.config.block_in)

    def channels(self, names: Sequence[str]) -> Channels:
        """The channel position of element-wise operands: that of the operand packed last."""
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
        value = self.graph.constant(self.node.inputs[index])
        if value is None:
            decline("have constant weights")
        return value

    @property
    def weight(self) -> Array:
        """The constant weights of a product, whose kernel has two dimensions."""
        weight = self.constant(1)
        return weight.reshape(*weight.shape[:2], *_of_image("kernel_shape", weight.shape[2:]))

    @property
    def multiplier(self) -> Array | float:
        """The real multipliers of the requantisation: one for each channel, or one for all; 1 where
        the node requantises nothing.
        """
        if "multiplier" not in self.node.attributes:
            return 1.0
        mantissas, shifts = self.node.attributes["multiplier"], self.node.attributes["shift"]
        factors = np.asarray(np.ldexp(mantissas.astype(np.float64), -shifts))
        return factors if len(factors) > 1 else float(factors[0])


_OPTIONS = {
    "group": "groups",
    "high": "ceiling",
    "kernel_shape": "kernel",
    "low": "floor",
    "x_zero_point": "input_zero_point",
    "y_zero_point": "zero_point",
}
"""Options of templates whose names are not those of the attributes."""
_UNBOUNDED = {"low": -128, "high": 127}
_NEUTRAL = {"kernel_shape": 1, "strides": 1, "dilations": 1, "pads": 0, "output_padding": 0}
"""Attributes of windows, and their values along an axis that the image lacks."""


def _of_image(name: str, value: Any) -> Any:  # noqa: ANN401  an attribute
    """An attribute, which for windows of images of one dimension becomes that for two."""
    if name not in _NEUTRAL:
        return value
    axes = len(value) // 2 if name == "pads" else len(value)
    lacking = (_NEUTRAL[name],) * (2 - axes)
    return (*lacking, *value[:axes], *(lacking if name == "pads" else ()), *value[axes:])


# --- calls ----------------------------------------------------------------------------------------


def template_call(
    at: MachineNode,
    template: Callable[..., Operator],
    data: tuple[str, PackedLayout],
    output: PackedLayout,
    *,
    operands: Mapping[str, tuple[str, InputLayout]] | None = None,
    constants: Mapping[str, Array] | None = None,
    **given: Any,  # noqa: ANN401  options of the template
) -> OperatorCall:
    """The call of a template, with those of its options that are given, extents or attributes.

    `data` is the value and the layout of the first activation, `operands` has those of the other
    parameters, and `constants` what the operator packs beside the multiplier.
    """
    value, image = data
    batch, channels, height, width = image.image
    image_extents = {"batch": batch, "height": height, "width": width}
    channel_counts = {"channels": channels, "in_channels": channels, "out_channels": output.image[1]}
    known = {**image_extents, **channel_counts, "chained": True, **at.options, **given}
    options = {name: option for name, option in signature(template).parameters.items() if name in known}
    operator = template(at.config, **{name: _typed(option, known[name]) for name, option in options.items()})
    if (window := operator.layouts[DATA].patches) is not None:
        shape = (batch, prod(window.taps) * channels, *output.image[2:])
        image = replace(image, shape=shape, conversion=Patches(window, known["input_zero_point"]))
    inputs = {DATA: (value, image), **(operands or {})}
    packed = operator.pack_constants(**(constants or {}), multiplier=at.multiplier)
    return OperatorCall(
        operator=operator,
        inputs={name: (value, _blocked(operator, name, layout)) for name, (value, layout) in inputs.items()},
        constants={name: array for name, array in packed.items() if name not in inputs},
        output=_blocked(operator, OUTPUT, output),
    )


def _typed(option: Parameter, value: Any) -> Any:  # noqa: ANN401  of any option
    """The value of an attribute for an option: ONNX has no flags, but integers."""
    return bool(value) if isinstance(option.default, bool) else value


Layout = TypeVar("Layout", bound=InputLayout)


def _blocked(operator: Operator, parameter: str, layout: Layout) -> Layout:
    """The layout in the blocks of a parameter of the operator's function."""
    dims = operator.shapes[parameter]
    blocked = replace(layout, block=dims[-1]) if isinstance(layout, PackedLayout) else layout
    if operator.layouts[parameter].gaps or prod(blocked.packed_shape) != prod(dims):
        decline(f"have channels that fill their blocks without gaps, got {list(dims)} for {list(layout.shape)}")
    return blocked


# --- refusals -------------------------------------------------------------------------------------


class NotAcceleratedError(GraphError):
    """A node without a template on the accelerator; the message says what it must do."""


def decline(rule: str) -> NoReturn:
    """Refuses a node; `rule` reads after "must"."""
    raise NotAcceleratedError(rule)
