"""Packing and unpacking of a mapping as tensor expressions: each is a gather of its source."""

from __future__ import annotations

from math import prod
from typing import Any

from vdla.compiler import ir, te
from vdla.compiler.arith import affine
from vdla.compiler.map.contraction import IndexForm
from vdla.compiler.map.errors import MapError
from vdla.compiler.map.mapping import intrinsic_extents
from vdla.compiler.map.packed_expression import packed_parameter, packed_tensors, scale_shape
from vdla.compiler.map.packed_form import PackedForm
from vdla.compiler.map.packed_operand import axis_values, value_of
from vdla.compiler.operators.vdla.roles import OUTPUT, SCALE
from vdla.compiler.te.expr import axis_name


def packed_inputs(form: PackedForm) -> dict[str, te.Tensor]:
    """Each input of the program as a computation over its plain tensor."""
    found = {packed_parameter(operand.source.name): operand for operand in (form.streamed, form.held)}
    packed = {name: operand.packed(name) for name, operand in found.items()}
    return packed if form.raw else packed | {str(SCALE): _packed_scale(form)}


def _packed_scale(form: PackedForm) -> te.Tensor:
    first, lanes, index = len(form.sections), form.axes[1], _scale_index(form)

    def value(*at: te.Value) -> te.Value:
        values, valid = axis_values(form.mapping, {lanes: at[first]}, {lanes: at[first + 1]})
        values |= dict(zip(form.sections, at, strict=False))
        element = form.scale[value_of(index, values)]
        return te.select(te.all_of(*valid), element, te.const(0, element.dtype)) if valid else element

    return te.compute(scale_shape(form), value, packed_parameter(form.scale.name))


def _scale_index(form: PackedForm) -> IndexForm:
    """The index of the epilogue's input, over the axes of the contraction."""
    stage, name = form.epilogue, form.scale.name
    places = {axis_name(axis): whole for axis, whole in zip(stage.axes, _whole_axes(form), strict=True)}
    loads = {e for e in ir.walk_expr(stage.value.expr) if isinstance(e, ir.Load) and e.buffer == name}
    (load,) = loads if len(loads) == 1 else (None,)
    if load is not None and len(load.indices) == 1:
        found = affine(ir.substitute(load.indices[0], places))
        if found is not None and set(found[0]) <= {*form.sections, *form.mapping.groups[form.axes[1]]}:
            return IndexForm(*found)
    got = ", ".join(map(ir.expr_text, loads))
    raise MapError(f"{name} must have one element for each lane of results, got {got}")


def _whole_axes(form: PackedForm) -> list[ir.Expr]:
    """The index of each dimension of the result, over the axes of the contraction."""
    digits_of = form.contraction.digits
    return [IndexForm(dict(zip(digits, _radices(form, digits), strict=True))).expr() for digits in digits_of]


def _radices(form: PackedForm, digits: tuple[str, ...]) -> list[int]:
    """What an index rises by with each of its digits."""
    extents = form.contraction.extents
    return [prod(extents[later] for later in digits[place + 1 :]) for place in range(len(digits))]


def unpacked(form: PackedForm) -> te.Tensor:
    """The plain result as a computation over the program's output."""
    intrinsic = intrinsic_extents(form.mapping.intrinsic)
    packed = te.placeholder(packed_tensors(form)[-1].shape, form.output.dtype, OUTPUT)
    rows, lanes, _ = form.axes

    def value(*at: te.Value) -> te.Value:
        values = _digit_values(form, at)
        fused = {axis: _fused(form, axis, values) for axis in (rows, lanes)}
        outer: list[Any] = [*(values[axis] for axis in form.sections), fused[rows] // intrinsic[rows]]
        outer += [*(values[axis] for axis in form.batches), fused[lanes] // intrinsic[lanes]]
        outer += [0 if axis is None else values[axis] for axis in form.tiled]
        return packed[(*outer, fused[rows] % intrinsic[rows], fused[lanes] % intrinsic[lanes])]

    return te.compute(form.output.shape, value, "plain")


def _digit_values(form: PackedForm, at: tuple[te.Value, ...]) -> dict[str, te.Value]:
    """The value of every axis of the result at an index of it."""
    values: dict[str, te.Value] = {}
    for index, digits in zip(at, form.contraction.digits, strict=True):
        for place, (axis, radix) in enumerate(zip(digits, _radices(form, digits), strict=True)):
            part = index // radix if radix > 1 else index
            values[axis] = part % form.contraction.extents[axis] if place else part
    return values


def _fused(form: PackedForm, axis: str, values: dict[str, te.Value]) -> te.Value:
    """The index along an axis of the intrinsic."""
    total: Any = te.const(0, "int32")
    for member in form.mapping.groups[axis]:
        total = total * form.contraction.extents[member] + values[member]
    return te.as_value(total, form.output.name)
