# SPDX-License-Identifier: Apache-2.0
"""From computed tensors to a function: one loop nest for each stage, in dependence order.

The stages of a scan share one loop over its steps.
"""

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
    """The function that computes `outputs` from `inputs`.

    Each stage becomes a loop nest around a block of the stage's name.

    Raises:
        TeError: a tensor is missing, computed where a placeholder is due, or has a name in use.
    """
    check_name("te.create_function", name)
    where = f"te.create_function {name}"
    for what, tensors in (("inputs", inputs), ("outputs", outputs)):
        if not isinstance(tensors, Sequence) or not all(isinstance(tensor, Tensor) for tensor in tensors):
            raise TeError(f"{where}: {what} must be a list of tensors, got {tensors!r}")
    units = dependence_order(where, outputs)
    _check_tensors(where, inputs, outputs, units)
    stages = [stage for unit in units for stage in unit.stages]
    buffers = {t.name: ir.Buffer(t.name, tuple(map(extent_of, t.shape)), t.dtype) for t in inputs}
    buffers |= {buffer.name: buffer for stage in stages for buffer in _stage_buffers(stage)}
    scalars = _collect_scalars(where, inputs, outputs, units)
    for stage in stages:
        _check_own_axes(stage, scalars)
    names = Names({*buffers, *scalars, *(stage.name for stage in stages)})
    body = ir.seq(*(_unit_nest(unit, names) for unit in units))
    return ir.Function(name, tuple(t.name for t in (*inputs, *outputs)), buffers, body, scalars)


def dependence_order(where: str, outputs: Sequence[Tensor]) -> list[Stage | Scan]:
    """The stages and scans that the outputs need, each after those it reads."""
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


def _check_tensors(
    where: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor], units: Sequence[Stage | Scan]
) -> None:
    """Rejects computed inputs, missing placeholders, and two tensors of one name."""
    given = {id(tensor) for tensor in inputs}
    for tensor in inputs:
        if tensor.stage is not None:
            raise TeError(f"{where}: every input must be a placeholder, got the computed {tensor.name}")
    for tensor in outputs:
        if tensor.stage is None:
            raise TeError(f"{where}: every output must be computed, got the placeholder {tensor.name}")
    for source in (source for unit in units for source in unit.reads):
        if source.stage is None and id(source) not in given:
            raise TeError(f"{where}: inputs must include every placeholder that is read, got none named {source.name}")
    names = [tensor.name for tensor in inputs]
    names += [name for unit in units for stage in unit.stages for name in dict.fromkeys((stage.name, *stage.names))]
    twice = sorted({n for n in names if names.count(n) > 1} | _duplicates(outputs))
    if twice:
        raise TeError(f"{where}: tensors must have different names, got {', '.join(twice)} twice")


def _duplicates(tensors: Sequence[Tensor]) -> set[str]:
    """The names that several of `tensors` have."""
    names = [tensor.name for tensor in tensors]
    return {name for name in names if names.count(name) > 1}


# --- symbols --------------------------------------------------------------------------------------


def _collect_scalars(
    where: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor], units: Sequence[Stage | Scan]
) -> tuple[str, ...]:
    """The symbols in order of occurrence; each must be a whole dimension of a parameter."""
    dims = [dim for tensor in (*inputs, *outputs) for dim in tensor.shape]
    whole = {dim.expr for dim in dims if isinstance(dim, Value)}
    stages = [stage for unit in units for stage in unit.stages]
    scalars = dict.fromkeys((*symbols_of(dims), *(symbol for stage in stages for symbol in _stage_symbols(stage))))
    names_in_use = {axis_name(name) for stage in stages for name in _stage_axes(stage)}
    names_in_use |= {name for stage in stages for name in stage.names} | {tensor.name for tensor in inputs}
    for symbol in scalars:
        if ir.Var(symbol) not in whole:
            raise TeError(f"{where}: symbol {symbol} must be a whole dimension of an input or output, got none")
        if symbol in names_in_use:
            raise TeError(f"{where}: symbol {symbol} must have a unique name, got a tensor or block axis of that name")
    return tuple(scalars)


def _stage_symbols(stage: Stage) -> tuple[str, ...]:
    """The symbols that occur in a stage."""
    axes = stage.reduction.axes if stage.reduction else ()
    dims = [*stage.shape, *(axis.extent for axis in axes)]
    return (*symbols_of(dims), *(symbol for value in stage.values for symbol in value.symbols))


