# SPDX-License-Identifier: Apache-2.0
"""Nodes as layers of a `Definition`, for programs that are not those of templates.

Authors write such programs, and the mapper makes them for instructions of extensions. They know
neither zero points nor bounds of results: bias lanes hold the share of the zero point of inputs,
and `with_results` puts the zero point and the bounds of results into the instructions that emit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from vdla.compiler import te
from vdla.compiler.extensions import Formulation, NetworkLayer
from vdla.compiler.graph.graph import Array
from vdla.compiler.graph.machine.call import MachineNode, NotAcceleratedError, OperatorCall, decline
from vdla.compiler.graph.machine.factor_layout import FactorLayout
from vdla.compiler.graph.machine.packing import BitsLayout, Channels, GatheredLayout, PackedLayout
from vdla.compiler.graph.machine.row_definitions import OF_ALL_ROWS, ROW_FUNCTIONS, row_definition
from vdla.compiler.graph.machine.row_results import RowResults, RowValue
from vdla.compiler.ir import limits
from vdla.compiler.layer_programs import LayerProgram, placeholders
from vdla.compiler.map import gather
from vdla.compiler.operators import definitions
from vdla.compiler.operators.definitions import Definition, DefinitionError
from vdla.compiler.operators.vdla import WrittenOperator
from vdla.compiler.operators.vdla.roles import OUTPUT
from vdla.compiler.te import Stage
from vdla.hardware.factors import UNIT_SLOPE
from vdla.hardware.isa import COL, Emit, with_fields
from vdla.hardware.numerics import pack_scale, round_half_even, scales_from_floats, wrap32
from vdla.hardware.program import Program, ProgramTensor

LayerLayout = PackedLayout | GatheredLayout | BitsLayout
_GROUPS = (1, 2, 4, 8)
"""The entries of a group of activations."""


@dataclass(frozen=True, eq=False)
class NodeLayer:
    """A node as a definition: `arrays` are the constant inputs of the definition, `activations` the
    values of the others, by their names.

    `results` are the zero point, the lower and the upper bound of results. `bits` are the inputs
    that the host packs into bits, by the names of their bytes, and `packed` those that it lays out,
    of a layer that is `formulated`. A layer whose results are `numbers` of 32 bits leaves them
    wherever its program does; one that makes a `factor` of a product as the product reads it.
    """

    at: MachineNode
    channels: Channels
    definition: Definition
    activations: Mapping[str, str]
    arrays: Mapping[str, Array]
    results: tuple[int, int, int]
    macs: int
    bits: Mapping[str, str] = field(default_factory=dict)
    packed: Mapping[str, te.Tensor] = field(default_factory=dict)
    is_formulated: bool = False
    numbers: RowValue | None = None
    factor: FactorLayout | None = None
    packed_arrays: dict[te.Tensor, Array] = field(default_factory=dict, repr=False)

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """Equal for layers that have the same programs."""
        options = sorted((name, str(value)) for name, value in self.definition.options.items())
        return self.definition.name, *options, *self.results

    def result_of(self, unpacking: te.Tensor) -> PackedLayout | FactorLayout | RowResults:
        """The layout of results that a program leaves as `unpacking` says, if `is_result`."""
        if self.factor is not None:
            return self.factor
        if self.numbers is None:
            return self.at.result(self.channels)
        stored, kind = _source(unpacking).shape, self.at.graph.tensor(self.at.node.outputs[0])
        index = gather(unpacking, np.arange(prod(stored)).reshape(stored))
        return RowResults(
            shape=kind.extents, dtype=kind.dtype, stored_shape=stored, index=index.ravel(), value=self.numbers
        )

    def packed_array(self, tensor: te.Tensor) -> Array:
        """An input of a program that is packed from a constant, once for all programs with it."""
        if tensor not in self.packed_arrays:
            self.packed_arrays[tensor] = gather(tensor, self.arrays[_source(tensor).name])
        return self.packed_arrays[tensor]

    @property
    def facts(self) -> NetworkLayer:
        """What an author's formulation may depend on."""
        values = {name: _values_of(self.at, value) for name, value in self.activations.items()}
        return NetworkLayer(self.definition, self.arrays, values)

    def formulated(self, given: Formulation) -> NodeLayer:
        """The same layer in an author's formulation."""
        known = self.definition
        constants = {tensor.name: tensor for tensor in placeholders(given.output) if tensor.name in given.constants}
        inputs = [tensor for tensor in known.inputs if tensor.name not in constants]
        definition = Definition(known.name, (*inputs, *constants.values()), given.output, known.options)
        packed = {tensor.name: tensor for tensor in given.packed}
        arrays = {**self.arrays, **given.constants}
        made = replace(self, definition=definition, arrays=arrays, is_formulated=True)
        return replace(made, bits=given.bits, packed=packed)

    def activation_of(self, name: str) -> str | None:
        """The value of the graph that an input of the formulation is packed from, if it is one."""
        plain = self.bits.get(name, name)
        return self.activations.get(_source(self.packed[plain]).name if plain in self.packed else plain)

    def is_result(self, unpacking: te.Tensor) -> bool:
        """Whether a plain result lies in a program's output as those of templates do, or is one of
        numbers, which the host takes from anywhere.
        """
        if self.numbers is not None:
            return True
        return lies_as(unpacking, self.at.result(self.channels) if self.factor is None else self.factor)

    @property
    def reads_rows(self) -> bool:
        """Whether activations may be the operand that other layers have their weights in."""
        return self.at.node.op in ROW_REDUCTIONS

    def is_read_in_place(self, packed: te.Tensor) -> bool:
        """Whether an input of a program is a constant, or an activation as the machine made it."""
        name = _source(packed).name
        value = self.activation_of(name)
        if name in self.bits or name in self.packed:
            return False
        made = None if value is None else self.at.made.get(value)
        if value is None or made is None:
            return value is None
        try:
            return made.same_bytes(input_layout(packed, self.at.activation(value, self.channels), exact=False))
        except NotAcceleratedError:
            return False


