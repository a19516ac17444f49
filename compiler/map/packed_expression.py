# SPDX-License-Identifier: Apache-2.0
"""The packed tensor expression of a mapping, as the schedule of tiles expects it.

windows: the padded inputs, in packed dimensions
steps before the sums, sums, and steps after: [sections, batches, blocks of results, rows, columns,
entry]
results: the epilogue of the plain expression, on packed indices
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping as MappingOf
from functools import partial
from typing import Any

from vdla.compiler import ir, te
from vdla.compiler.map.access import BlockDim, LoopDim, VectorDim, WindowDim, place_name
from vdla.compiler.map.computation import FromLanes, FromOperand, FromPlace, FromStep, FromTable, Step
from vdla.compiler.map.entries import axis_extents
from vdla.compiler.map.mapping import ROW_BLOCKS
from vdla.compiler.map.packed_form import PackedForm
from vdla.compiler.map.packed_lanes import lanes_of
from vdla.compiler.map.packed_operand import PackedOperand, at_places, value_of
from vdla.compiler.map.packed_scale import PackedScale
from vdla.compiler.map.places import MovingValue
from vdla.compiler.operators.vdla.roles import AFTER, OUTPUT, RESULTS, SUMS
from vdla.compiler.te import Stage
from vdla.hardware.config import Buffer

_ReadTable = Callable[[tuple[ir.Expr, ...]], ir.Load]
"""A load of a table from its indices in an expression."""


def packed_tensors(form: PackedForm, scale: PackedScale | None) -> list[te.Tensor]:
    """[each operand, table, operand of lanes, (scale,) output]; the last is computed from the
    others, and raw results have no scale.
    """
    inputs = {name: _placeholder(form, name) for name in form.operands}
    read = {name: _window(form, name, inputs[name]) for name in form.streamed}
    tables = {
        name: te.placeholder(table.entry, table.source.dtype, tensor) for name, (tensor, table) in form.tables.items()
    }
    lanes = {name: operand.placeholder() for name, operand in lanes_of(form).items()}
    sums = _sums(form, inputs | read | {_of_lanes(name): tensor for name, tensor in lanes.items()}, tables)
    return [*inputs.values(), *tables.values(), *lanes.values(), *_results(form, sums, scale, _result_table(form))]


def step_name(form: PackedForm, step: Step) -> str:
    """The stage of a step."""
    if step in form.computation.steps_after:
        number = form.computation.steps_after.index(step)
        return f"{AFTER}_{number}" if number else AFTER
    return SUMS if step is form.computation.steps[-1] else step.name


def _of_lanes(name: str) -> str:
    """The key of an operand of lanes, apart from those of other operands."""
    return f"{name} of lanes"


def _placeholder(form: PackedForm, name: str) -> te.Tensor:
    operand = form.operands[name]
    shape = operand.shape(lambda window: operand.source.shape[window.dimension])
    return te.placeholder(shape, operand.source.dtype, form.parameter(name))


def _window(form: PackedForm, name: str, data: te.Tensor) -> te.Tensor:
    operand, extents = form.streamed[name], form.computation.extents
    dtype = "int32" if form.window_buffers[name] is Buffer.ACC else data.dtype

    def value(*at: te.Value) -> te.Value:
        indices = list(at)
        padded: dict[str, te.Value] = {}
        for place, dimension in enumerate(operand.dimensions):
            if isinstance(dimension, WindowDim):
                here = at[place] * dimension.step + dimension.first
                padded[place_name(dimension.place)] = here
                indices[place] = here - dimension.before if dimension.before else here
        element = te.cast(dtype, data[tuple(indices)])
        conditions = [at_places(part, padded, "bool") for part in operand.chip_conditions()]
        if not conditions or operand.access.gather is None:
            return element
        return te.select(te.all_of(*conditions), element, te.const(operand.access.gather.fill, dtype))

    window: te.Tensor = te.compute(operand.shape(lambda window: window.extent(extents)), value, form.window(name))
    return window


# --- sums -----------------------------------------------------------------------------------------


def _sums(form: PackedForm, read: MappingOf[str, te.Tensor], tables: MappingOf[str, te.Tensor]) -> te.Tensor:
    """The last step; `read` has the tensor that each operand is read from."""
    names, shape = result_axes(form)
    done: dict[str, te.Tensor] = {}
    for step in form.computation.all_steps:
        reduced = _reduce_axes(form) if step is form.computation.steps[-1] else {}

        def value(*at: te.Value, step: Step = step, reduced: MappingOf[str, te.ReduceAxis] = reduced) -> te.Value:
            named: dict[str, Any] = {**dict(zip(names, at, strict=True)), **reduced}
            whole = {name: tables[source.name] for name, source in step.reads.items() if isinstance(source, FromTable)}
            entries = {
                name: _entry(form, source, named, at, read, done)
                for name, source in step.reads.items()
                if not isinstance(source, FromTable | FromPlace)
            }
            entries |= {name: _moving(form, value, named) for name, value in form.moving.items()}
            return _combined(step, entries, whole, _places_in(form, step, named), list(reduced.values()))

        done[step.name] = te.compute(shape, te.with_axes(names, value), step_name(form, step))
    return done[form.computation.all_steps[-1].name]


def result_axes(form: PackedForm) -> tuple[list[str], list[int]]:
    """The names and extents of the axes of packed sums; rows that have a fixed place are first."""
    extents = form.computation.extents
    rows, lanes, _ = form.axes
    sections = {form.name(axis): extents[axis] for axis in form.loops.sections}
    axes = form.batches | sections if form.mapping.fixed else sections | form.batches
    axes |= {"co": form.mapping.blocks(lanes)}
    phases = {form.name(phase): extents[phase] for phase in form.loops.phases}
    if len(phases) == len(form.tiled):  # a phase of rows, and one of columns
        axes |= dict(entry for pair in zip(form.tiled.items(), phases.items(), strict=True) for entry in pair)
    axes |= form.tiled | phases
    axes |= {"b": form.entry_extent(rows), "o": form.entry_extent(lanes)}
    return list(axes), list(axes.values())


def _reduce_axes(form: PackedForm) -> dict[str, te.ReduceAxis]:
    """The reduce axes of the sums by name: blocks, taps, terms."""
    chunks, taps = form.axes[2], {form.name(axis): form.computation.extents[axis] for axis in form.loops.taps}
    blocks = {} if chunks is None else {"ci": form.mapping.blocks(chunks)}
    inner = {name: form.entry_extent(axis) for axis, name in form.term_names.items()}
    return {name: te.reduce_axis(extent, name) for name, extent in (blocks | taps | inner).items()}


def _entry(
    form: PackedForm,
    source: FromOperand | FromStep | FromLanes | ir.Const,
    named: dict[str, Any],
    at: tuple[te.Value, ...],
    read: MappingOf[str, te.Tensor],
    done: MappingOf[str, te.Tensor],
) -> te.Value:
    """The element of an operand of a step."""
    match source:
        case FromOperand(name):
            return read[name][_indices(form, form.operands[name], named)]
        case FromLanes(name):
            return read[_of_lanes(name)][lanes_of(form)[name].at(named)]
        case FromStep(name):
            return done[name][at]
        case ir.Const(value=value, dtype=dtype):
            return te.const(value, dtype)


def _indices(form: PackedForm, operand: PackedOperand, named: dict[str, Any]) -> tuple[Any, ...]:
    """The place in a packed operand that a term reads."""
    blocks, entry, places = _blocks(form, named), _entry_axes(form, named), _places(form, named)
    entry |= {axis: te.Value(ir.Var(axis), "int32") for axis in form.computation.whole}
    result: list[Any] = []
    vector: list[Any] = []
    for dimension in operand.dimensions:
        match dimension:
            case BlockDim(axis):
                result.append(blocks[axis])
            case LoopDim(axis):
                result.append(places[axis])
            case VectorDim(axes, count):
                fused = _fused(form, axes, places)
                result.append(fused // count)
                vector.append(fused % count)
            case WindowDim():
                result.append(value_of(dimension.moves, places))
    return (*result, *vector, *(entry[axis] for axis in operand.entry))


def _blocks(form: PackedForm, named: MappingOf[str, Any]) -> dict[str, Any]:
    """The block along each axis of the intrinsic that has several."""
    rows, lanes, chunks = form.axes
    blocks = {rows: named[form.name(ROW_BLOCKS)], lanes: named["co"]}
    return blocks if chunks is None else blocks | {chunks: named["ci"]}


def _entry_axes(form: PackedForm, named: MappingOf[str, Any]) -> dict[str, Any]:
    """The place within an entry along each axis of the intrinsic."""
    rows, lanes, _ = form.axes
    return {rows: named["b"], lanes: named["o"], **{axis: named[name] for axis, name in form.term_names.items()}}


def _places_in(form: PackedForm, step: Step, named: MappingOf[str, Any]) -> dict[str, Any]:
    """The place within an entry along each axis of a step."""
    if step is form.computation.steps[-1]:
        return _entry_axes(form, named)
    rows, lanes = list(axis_extents(step.intrinsic))[:2]
    return {rows: named["b"], lanes: named["o"]}


def _places(form: PackedForm, named: MappingOf[str, Any]) -> dict[str, Any]:
    """The value of each axis outside of the intrinsic."""
    return {axis: named[form.name(axis)] for axis in form.computation.extents if form.name(axis) in named}


def _moving(form: PackedForm, value: MovingValue, named: MappingOf[str, Any]) -> te.Value:
    """An immediate that follows loops."""
    places, blocks, total = _places(form, named), _blocks(form, named), te.const(value.const, "int32")
    for axis, factor in value.axes.items():
        total = total + places[axis] * factor
    for axis, factor in value.blocks.items():
        total = total + blocks[axis] * factor
    return total


def _fused(form: PackedForm, axes: tuple[str, ...], places: MappingOf[str, Any]) -> Any:  # noqa: ANN401  an index
    total: Any = te.const(0, "int32")
    for place, axis in enumerate(axes):
        total = total * form.computation.extents[axis] + places[axis] if place else places[axis] + 0
    return total


def _combined(
    step: Step,
    entries: MappingOf[str, te.Value],
    tables: MappingOf[str, te.Tensor],
    places: MappingOf[str, Any],
    reduced: list[te.ReduceAxis],
) -> te.Value:
    """What the intrinsic of a step computes of its operands, at the places of an entry."""
    stage = step.intrinsic.output.stage
    assert isinstance(stage, Stage)
    names: dict[str, _ReadTable] = {name: partial(ir.Load, table.name) for name, table in tables.items()}
    axes_at = {axis: te.as_value(at, axis).expr for axis, at in places.items()}
    expr = _with_loads(stage.value.expr, {name: entry.expr for name, entry in entries.items()}, names, axes_at)
    tensors = te.expr.merge_unique(*(entry.tensors for entry in entries.values()), tuple(tables.values()))
    axes = te.expr.merge_unique(*(entry.axes for entry in entries.values()))
    value = te.Value(expr, stage.value.dtype, tensors=tensors, axes=axes)
    if stage.reduction is None:
        return value
    reduce = {"sum": te.sum, "max": te.max, "min": te.min}[stage.reduction.reducer.name]
    return reduce(value, axis=reduced)


# --- results --------------------------------------------------------------------------------------


def _result_table(form: PackedForm) -> list[te.Tensor]:
    """The table in which results are looked up on their way out, if there is one."""
    if form.result_table is None:
        return []
    name, table = form.result_table
    return [te.placeholder(table.entry, table.source.dtype, name)]


def _results(form: PackedForm, sums: te.Tensor, packed: PackedScale | None, tables: list[te.Tensor]) -> list[te.Tensor]:
    """[(table, scale,) output]: the plain epilogue with its loads replaced by packed ones."""
    if packed is None:
        results = te.compute(sums.shape, lambda *i: sums[i], RESULTS)
        return [te.compute(sums.shape, lambda *i: results[i], OUTPUT)]
    scale, plain = packed.placeholder(), form.epilogue.value
    names = result_axes(form)[0]

    def value(*i: te.Value) -> te.Value:
        total, lane = sums[i], scale[packed.indices(dict(zip(names, i, strict=True)))]
        loads = {form.computation.result.name: total.expr, form.scale.name: lane.expr}
        expr = _with_loads(plain.expr, loads, read)
        return te.Value(expr, plain.dtype, tensors=(sums, scale, *tables))

    read: dict[str, _ReadTable] = {}
    if form.result_table is not None:
        name, table = form.result_table
        read[table.source.name] = partial(table.load, name)
    results = te.compute(sums.shape, value, RESULTS)
    return [*tables, scale, te.compute(sums.shape, lambda *i: results[i], OUTPUT)]


def _with_loads(
    expr: ir.Expr,
    loads: MappingOf[str, ir.Expr],
    tables: MappingOf[str, _ReadTable],
    places: MappingOf[str, ir.Expr] | None = None,
) -> ir.Expr:
    """`expr` with every load of a tensor replaced, or read from the tensor that holds its table;
    axes at `places`. A whole dimension has the index that `expr` gives it.
    """
    if isinstance(expr, ir.Var) and places is not None:
        return places[expr.name]
    if isinstance(expr, ir.Load) and expr.buffer in loads:
        load = loads[expr.buffer]
        names = {e.name for e in ir.find(load, ir.Var) if "." in e.name}
        dims = {name: expr.indices[int(name.rpartition(".")[2])] for name in names}
        return ir.substitute(load, {name: _with_loads(i, loads, tables, places) for name, i in dims.items()})
    mapped = ir.map_operands(expr, lambda operand: _with_loads(operand, loads, tables, places))
    return tables[mapped.buffer](mapped.indices) if isinstance(mapped, ir.Load) else mapped
