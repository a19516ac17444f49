"""Integer operators of a graph as operators of the accelerator.

`operator_call(graph, node, config)` applies the template of a node's operator. The arithmetic of
both is the same (`runtime/numpy_operators/integer.py`), so that results do not depend on which
nodes run where.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from vdla.compiler.graph.accelerator.errors import NotAcceleratedError, decline
from vdla.compiler.graph.accelerator.packing import Channels, PackedLayout, PatchWindow
from vdla.compiler.graph.graph import Array, Graph, Node, TensorType
from vdla.compiler.operators import vdla as templates
from vdla.compiler.operators.vdla import Operator, TemplateError
from vdla.compiler.operators.vdla.roles import OUTPUT
from vdla.hardware.config import Config
from vdla.hardware.numerics import NumericsError

_LOW, _HIGH = -128, 127
_MOVEMENTS = (
    "Concat",
    "Expand",
    "Flatten",
    "Gather",
    "Pad",
    "Reshape",
    "Slice",
    "Split",
    "Squeeze",
    "Transpose",
    "Unsqueeze",
)


@dataclass(frozen=True, eq=False)
class OperatorCall:
    """An operator of the accelerator for one node.

    `inputs` has value and layout of each parameter that is an activation, `constants` the packed
    arrays of the others; `output` is the layout of the result.
    """

    operator: Operator
    inputs: Mapping[str, tuple[str, PackedLayout]]
    constants: Mapping[str, Array]
    output: PackedLayout


@dataclass(frozen=True, slots=True)
class _Machine:
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
        shape = self.shape(name)
        if not 2 <= len(shape) <= 4:
            decline(f"read an image of one or two dimensions, got {len(shape) - 2}")
        return PackedLayout(Channels.IMAGE, shape, self.config.batch, self.config.block_in)

    def rows(self, name: str) -> PackedLayout:
        """The layout of an input whose channels are its last dimension."""
        return PackedLayout(Channels.ROWS, self.shape(name), self.config.batch, self.config.block_in)

    def activation(self, name: str, channels: Channels) -> PackedLayout:
        """The layout of an input of an element-wise operator."""
        return self.rows(name) if channels is Channels.ROWS else self.image(name)

    def channels(self, names: Sequence[str]) -> Channels:
        """Where the channels of element-wise operands are: as in one that is packed before."""
        made = [self.made[name].channels for name in names if name in self.made]
        return made[0] if made else Channels.IMAGE

    def result(self, channels: Channels) -> PackedLayout:
        """The layout of the result."""
        shape = self.shape(self.node.outputs[0])
        return PackedLayout(channels, shape, self.config.batch, self.config.block_out)

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


def operator_call(
    graph: Graph, node: Node, config: Config, made: Mapping[str, PackedLayout] | None = None
) -> OperatorCall:
    """The operator of the accelerator that computes a node.

    `made` has the layouts of values that the accelerator makes, which element-wise operators keep.

    Raises:
        NotAcceleratedError: the message says what the node must do to run there.
    """
    make = _CALLS.get(node.op)
    if make is None:
        decline(_why_not(node))
    try:
        return make(_Machine(graph, node, config, made or {}))
    except (TemplateError, NumericsError) as error:
        raise NotAcceleratedError(f"fit a template; {error}") from error


def _why_not(node: Node) -> str:
    if node.op.startswith("vdla.Q"):
        return f"be an operator with a template, got {node.op.removeprefix('vdla.')}"
    if node.op in _MOVEMENTS:
        return "compute; it moves data only"
    return "compute in integers; it is not quantised"


# --- products -------------------------------------------------------------------------------------


def _conv(at: _Machine) -> OperatorCall:
    data, weight, result = at.image(at.node.inputs[0]), at.constant(1), at.result(Channels.IMAGE)
    count, channels, height, width = data.image
    rank = len(data.shape) - 2
    kernel = at.kernel(weight.shape[2:])
    weight = weight.reshape(*weight.shape[:2], *kernel)
    group, outputs = at.options["group"], len(weight)
    shared = {
        "batch": count,
        "height": height,
        "width": width,
        "kernel": kernel,
        "input_zero_point": at.options["x_zero_point"],
        "name": "conv2d",
        **at.window(rank),
        **at.results,
    }
    if group == channels == outputs:
        operator = templates.depthwise_conv2d(at.config, channels=channels, **shared)
        return _call(at, operator, data, result, weight)
    extents = {"in_channels": channels, "out_channels": outputs, "groups": group}
    packing = "channels" if at.node.inputs[0] in at.made else "auto"  # what is packed already stays so
    operator = templates.conv2d(at.config, **extents, packing=packing, chained=True, **shared)
    if operator.layouts["data"].name.startswith("NP"):
        data = _patches(data, kernel, shared, result)
    return _call(at, operator, data, result, weight)


def _patches(
    data: PackedLayout, kernel: tuple[int, int], options: Mapping[str, Any], result: PackedLayout
) -> PackedLayout:
    """The layout of the windows of an input, for a template that reads patches."""
    window = PatchWindow(
        kernel_shape=kernel,
        strides=options["strides"],
        pads=options["pads"],
        dilations=options["dilations"],
        padding=options["input_zero_point"],
    )
    count, channels, *_ = data.image
    shape = (count, kernel[0] * kernel[1] * channels, *result.image[2:])
    return replace(data, shape=shape, patches=window)


def _conv_transpose(at: _Machine) -> OperatorCall:
    data, weight, result = at.image(at.node.inputs[0]), at.constant(1), at.result(Channels.IMAGE)
    count, channels, height, width = data.image
    rank, options = len(data.shape) - 2, at.options
    window = at.window(rank)
    if set(window.pop("dilations")) != {1}:
        decline(f"have dilations of 1, got {options['dilations']}")
    kernel = at.kernel(weight.shape[2:])
    operator = templates.conv2d_transpose(
        at.config,
        batch=count,
        height=height,
        width=width,
        in_channels=channels,
        out_channels=weight.shape[1] * options["group"],
        kernel=kernel,
        output_padding=(0,) * (2 - rank) + tuple(options["output_padding"]),
        groups=options["group"],
        input_zero_point=options["x_zero_point"],
        name="conv2d_transpose",
        **window,
        **at.results,
    )
    return _call(at, operator, data, result, weight.reshape(*weight.shape[:2], *kernel))


def _dense(at: _Machine) -> OperatorCall:
    data, weight, result = at.rows(at.node.inputs[0]), at.constant(1), at.result(Channels.ROWS)
    count, channels, height, width = data.image
    operator = templates.conv2d(
        at.config,
        batch=count,
        height=height,
        width=width,
        in_channels=channels,
        out_channels=len(weight),
        kernel=1,
        packing="channels",
        chained=True,
        input_zero_point=at.options["x_zero_point"],
        name="dense",
        **at.results,
    )
    return _call(at, operator, data, result, weight[:, :, None, None])


def _call(at: _Machine, operator: Operator, data: PackedLayout, result: PackedLayout, weight: Array) -> OperatorCall:
    """A product with its packed weight and scale."""
    multiplier = np.broadcast_to(at.multiplier, (result.image[1],))
    packed = operator.pack_constants(weight, bias=at.constant(2), multiplier=multiplier)
    return _made(operator, {"data": (at.node.inputs[0], data)}, packed, result)


def _made(
    operator: Operator,
    inputs: Mapping[str, tuple[str, PackedLayout]],
    constants: Mapping[str, Array],
    output: PackedLayout,
) -> OperatorCall:
    """The call, with the blocks that each parameter of the operator's function has."""
    blocked = {p: (value, _blocked(operator, p, layout)) for p, (value, layout) in inputs.items()}
    return OperatorCall(operator, blocked, constants, _blocked(operator, OUTPUT, output))