_MOVED = ("Flatten", "Pad", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze")
"""Operators through which elements of a table come to a layer."""


def _values_of(at: MachineNode, name: str) -> Array:
    """The integers that elements of an activation can be: those of its table, or all."""
    maker, padding = at.graph.producers.get(name), list[Array | None]()
    while maker is not None and maker.op in _MOVED:
        if maker.op == "Pad" and maker.attribute("mode") == "constant":
            given = maker.inputs[2] if len(maker.inputs) > 2 else ""
            padding.append(at.graph.constant(given) if given else np.zeros(1))
        maker = at.graph.producers.get(maker.inputs[0])
    known = [value.ravel() for value in padding if value is not None]
    if maker is not None and maker.op == "vdla.QTable" and len(known) == len(padding):
        return np.unique(np.concatenate([maker.attributes["table"].ravel(), *known]).astype(np.int64))
    low, high = limits(at.config.inp_dtype)
    return np.arange(low, high + 1)


def layer_of(at: MachineNode, weight_dtype: str = "") -> NodeLayer:
    """The layer of a node: a convolution, a product of rows with constant weights, a product of an
    image and a factor for each channel, maxima of windows, slopes below zero, or numbers of rows.

    Weights have the type `weight_dtype`, by default that of the machine.

    Raises:
        NotAcceleratedError: the message says what the node must be.
    """
    weight_dtype = weight_dtype or at.config.wgt_dtype
    if at.node.op == "vdla.QConv":
        return _convolution(at, weight_dtype)
    if at.node.op == "vdla.QDense":
        return _dense(at, weight_dtype)
    if at.node.op == "vdla.QMul":
        return _scaling(at)
    if at.node.op == "vdla.QMaxPool":
        return _max_pool(at)
    if at.node.op in ROW_REDUCTIONS:
        return _row_reduction(at)
    if at.node.op == "vdla.QDistances":
        return _distances(at)
    if at.node.op in ROW_FUNCTIONS:
        return _row_function(at)
    if at.node.op == "vdla.QTable":
        return _look_up(at)
    if at.node.op == "vdla.QPRelu":
        return _prelu(at, weight_dtype)
    if at.node.op == "vdla.QLeakyRelu":
        return _leaky_relu(at, weight_dtype)
    rule = "be a convolution, a product with constant weights or by channel, a maximum, a row's number, or a table"
    decline(f"{rule}, got {at.node.op.removeprefix('vdla.')}")


def _convolution(at: MachineNode, weight_dtype: str) -> NodeLayer:
    data, result, options = at.shape(at.node.inputs[0]), at.shape(at.node.outputs[0]), at.options
    _, channels, height, width = at.activation(at.node.inputs[0], Channels.IMAGE).image
    window: dict[str, Any] = {name: options[name] for name in ("strides", "pads", "dilations")}
    groups, weight, zero = options["groups"], at.weight, int(options["input_zero_point"])
    window |= {"batch": data[0], "size": (height, width), "kernel": weight.shape[2:], "fill": zero}
    if groups == channels == result[1]:
        made = definitions.depthwise_convolution(channels=channels, **window, **_types(at, weight_dtype))
        weight, terms = weight[:, 0], weight.shape[2:]
    else:
        made = definitions.convolution(
            in_channels=channels, out_channels=result[1], groups=groups, **window, **_types(at, weight_dtype)
        )
        terms = weight.shape[1:]
    return _weighted(at, Channels.IMAGE, made, weight, zero, prod(result) * prod(terms))


def _dense(at: MachineNode, weight_dtype: str) -> NodeLayer:
    weight = at.constant(1)
    data, zero = at.shape(at.node.inputs[0]), int(at.options["input_zero_point"])
    rows = prod(data[:-1])
    weight = weight.reshape(weight.shape[:2])
    made = definitions.dense(rows=rows, in_features=data[-1], out_features=len(weight), **_types(at, weight_dtype))
    return _weighted(at, Channels.ROWS, made, weight, zero, rows * weight.size)


def _scaling(at: MachineNode) -> NodeLayer:
    names, zeros = at.node.inputs[:2], at.options["input_zero_points"]
    result = at.shape(at.node.outputs[0])
    if at.shape(names[0]) != result:  # the product is the same in the other order
        names, zeros = names[::-1], zeros[::-1]
    rows, is_pair = prod(result[:-1]), [*map(at.shape, names)] == [result, result]
    if is_pair and len(result) != 4 and rows <= at.config.batch:  # images of one pixel
        channels, sizes = Channels.ROWS, {"batch": rows, "channels": result[-1], "size": (1, 1)}
    elif len(result) == 4 and [*map(at.shape, names)] == [result, (*result[:2], 1, 1)] and prod(result[2:]) > 1:
        channels, sizes = Channels.IMAGE, {"batch": result[0], "channels": result[1], "size": result[2:]}
    else:
        decline("be a product of an image and a factor for each channel, or of rows of one entry, got other shapes")
    options: dict[str, Any] = {**sizes, "by_channel": not is_pair, "dtype": at.config.inp_dtype}
    made = definitions.scaling(zero_points=zeros, raw=False, **options)
    arrays = {"scale": _lanes(at, np.zeros(options["channels"], np.int64))}
    return _layer(at, channels, made, dict(zip(("data", "other"), names, strict=True)), arrays, prod(result))


def _max_pool(at: MachineNode) -> NodeLayer:
    options, result = at.options, at.shape(at.node.outputs[0])
    batch, channels, *size = at.activation(at.node.inputs[0], Channels.IMAGE).image
    window: dict[str, Any] = {name: options[name] for name in ("kernel", "strides", "pads", "dilations")}
    window |= {"batch": batch, "channels": channels, "size": size}
    made = definitions.pooling(kind="max", **window, raw=False, dtype=at.config.inp_dtype)
    arrays = {"scale": _lanes(at, np.full(channels, -int(options["input_zero_point"])))}
    return _layer(at, Channels.IMAGE, made, {"data": at.node.inputs[0]}, arrays, prod(result) * prod(options["kernel"]))


def _look_up(at: MachineNode) -> NodeLayer:
    """A function of each element, by its table; a formulation may use the scale of factors 1."""
    name = at.node.inputs[0]
    shape, channels = at.shape(name), at.channels([name])
    count = shape[1] if channels is Channels.IMAGE and len(shape) > 1 else shape[-1]
    made = definitions.look_up(shape=shape, dtype=at.config.inp_dtype)
    made = replace(made, inputs=(*made.inputs, te.placeholder((count,), "int64", "scale")))
    arrays = {"table": at.node.attributes["table"], "scale": _lanes(at, np.zeros(count, np.int64))}
    return _layer(at, channels, made, {"data": name}, arrays, prod(shape))


def _prelu(at: MachineNode, weight_dtype: str) -> NodeLayer:
    """Activations that below zero have a slope of their channel."""
    slope = at.constant(1)
    return _sloped(at, weight_dtype, slope.ravel(), len(at.shape(at.node.inputs[0])) - slope.ndim, at.multiplier)


def _leaky_relu(at: MachineNode, weight_dtype: str) -> NodeLayer:
    """Activations that below zero have one slope, if parts of 128 give the same results."""
    steep, flat = at.node.attributes["factors"]
    slope, multiplier = round(flat * UNIT_SLOPE / steep), float(at.multiplier) * steep / UNIT_SLOPE
    x = np.arange(-128, 128) - int(at.options["input_zero_point"])
    wanted = _rounded(at, np.maximum(steep * x, flat * x), float(at.multiplier))
    if not np.array_equal(_rounded(at, np.maximum(x, 0) * UNIT_SLOPE + np.minimum(x, 0) * slope, multiplier), wanted):
        decline(f"have a slope with the results of a multiple of 1/{UNIT_SLOPE}, got {flat / steep:.6g}")
    shape = at.shape(at.node.inputs[0])
    axis = 1 if at.channels(at.node.inputs[:1]) is Channels.IMAGE else len(shape) - 1
    if axis >= len(shape):
        decline(f"have a batch and channels, got {list(shape)}")
    return _sloped(at, weight_dtype, np.full(shape[axis], slope), axis, multiplier)


def _rounded(at: MachineNode, sums: Array, factor: float) -> Array:
    """The results of sums."""
    mantissa, shift = scales_from_floats(np.array([factor]))
    zero, low, high = (int(at.node.attributes[name]) for name in ("y_zero_point", "low", "high"))
    return np.clip(round_half_even(sums * mantissa.astype(np.int64), shift.astype(np.int64)) + zero, low, high)


def _sloped(at: MachineNode, weight_dtype: str, slope: Array, axis: int, multiplier: Array | float) -> NodeLayer:
    """Activations with slopes along a dimension, in parts of 128."""
    name, (low, high) = at.node.inputs[0], limits(weight_dtype)
    if slope.min() < low or slope.max() > high:
        decline(f"have slopes of {low} to {high} parts of {UNIT_SLOPE}, got {slope.min()} to {slope.max()}")
    shape = at.shape(name)
    channels = at.channels([name]) if len(shape) == 2 else Channels.IMAGE if axis == 1 else Channels.ROWS
    if axis != (1 if channels is Channels.IMAGE else len(shape) - 1):
        decline(f"have slopes along the channels of an image or of rows, got dimension {axis} of {len(shape)}")
    rows, size = (shape[0], shape[2:]) if channels is Channels.IMAGE else (prod(shape[:-1]), ())
    zero = int(at.options["input_zero_point"])
    types: dict[str, Any] = {"raw": False, "dtype": at.config.inp_dtype}
    made = definitions.prelu(batch=rows, channels=len(slope), size=size, zero_point=zero, **types)
    arrays = {
        "slope": slope.astype(at.config.inp_dtype),
        "scale": _lanes(at, np.zeros(len(slope), np.int64), multiplier),
    }
    return _layer(at, channels, made, {"data": name}, arrays, prod(shape))


def _row_function(at: MachineNode) -> NodeLayer:
    """Softmax, a norm, a rotation or a factor; softmax and factors have an image of each matrix, as
    products have.
    """
    name, is_norm = at.node.inputs[0], at.node.op == "vdla.QRowNorm"
    shape, channels = at.shape(name), Channels.ROWS if at.node.op in OF_ALL_ROWS else Channels.MATRICES
    try:
        made = row_definition(at.node.op, shape, at.node.attributes)
    except DefinitionError as error:
        decline(f"have a definition; {error}")
    if at.node.op == "vdla.QFactor":
        layer = _layer(at, Channels.MATRICES, made, {"data": name}, {"scale": _lanes(at, np.zeros(1, np.int64))}, 0)
        result = at.shape(at.node.outputs[0])
        return replace(layer, factor=FactorLayout(result, at.config.block_in, at.config.block_out))
    if is_norm:
        arrays = {"sign": at.constant(1), "scale": _lanes(at, at.constant(2))}
    else:
        arrays = {"scale": _lanes(at, np.zeros(1, np.int64))}
    values = {"data": name, "turns": at.node.inputs[1]} if at.node.op == "vdla.QRotary" else {"data": name}
    return _layer(at, channels, made, values, arrays, prod(shape))


ROW_REDUCTIONS: Mapping[str, str] = {"ArgMax": "place", "ReduceMax": "max", "vdla.QSquares": "squares"}
"""The kinds of reductions of rows, by operators, whose operand may be an activation."""
OF_NUMBERS = (*ROW_REDUCTIONS, "vdla.QDistances")
"""The operators whose results are numbers of 32 bits, which the host takes."""


def _row_reduction(at: MachineNode) -> NodeLayer:
    """A number of 32 bits for each row of the last dimension."""
    kind, name = ROW_REDUCTIONS[at.node.op], at.node.inputs[0]
    shape = at.shape(name)
    _require_rows(at, kind, shape)
    channels = at.channels([name]) if name in at.made else Channels.ROWS
    if channels is Channels.IMAGE:
        channels = Channels.ROWS
    matrices = prod(shape[:-2]) if channels is Channels.MATRICES else 1
    rows = prod(shape[:-1]) // matrices
    types = {"dtype": at.config.inp_dtype}
    made = definitions.row_reduction(kind=kind, matrices=matrices, rows=rows, features=shape[-1], **types)
    layer = _layer(at, channels, made, {"data": name}, {}, prod(shape))
    return replace(layer, numbers=RowValue.PLACE if kind == "place" else RowValue.NUMBER)


def _distances(at: MachineNode) -> NodeLayer:
    """The distance of each row from each of the constant ones, in 32 bits."""
    name, codes = at.node.inputs[0], at.constant(1)
    shape = at.shape(name)
    rows, (count, features) = prod(shape[:-1]), codes.shape
    made = definitions.distances(rows=rows, features=features, codes=count, dtype=at.config.inp_dtype)
    layer = _layer(at, Channels.ROWS, made, {"data": name}, {"code": codes}, rows * codes.size)
    return replace(layer, numbers=RowValue.NUMBER)


def _require_rows(at: MachineNode, kind: str, shape: tuple[int, ...]) -> None:
    """Declines a reduction that is not one of the last dimension, or not in the machine's terms."""
    axis = at.node.attribute("axis") if kind == "place" else -1
    if kind == "max":
        axes = at.graph.constant(at.node.inputs[1]) if len(at.node.inputs) > 1 else None
        axis = axes.item() if axes is not None and axes.size == 1 else None
    if not shape or axis not in (-1, len(shape) - 1):
        decline("reduce the last dimension alone")
    if kind == "place" and at.node.attribute("select_last_index"):
        decline("have the first of the largest elements, got the last")
    if kind == "place" and shape[-1] > definitions.PLACES:
        decline(f"have rows of at most {definitions.PLACES} elements, got {shape[-1]}")
    zero = at.node.attribute("x_zero_point") if kind == "squares" else 0
    if zero:
        decline(f"have squares of integers with the zero point 0, got {zero}")


def _types(at: MachineNode, weight_dtype: str) -> dict[str, Any]:
    return {"raw": False, "dtype": at.config.inp_dtype, "weight_dtype": weight_dtype}


def _weighted(at: MachineNode, channels: Channels, made: Definition, weight: Array, zero: int, macs: int) -> NodeLayer:
    """A layer with weights, whose bias holds the share of the input's zero point."""
    dtype = made.inputs[1].dtype
    low, high = limits(dtype)
    if weight.min() < low or weight.max() > high:
        decline(f"have weights of {dtype}, {low} to {high}, got {weight.min()} to {weight.max()}")
    offset = -zero * weight.sum(axis=tuple(range(1, weight.ndim)), dtype=np.int64)
    arrays = {"weight": weight, "scale": _lanes(at, at.constant(2) + offset)}
    return _layer(at, channels, made, {"data": at.node.inputs[0]}, arrays, macs)


def _lanes(at: MachineNode, bias: Array, multiplier: Array | float | None = None) -> Array:
    """Lanes of scales, with the multiplier of the node if no other is given."""
    given = at.multiplier if multiplier is None else multiplier
    factors = np.broadcast_to(np.asarray(given, np.float64), bias.shape)
    return np.asarray(pack_scale(wrap32(bias), *scales_from_floats(factors)).view(np.int64))


def _layer(
    at: MachineNode,
    channels: Channels,
    made: Definition,
    activations: Mapping[str, str],
    arrays: Mapping[str, Array],
    macs: int,
) -> NodeLayer:
    options = at.options
    return NodeLayer(
        at=at,
        channels=channels,
        definition=made,
        activations=activations,
        arrays=arrays,
        results=(int(options.get("zero_point", 0)), int(options.get("floor", -128)), int(options.get("ceiling", 127))),
        macs=macs,
    )


# --- programs -------------------------------------------------------------------------------------


def with_results(program: Program, results: tuple[int, int, int]) -> Program:
    """The program with the zero point and the bounds of results in all instructions that emit."""
    emits = program.columns[:, COL["emit"]] == Emit.REQUANT
    names = ("zero_point", "clip_lo", "clip_hi")
    fields = {
        name: np.where(emits, value, program.columns[:, COL[name]]) for name, value in zip(names, results, strict=True)
    }
    return replace(program, words=with_fields(program.config, program.words, fields))


@dataclass(frozen=True, eq=False)
class LayerCall:
    """A program of a layer, which needs the cycles that make it an `OperatorCall`.

    `place` is the line of the extension's declaration. A program that is not `exact` may read
    anything in place of channels that its activation lacks.
    """

    layer: NodeLayer
    given: LayerProgram
    label: str
    extensions: tuple[str, ...]
    place: str
    exact: bool = False

    @cached_property
    def program(self) -> Program:
        """The program with the results of the node; activations have the shapes of their layouts,
        and the result the name `OUTPUT`.
        """
        made = with_results(self.given.program, self.layer.results)
        shapes = {name: layout.packed_shape for name, (_, layout) in self.inputs.items()}
        tensors = tuple(self._named(tensor, shapes) for tensor in made.tensors)
        return replace(made, tensors=tensors, source_lines=(self.label,), source_of=np.zeros(len(made), np.int32))

    @cached_property
    def result(self) -> PackedLayout | FactorLayout | RowResults:
        """The layout of the result."""
        return self.layer.result_of(self.given.unpacking)

    def _named(self, tensor: ProgramTensor, shapes: Mapping[str, tuple[int, ...]]) -> ProgramTensor:
        """A tensor of the program as its neighbours see it."""
        if tensor.role == "output":
            return replace(tensor, name=str(OUTPUT), shape=self.result.packed_shape)
        return replace(tensor, shape=shapes.get(tensor.name, tensor.shape))

    @cached_property
    def inputs(self) -> dict[str, tuple[str, LayerLayout]]:
        """The activations, by the tensors of the program."""
        values = ((tensor, self.layer.activation_of(_source(tensor).name)) for tensor in self.given.packing)
        return {tensor.name: self._input(value, tensor) for tensor, value in values if value is not None}

    def _input(self, value: str, packed: te.Tensor) -> tuple[str, LayerLayout]:
        plain, name = self.layer.at.activation(value, self.layer.channels), _source(packed).name
        made = self.layer.packed.get(self.layer.bits.get(name, name))
        inner = None if made is None else gathered_layout(made, plain.shape)
        if name in self.layer.bits:
            return value, BitsLayout(plain.shape, inner, gathered_layout(packed, _source(packed).shape))
        if inner is not None:
            return value, _composed(gathered_layout(packed, inner.packed_shape), inner)
        return value, input_layout(packed, plain, self.exact)

    @cached_property
    def constants(self) -> dict[str, Array]:
        """The packed constants, by the tensor of the program."""
        known = [tensor for tensor in self.given.packing if _source(tensor).name in self.layer.arrays]
        return {tensor.name: self.layer.packed_array(tensor) for tensor in known}

    def require_result(self) -> None:
        """Decline unless results lie as those of templates do."""
        if not self.layer.is_result(self.given.unpacking):
            result = self.layer.at.result(self.layer.channels)
            got = f"{list(self.given.result.shape)} for {list(result.packed_shape)}"
            decline(f"have results in whole blocks of channels, as templates do, got {got} of {self.label}")

    def call(self, cycles: int) -> OperatorCall:
        """The call."""
        operator = WrittenOperator(
            name=self.label,
            program=self.program,
            macs=self.layer.macs,
            cycles=cycles,
            extensions=self.extensions,
        )
        return OperatorCall(operator=operator, inputs=self.inputs, constants=self.constants, output=self.result)


def lies_as(unpacking: te.Tensor, layout: PackedLayout | FactorLayout) -> bool:
    """Whether a plain result has the places of `layout` in a program's output."""
    shape = _source(unpacking).shape
    if prod(layout.packed_shape) != prod(shape):
        return False
    places = gather(unpacking, np.arange(prod(shape)).reshape(shape))
    return np.array_equal(places.ravel(), layout.places.ravel())


def input_layout(packed: te.Tensor, plain: PackedLayout, exact: bool = True) -> PackedLayout | GatheredLayout:
    """The layout of the elements of `packed`: one in blocks if there is one, else gathered.

    Unless the layout is `exact`, constants and repeated elements may lie where blocks of channels
    have gaps, which hold anything.
    """
    first, inside = _places_in(packed)
    size = prod(_source(packed).shape)
    for layout in _blocked(plain):
        whole = first.size == size or (not exact and (inside.all() or np.count_nonzero(inside) == size))
        same = whole and prod(layout.packed_shape) == first.size
        if same and np.array_equal(first.ravel()[layout.places.ravel()], np.arange(size)):
            return layout
    return gathered_layout(packed, plain.shape)


def gathered_layout(packed: te.Tensor, shape: tuple[int, ...]) -> GatheredLayout:
    """The layout of the elements of `packed`, of a tensor of `shape`, in any order."""
    first, inside = _places_in(packed)
    fills = np.unique(first[~inside])
    if len(fills) > 1:
        decline(f"pad activations with one number, got {', '.join(map(str, fills))} in {packed.name}")
    return GatheredLayout(shape, np.where(inside, first, -1), int(fills[0]) if len(fills) else 0)


def _composed(outer: GatheredLayout, inner: GatheredLayout) -> GatheredLayout:
    """The layout of elements that two gathers lay out one after the other."""
    if outer.fill != inner.fill and (outer.index < 0).any() and (inner.index < 0).any():
        decline(f"pad activations with one number, got {outer.fill} and {inner.fill}")
    index = np.where(outer.index < 0, -1, inner.index.ravel()[outer.index])
    return GatheredLayout(inner.shape, index, outer.fill or inner.fill)


def _places_in(packed: te.Tensor) -> tuple[Array, Array]:
    """The place of each element in its source, and which are no constants."""
    shape = _source(packed).shape
    size = prod(shape)
    first, second = (gather(packed, np.arange(begin, begin + size).reshape(shape)) for begin in (0, size))
    return first, second - first == size


def _blocked(plain: PackedLayout) -> Iterator[PackedLayout]:
    """A layout with each size of blocks that a group of entries has."""
    for count in _GROUPS:
        yield replace(plain, block=plain.block * count)


def _source(tensor: te.Tensor) -> te.Tensor:
    assert isinstance(tensor.stage, Stage), "checked by ProgramBuilder"
    return tensor.stage.reads[0]
