"""The packed tensor expression of a mapping, as the schedule of tiles expects it.

    window: the padded input, in packed dimensions
    sums: [sections, batches, blocks of results, rows, columns, entry]
    results: the epilogue of the plain expression, on packed indices
"""

from __future__ import annotations

from typing import Any

from vdla.compiler import ir, te
from vdla.compiler.map.contraction import IndexForm
from vdla.compiler.map.mapping import intrinsic_extents
from vdla.compiler.map.packed_form import PackedForm, packed_name
from vdla.compiler.map.packed_operand import BlockDim, LoopDim, PackedOperand, WindowDim, condition_of, value_of
from vdla.compiler.operators.vdla.roles import OUTPUT, RESULTS, SCALE, SUMS, WINDOW


def packed_tensors(form: PackedForm) -> list[te.Tensor]:
    """[streamed, held, (scale,) output], of which the last is computed from the others."""
    data, weight = (_placeholder(operand) for operand in (form.streamed, form.held))
    sums = _sums(form, _window(form, data), weight)
    return [data, weight, *_results(form, sums)]


def packed_parameter(name: str) -> str:
    """The name of the program's tensor that holds a plain one."""
    return f"{name}_packed"


def scale_shape(form: PackedForm) -> tuple[int, ...]:
    """The extents of the packed scale: sections, blocks of lanes, lanes."""
    lanes = form.axes[1]
    sections = [form.contraction.extents[axis] for axis in form.sections]
    return (*sections, form.mapping.blocks(lanes), intrinsic_extents(form.mapping.intrinsic)[lanes])


def _placeholder(operand: PackedOperand) -> te.Tensor:
    shape = operand.shape(lambda window: operand.source.shape[window.dimension])
    return te.placeholder(shape, operand.source.dtype, packed_parameter(operand.source.name))


def _window(form: PackedForm, data: te.Tensor) -> te.Tensor:
    operand, extents = form.streamed, form.contraction.extents
    padding = operand.access.padding

    def value(*at: te.Value) -> te.Value:
        indices = list(at)
        padded: dict[str, te.Value] = {}
        for place, dimension in enumerate(operand.dimensions):
            if isinstance(dimension, WindowDim):
                here = at[place] * dimension.step + dimension.form.const
                before = padding.before[dimension.dimension] if padding else 0
                padded[f"p{dimension.dimension}"] = here
                indices[place] = here - before if before else here
        element = data[tuple(indices)]
        conditions = [condition_of(part, padded) for part in operand.chip_conditions()]
        if not conditions or padding is None:
            return element
        return te.select(te.all_of(*conditions), element, te.const(padding.fill, element.dtype))

    return te.compute(operand.shape(lambda window: window.extent(extents)), value, WINDOW)


# --- sums -----------------------------------------------------------------------------------------


def _sums(form: PackedForm, window: te.Tensor, weight: te.Tensor) -> te.Tensor:
    extents, inner = form.contraction.extents, intrinsic_extents(form.mapping.intrinsic)
    rows, lanes, terms = form.axes
    reduced = {axis: te.reduce_axis(extents[axis], packed_name(axis)) for axis in form.taps}
    block, lane = te.reduce_axis(form.mapping.blocks(terms), "ci"), te.reduce_axis(inner[terms], "i")
    loops = [*form.sections, *form.batches, *(axis for axis in form.tiled if axis)]
    names = [*map(packed_name, form.sections), "n", *map(packed_name, form.batches), "co", *form.tiled_names, "b", "o"]
    shape = [
        *(extents[axis] for axis in form.sections),
        form.mapping.blocks(rows),
        *(extents[axis] for axis in form.batches),
        form.mapping.blocks(lanes),
        *(1 if axis is None else extents[axis] for axis in form.tiled),
        inner[rows],
        inner[lanes],
    ]

    def value(*at: te.Value) -> te.Value:
        named: dict[str, Any] = dict(zip(names, at, strict=True))
        places = {axis: named[packed_name(axis)] for axis in loops} | reduced
        blocks = {rows: named["n"], lanes: named["co"], terms: block}
        entry = {rows: named["b"], lanes: named["o"], terms: lane}
        a = te.cast("int32", window[_indices(form.streamed, places, blocks, entry)])
        b = te.cast("int32", weight[_indices(form.held, places, blocks, entry)])
        return te.sum(a * b, axis=[block, *reduced.values(), lane])

    sums: te.Tensor = te.compute(shape, te.with_axes(names, value), SUMS)
    return sums


def _indices(
    operand: PackedOperand, places: dict[str, Any], blocks: dict[str, Any], entry: dict[str, Any]
) -> tuple[Any, ...]:
    """The place in a packed operand that a term reads."""
    found: list[Any] = []
    for dimension in operand.dimensions:
        match dimension:
            case BlockDim(axis):
                found.append(blocks[axis])
            case LoopDim(axis):
                found.append(places[axis])
            case WindowDim():
                found.append(value_of(IndexForm(dimension.strides), places))
    return (*found, *(entry[axis] for axis in operand.entry))


# --- results --------------------------------------------------------------------------------------


def _results(form: PackedForm, sums: te.Tensor) -> list[te.Tensor]:
    """[(scale,) output]: the plain epilogue with its loads replaced by packed ones."""
    if form.raw:
        results = te.compute(sums.shape, lambda *i: sums[i], RESULTS)
        return [te.compute(sums.shape, lambda *i: results[i], OUTPUT)]
    scale = te.placeholder(scale_shape(form), form.scale.dtype, SCALE)
    first = len(form.sections)
    blocks = first + 1 + len(form.batches)
    plain = form.epilogue.value

    def value(*i: te.Value) -> te.Value:
        total, lane = sums[i], scale[(*i[:first], i[blocks], i[-1])]
        loads = {form.contraction.stage.name: total.expr, form.scale.name: lane.expr}
        return te.Value(_with_loads(plain.expr, loads), plain.dtype, tensors=(sums, scale))

    results = te.compute(sums.shape, value, RESULTS)
    return [scale, te.compute(sums.shape, lambda *i: results[i], OUTPUT)]


def _with_loads(expr: ir.Expr, loads: dict[str, ir.Expr]) -> ir.Expr:
    """`expr` with every load of a tensor replaced."""
    if isinstance(expr, ir.Load):
        return loads[expr.buffer]
    old = ir.operands(expr)
    new = tuple(_with_loads(operand, loads) for operand in old)
    return expr if new == old else ir.with_operands(expr, new)
