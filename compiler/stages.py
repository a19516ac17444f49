"""From computed tensors to a function: one loop nest a stage, in order of dependence."""

from __future__ import annotations

from collections.abc import Sequence

from vdla.compiler import ir
from vdla.compiler.element import Stage, TeError, Tensor, Value, axis_name, check_name, result_of
from vdla.compiler.names import Names


def create_function(inputs: Sequence[Tensor], outputs: Sequence[Tensor], name: str) -> ir.Function:
    """The function that computes `outputs` from `inputs`: for each stage, in order of dependence, one nest around one
    block of the tensor's name."""
    check_name("te.create_function", name)
    where = f"te.create_function {name}"
    for what, tensors in (("inputs", inputs), ("outputs", outputs)):
        if not isinstance(tensors, Sequence) or not all(isinstance(tensor, Tensor) for tensor in tensors):
            raise TeError(f"{where}: {what} must be a list of tensors, got {tensors!r}")
    stages = ordered_stages(where, outputs)
    check_tensors(where, inputs, outputs, stages)
    everything = [*inputs, *stages]
    names = Names({tensor.name for tensor in everything})
    body = ir.seq(*(stage_nest(tensor, names) for tensor in stages))
    buffers = {t.name: ir.Buffer(t.name, t.shape, t.dtype) for t in everything}
    return ir.Function(name, tuple(t.name for t in (*inputs, *outputs)), buffers, body)


def ordered_stages(where: str, outputs: Sequence[Tensor]) -> list[Tensor]:
    """Every computed tensor that the outputs need, after those it reads."""
    if not outputs:
        raise TeError(f"{where}: outputs must name at least one tensor, got none")
    done: dict[int, Tensor] = {}
    work = [(tensor, False) for tensor in reversed(outputs)]
    while work:
        tensor, ready = work.pop()
        if tensor.stage is None or id(tensor) in done:
            continue
        if ready:
            done[id(tensor)] = tensor
            continue
        work.append((tensor, True))
        work.extend((source, False) for source in reversed(tensor.stage.value.tensors))
    return list(done.values())


def check_tensors(where: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor], stages: list[Tensor]) -> None:
    """Refuse inputs that are computed, placeholders that are missing, and two tensors of one name."""
    given = {id(tensor) for tensor in inputs}
    for tensor in inputs:
        if tensor.stage is not None:
            raise TeError(f"{where}: every input must be a placeholder, got the computed {tensor.name}")
    for tensor in outputs:
        if tensor.stage is None:
            raise TeError(f"{where}: every output must be computed, got the placeholder {tensor.name}")
    for stage in stages:
        for source in stage.stage.value.tensors if stage.stage else ():
            if source.stage is None and id(source) not in given:
                raise TeError(f"{where}: inputs must hold every placeholder that is read, got none named {source.name}")
    names = [tensor.name for tensor in (*inputs, *stages)]
    twice = sorted({n for n in names if names.count(n) > 1} | repeated(outputs))
    if twice:
        raise TeError(f"{where}: tensors must have different names, got {', '.join(twice)} twice")


def repeated(tensors: Sequence[Tensor]) -> set[str]:
    """The names of tensors listed more than once."""
    names = [tensor.name for tensor in tensors]
    return {name for name in names if names.count(name) > 1}


def stage_nest(tensor: Tensor, names: Names) -> ir.Stmt:
    """The loops of a stage around its block."""
    stage = tensor.stage
    assert stage is not None
    reduction = stage.value.reduction
    reduce_axes = reduction.axes if reduction else ()
    axes = [ir.Axis(axis_name(a), n) for a, n in zip(stage.axes, tensor.shape, strict=True)]
    axes += [ir.Axis(axis_name(a.name), a.extent, ir.AxisKind.REDUCE) for a in reduce_axes]
    loops = [names.fresh(a, tensor.name) for a in (*stage.axes, *(a.name for a in reduce_axes))]
    init, body = stage_stores(tensor.name, stage)
    nest: ir.Stmt = ir.Block(tensor.name, tuple(axes), tuple(ir.Var(v) for v in loops), body, init)
    for var, axis in zip(reversed(loops), reversed(axes), strict=True):
        nest = ir.For(var, axis.extent, nest)
    return nest


def stage_stores(name: str, stage: Stage) -> tuple[ir.Stmt | None, ir.Stmt]:
    """The block's init, if it reduces, and its body."""
    here = tuple(ir.Var(axis_name(a)) for a in stage.axes)
    value = stage.value
    if value.reduction is None:
        return None, ir.Store(name, here, value.expr)
    so_far = Value(ir.Load(name, here), value.dtype)
    combine = value.reduction.reducer
    update = result_of(f"te.{combine.name}", combine.combine(so_far, Value(value.expr, value.dtype)))
    if update.dtype != value.dtype:
        raise TeError(f"te.{combine.name}: combine must keep the dtype {value.dtype}, got {update.dtype}")
    return ir.Store(name, here, value.reduction.identity), ir.Store(name, here, update.expr)