def _blocked(operator: Operator, parameter: str, layout: PackedLayout) -> PackedLayout:
    """The layout in the blocks of a parameter of the operator's function."""
    dims = operator.function.buffers[parameter].dims
    found = replace(layout, block=dims[-1])
    if prod(found.packed_shape) != prod(dims):
        decline(f"have channels that fill their blocks without gaps, got {list(dims)} for {list(layout.shape)}")
    return found


# --- other operators ------------------------------------------------------------------------------


def _pool(kind: str) -> Callable[[_Machine], OperatorCall]:
    def make(at: _Machine) -> OperatorCall:
        data, result = at.image(at.node.inputs[0]), at.result(Channels.IMAGE)
        count, channels, height, width = data.image
        rank = len(data.shape) - 2
        options: dict[str, Any] = {} if kind == "max" else {"count_include_pad": bool(at.options["count_include_pad"])}
        operator = templates.pool2d(
            at.config,
            kind=kind,
            batch=count,
            height=height,
            width=width,
            channels=channels,
            kernel=at.kernel(tuple(at.options["kernel_shape"])),
            input_zero_point=at.options["x_zero_point"],
            **options,
            **at.window(rank),
            **at.results,
        )
        packed = operator.pack_constants(multiplier=float(at.multiplier[0]))
        return _made(operator, {"data": (at.node.inputs[0], data)}, packed, result)

    return make


def _add(at: _Machine) -> OperatorCall:
    names = at.node.inputs[:2]
    channels = at.channels(names)
    layouts = [at.activation(name, channels) for name in names]
    result = at.result(channels)
    if layouts[0].shape != layouts[1].shape:
        decline(f"add tensors of one shape, got {list(layouts[0].shape)} and {list(layouts[1].shape)}")
    count, each, height, width = layouts[0].image
    operator = templates.residual_add(
        at.config,
        batch=count,
        height=height,
        width=width,
        channels=each,
        factors=(int(at.options["factors"][0]), int(at.options["factors"][1])),
        input_zero_points=(at.options["a_zero_point"], at.options["b_zero_point"]),
        **at.results,
    )
    packed = operator.pack_constants(multiplier=float(at.multiplier[0]))
    inputs = dict(zip(("data", "other"), zip(names, layouts, strict=True), strict=True))
    return _made(operator, inputs, packed, result)


def _elementwise(template: Callable[..., Operator], *options: str) -> Callable[[_Machine], OperatorCall]:
    """An operator on the elements of a tensor; `options` are attributes that the template takes."""

    def make(at: _Machine) -> OperatorCall:
        channels = at.channels(at.node.inputs[:1])
        data, result = at.activation(at.node.inputs[0], channels), at.result(channels)
        count, each, height, width = data.image
        operator = template(
            at.config,
            batch=count,
            height=height,
            width=width,
            channels=each,
            input_zero_point=at.options["x_zero_point"],
            **{name: at.options[name] for name in options},
            **at.results,
        )
        packed = operator.pack_constants(multiplier=float(at.multiplier[0]))
        return _made(operator, {"data": (at.node.inputs[0], data)}, packed, result)

    return make


_CALLS: Mapping[str, Callable[[_Machine], OperatorCall]] = {
    "vdla.QAdd": _add,
    "vdla.QConv": _conv,
    "vdla.QConvTranspose": _conv_transpose,
    "vdla.QDense": _dense,
    "vdla.QLeakyRelu": _elementwise(templates.leaky_relu, "factors"),
    "vdla.QMaxPool": _pool("max"),
    "vdla.QRescale": _elementwise(templates.rescale),
    "vdla.QAveragePool": _pool("average"),
}
