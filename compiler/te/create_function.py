"""From computed tensors to a function: one loop nest a stage, in order of dependence, and one loop around those of a
scan."""

from __future__ import annotations

from collections.abc import Sequence

from vdla.compiler import ir
from vdla.compiler.arith import var_names
from vdla.compiler.ir import STARTS, Names
from vdla.compiler.te.expr import (
    Scan,
    Stage,
    TeError,
    Tensor,
    Value,
    axis_name,
    check_name,
)
from vdla.compiler.te.extents import extent_of, symbols_of
from vdla.compiler.te.reduction import combine


def create_function(inputs: Sequence[Tensor], outputs: Sequence[Tensor], name: str) -> ir.Function:
    """The function that computes `outputs` from `inputs`: for each stage, in order of dependence, one nest around one
    block of the stage's name."""
    check_name("te.create_function", name)
    where = f"te.create_function {name}"
    for what, tensors in (("inputs", inputs), ("outputs", outputs)):
        if not isinstance(tensors, Sequence) or not all(isinstance(tensor, Tensor) for tensor in tensors):
            raise TeError(f"{where}: {what} must be a list of tensors, got {tensors!r}")
    units = ordered_units(where, outputs)
    check_tensors(where, inputs, outputs, units)
    stages = [stage for unit in units for stage in unit.stages]
    buffers = {t.name: ir.Buffer(t.name, tuple(map(extent_of, t.shape)), t.dtype) for t in inputs}
    buffers |= {buffer.name: buffer for stage in stages for buffer in stage_buffers(stage)}
    scalars = checked_scalars(where, inputs, outputs, units)
    for stage in stages:
        check_axes_named(stage, scalars)
    names = Names({*buffers, *scalars, *(stage.name for stage in stages)})
    body = ir.seq(*(unit_nest(unit, names) for unit in units))
    return ir.Function(name, tuple(t.name for t in (*inputs, *outputs)), buffers, body, scalars)


def ordered_units(where: str, outputs: Sequence[Tensor]) -> list[Stage | Scan]:
    """Every computation that the outputs need, after those it reads."""
    if not outputs:
        raise TeError(f"{where}: outputs must name at least one tensor, got none")
    done: dict[int, Stage | Scan] = {}
    work = [(tensor.stage, False) for tensor in reversed(outputs)]
    while work:
        unit, ready = work.pop()
        if unit is None or id(unit) in done:
            continue
        if ready:
            done[id(unit)] = unit
            continue
        work.append((unit, True))
        work.extend((source.stage, False) for source in reversed(unit.reads))
    return list(done.values())


def check_tensors(
    where: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor], units: Sequence[Stage | Scan]
) -> None:
    """Refuse inputs that are computed, placeholders that are missing, and two tensors of one name."""
    given = {id(tensor) for tensor in inputs}
    for tensor in inputs:
        if tensor.stage is not None:
            raise TeError(f"{where}: every input must be a placeholder, got the computed {tensor.name}")
    for tensor in outputs:
        if tensor.stage is None:
            raise TeError(f"{where}: every output must be computed, got the placeholder {tensor.name}")
    for source in (source for unit in units for source in unit.reads):
        if source.stage is None and id(source) not in given:
            raise TeError(f"{where}: inputs must hold every placeholder that is read, got none named {source.name}")
    names = [tensor.name for tensor in inputs]
    names += [name for unit in units for stage in unit.stages for name in dict.fromkeys((stage.name, *stage.names))]
    twice = sorted({n for n in names if names.count(n) > 1} | repeated(outputs))
    if twice:
        raise TeError(f"{where}: tensors must have different names, got {', '.join(twice)} twice")


def repeated(tensors: Sequence[Tensor]) -> set[str]:
    """The names of tensors listed more than once."""
    names = [tensor.name for tensor in tensors]
    return {name for name in names if names.count(name) > 1}


# --- symbols ---------------------------------------------------------------------------------------------------------


def checked_scalars(
    where: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor], units: Sequence[Stage | Scan]
) -> tuple[str, ...]:
    """The symbols in the order in which they occur; each must be a whole dimension of a parameter."""
    dims = [dim for tensor in (*inputs, *outputs) for dim in tensor.shape]
    whole = {dim.expr for dim in dims if isinstance(dim, Value)}
    stages = [stage for unit in units for stage in unit.stages]
    found = dict.fromkeys((*symbols_of(dims), *(symbol for stage in stages for symbol in stage_symbols(stage))))
    taken = {axis_name(name) for stage in stages for name in stage_axes(stage)}
    taken |= {name for stage in stages for name in stage.names} | {tensor.name for tensor in inputs}
    for symbol in found:
        if ir.Var(symbol) not in whole:
            raise TeError(f"{where}: symbol {symbol} must be a whole dimension of an input or output, got none")
        if symbol in taken:
            raise TeError(f"{where}: symbol {symbol} must differ from tensors and axes of blocks, got one of its name")
    return tuple(found)