def _stage_axes(stage: Stage) -> list[str]:
    """The names of a stage's axes, reduce axes last."""
    return [*stage.axes, *(axis.name for axis in (stage.reduction.axes if stage.reduction else ()))]


def _check_own_axes(stage: Stage, scalars: tuple[str, ...]) -> None:
    """Rejects an index of another stage, which a user's lambda can have captured."""
    known = {axis_name(name) for name in _stage_axes(stage)} | set(scalars)
    strange = sorted({name for expr in stage.exprs for name in var_names(expr)} - known)
    if strange:
        where = f"te.compute {', '.join(stage.names)}"
        raise TeError(f"{where}: its elements must use its own indices, got {strange[0]} of another stage")


# --- nests ----------------------------------------------------------------------------------------


def _stage_buffers(stage: Stage) -> list[ir.Buffer]:
    """The buffers that a stage writes."""
    shape = tuple(map(extent_of, stage.shape))
    return [ir.Buffer(name, shape, value.dtype) for name, value in zip(stage.names, stage.values, strict=True)]


def _unit_nest(unit: Stage | Scan, names: Names) -> ir.Stmt:
    """The loops of a stage, or the loop over the steps of a scan around those of its stages."""
    if isinstance(unit, Stage):
        return _stage_nest(unit, names)
    extent = extent_of(unit.extent)
    var = names.fresh(unit.axis, unit.stages[0].name)
    step: ir.Expr = ir.Var(var)
    if unit.reverse:
        step = ir.Binary("sub", last_index(extent), step)
    return ir.For(var, extent, ir.seq(*(_stage_nest(stage, names, step) for stage in unit.stages)))


def last_index(extent: ir.Extent) -> ir.Expr:
    """The last index below an extent."""
    return ir.Const(extent - 1) if isinstance(extent, int) else ir.binary("sub", extent, 1)


def _stage_nest(stage: Stage, names: Names, step: ir.Expr | None = None) -> ir.Stmt:
    """The loops of a stage around its block; in a scan, `step` is the value of its first axis."""
    reduced = stage.reduction.axes if stage.reduction else ()
    axes = [ir.Axis(axis_name(a), extent_of(n)) for a, n in zip(stage.axes, stage.shape, strict=True)]
    axes += [ir.Axis(axis_name(a.name), extent_of(a.extent), ir.AxisKind.REDUCE) for a in reduced]
    scanned = 0 if step is None else 1
    loops = [names.fresh(a, stage.name) for a in _stage_axes(stage)[scanned:]]
    values = tuple(ir.Var(v) for v in loops)
    if step is not None:
        axes[0] = ir.Axis(axes[0].var, axes[0].extent, ir.AxisKind.SCAN)
    init, body = _stage_stores(stage)
    bound = values if step is None else (step, *values)
    notes = {STARTS: "given"} if stage.reduction is not None and stage.reduction.given else {}
    nest: ir.Stmt = ir.Block(
        name=stage.name,
        axes=tuple(axes),
        values=bound,
        body=body,
        init=init,
        annotations={**stage.annotations, **notes},
    )
    for var, axis in zip(reversed(loops), reversed(axes[scanned:]), strict=True):
        nest = ir.For(var, axis.extent, nest)
    return nest


def _stage_stores(stage: Stage) -> tuple[ir.Stmt | None, ir.Stmt]:
    """The init of the block, None without a reduction, and its body."""
    here = tuple(ir.Var(axis_name(a)) for a in stage.axes)
    if stage.reduction is None:
        return None, _stores(stage.names, here, [value.expr for value in stage.values])
    new = tuple(Value(value.expr, value.dtype) for value in stage.values)
    so_far = tuple(Value(ir.Load(n, here), v.dtype) for n, v in zip(stage.names, stage.values, strict=True))
    update = combine(stage.reduction, so_far, new)
    init = _stores(stage.names, here, stage.reduction.starts)
    return init, _stores(stage.names, here, [value.expr for value in update])


def _stores(names: Sequence[str], indices: tuple[ir.Expr, ...], values: Sequence[ir.Expr]) -> ir.Stmt:
    """A store, or a simultaneous store to several buffers."""
    stage_stores = tuple(ir.Store(name, indices, value) for name, value in zip(names, values, strict=True))
    return stage_stores[0] if len(stage_stores) == 1 else ir.MultiStore(stage_stores)
