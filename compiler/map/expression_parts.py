"""The parts of a plain expression: sums, their epilogue, and a choice of its elements."""

from __future__ import annotations

from vdla.compiler import ir, te
from vdla.compiler.map.table import is_table
from vdla.compiler.te import Stage
from vdla.compiler.te.expr import axis_name, merge_unique


def viewed(output: te.Tensor) -> tuple[te.Tensor, te.Tensor | None]:
    """(result, view): the result that `output` has elements of, None where it is one itself."""
    stage = output.stage
    if isinstance(stage, Stage) and stage.reduction is None and isinstance(stage.value.expr, ir.Load):
        source, *others = stage.reads  # others are read where an index depends on data
        if source.stage is not None and not others:
            return source, output
    return output, None


def looked_up(output: te.Tensor) -> te.Tensor:
    """A result that is looked up in a table, as one stage: where the table is indexed by elements
    of a requantised tensor, its computation takes their place.
    """
    stage = output.stage
    computed = [tensor for tensor in stage.reads if tensor.stage is not None] if isinstance(stage, Stage) else []
    if not isinstance(stage, Stage) or stage.reduction is not None or len(computed) != 1:
        return output
    (inner,) = computed
    own = tuple(ir.Var(axis_name(axis)) for axis in stage.axes)
    loads = [e for e in ir.walk_expr(stage.value.expr) if isinstance(e, ir.Load)]
    at_own_place = all(load.indices == own for load in loads if load.buffer == inner.name)
    if sums_of(inner) is inner or not any(map(is_table, loads)) or not at_own_place:
        return output
    before = inner.stage
    assert isinstance(before, Stage), "requantised, by what `sums_of` says"

    def value(*at: te.Value) -> te.Value:
        element = ir.substitute(before.value.expr, _places(before, at))
        expr = _with_element(ir.substitute(stage.value.expr, _places(stage, at)), inner.name, element)
        others = tuple(tensor for tensor in stage.reads if tensor is not inner)
        return te.Value(expr, output.dtype, tensors=merge_unique(before.reads, others))

    fused: te.Tensor = te.compute(output.shape, value, output.name)
    return fused


def _places(stage: Stage, at: tuple[te.Value, ...]) -> dict[str, ir.Expr]:
    return {axis_name(axis): place.expr for axis, place in zip(stage.axes, at, strict=True)}


def _with_element(expr: ir.Expr, name: str, element: ir.Expr) -> ir.Expr:
    """`expr` with the loads of a tensor replaced."""
    if isinstance(expr, ir.Load) and expr.buffer == name:
        return element
    old = ir.operands(expr)
    new = tuple(_with_element(operand, name, element) for operand in old)
    return expr if new == old else ir.with_operands(expr, new)


def sums_of(output: te.Tensor) -> te.Tensor:
    """The sums of a result: itself where it has 32 bits, or what its epilogue reads."""
    stage = output.stage
    if isinstance(stage, Stage) and stage.reduction is None and output.dtype != "int32":
        computed = [tensor for tensor in stage.reads if tensor.stage is not None]
        if len(computed) == 1:
            return computed[0]
    return output