def stage_symbols(stage: Stage) -> tuple[str, ...]:
    """The symbols that a stage names."""
    axes = stage.reduction.axes if stage.reduction else ()
    dims = [*stage.shape, *(axis.extent for axis in axes)]
    return (*symbols_of(dims), *(symbol for value in stage.values for symbol in value.symbols))


def stage_axes(stage: Stage) -> list[str]:
    """The names of a stage's axes, those over which it reduces last."""
    return [*stage.axes, *(axis.name for axis in (stage.reduction.axes if stage.reduction else ()))]


def check_axes_named(stage: Stage, scalars: tuple[str, ...]) -> None:
    """Refuse an index of another stage, which a function of the user's can have kept."""
    known = {axis_name(name) for name in stage_axes(stage)} | set(scalars)
    strange = sorted({name for expr in stage.exprs for name in var_names(expr)} - known)
    if strange:
        where = f"te.compute {', '.join(stage.names)}"
        raise TeError(f"{where}: its elements must be made of its own indices, got {strange[0]} of another stage")


# --- nests -----------------------------------------------------------------------------------------------------------


def stage_buffers(stage: Stage) -> list[ir.Buffer]:
    """The buffers that a stage computes."""
    shape = tuple(map(extent_of, stage.shape))
    return [ir.Buffer(name, shape, value.dtype) for name, value in zip(stage.names, stage.values, strict=True)]


def unit_nest(unit: Stage | Scan, names: Names) -> ir.Stmt:
    """The loops of a stage, or of all stages of a scan inside of that over its steps."""
    if isinstance(unit, Stage):
        return stage_nest(unit, names)
    extent = extent_of(unit.extent)
    var = names.fresh(unit.axis, unit.stages[0].name)
    step: ir.Expr = ir.Var(var)
    if unit.reverse:
        step = ir.Binary("sub", last_of(extent), step)
    return ir.For(var, extent, ir.seq(*(stage_nest(stage, names, step) for stage in unit.stages)))


def last_of(extent: ir.Extent) -> ir.Expr:
    """The last position of an extent."""
    return ir.Const(extent - 1) if isinstance(extent, int) else ir.Binary("sub", extent, ir.Const(1))


def stage_nest(stage: Stage, names: Names, step: ir.Expr | None = None) -> ir.Stmt:
    """The loops of a stage around its block; `step` is the value of the first axis of a stage in a scan."""
    reduced = stage.reduction.axes if stage.reduction else ()
    axes = [ir.Axis(axis_name(a), extent_of(n)) for a, n in zip(stage.axes, stage.shape, strict=True)]
    axes += [ir.Axis(axis_name(a.name), extent_of(a.extent), ir.AxisKind.REDUCE) for a in reduced]
    scanned = 0 if step is None else 1
    loops = [names.fresh(a, stage.name) for a in stage_axes(stage)[scanned:]]
    values = tuple(ir.Var(v) for v in loops)
    if step is not None:
        axes[0] = ir.Axis(axes[0].var, axes[0].extent, ir.AxisKind.SCAN)
    init, body = stage_stores(stage)
    bound = values if step is None else (step, *values)
    notes = {STARTS: "given"} if stage.reduction is not None and stage.reduction.given else {}
    nest: ir.Stmt = ir.Block(stage.name, tuple(axes), bound, body, init, annotations={**stage.annotations, **notes})
    for var, axis in zip(reversed(loops), reversed(axes[scanned:]), strict=True):
        nest = ir.For(var, axis.extent, nest)
    return nest


def stage_stores(stage: Stage) -> tuple[ir.Stmt | None, ir.Stmt]:
    """The block's init, if it reduces, and its body."""
    here = tuple(ir.Var(axis_name(a)) for a in stage.axes)
    if stage.reduction is None:
        return None, stores(stage.names, here, [value.expr for value in stage.values])
    new = tuple(Value(value.expr, value.dtype) for value in stage.values)
    so_far = tuple(Value(ir.Load(n, here), v.dtype) for n, v in zip(stage.names, stage.values, strict=True))
    update = combine(stage.reduction, so_far, new)
    init = stores(stage.names, here, stage.reduction.starts)
    return init, stores(stage.names, here, [value.expr for value in update])


def stores(names: Sequence[str], indices: tuple[ir.Expr, ...], values: Sequence[ir.Expr]) -> ir.Stmt:
    """One store, or several at once."""
    each = tuple(ir.Store(name, indices, value) for name, value in zip(names, values, strict=True))
    return each[0] if len(each) == 1 else ir.MultiStore(each)
