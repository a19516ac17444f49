# SPDX-License-Identifier: Apache-2.0
"""Extents of shapes and axes: positive integers, or int32 arithmetic on symbols of `te.var`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from vdla.compiler import ir
from vdla.compiler.arith import Range, linear, linear_bounds, simplify, var_names
from vdla.compiler.ir import expr_text, size_violation
from vdla.compiler.te.expr import Dim, Stage, TeError, Value, axis_name
from vdla.support.integers import is_int, to_python


def check_shape(where: str, shape: Sequence[Dim]) -> tuple[Dim, ...]:
    """The shape as a tuple of at least one extent."""
    if not isinstance(shape, Sequence) or not shape:
        raise TeError(f"{where}: the shape must be a sequence of at least one extent, got {shape!r}")
    if len(shape) > ir.MAX_RANK:
        raise TeError(f"{where}: the shape must be of at most {ir.MAX_RANK} extents, got {len(shape)}")
    return tuple(check_extent(where, f"extent {d} of the shape", extent) for d, extent in enumerate(shape))


def check_extent(where: str, what: str, extent: Dim) -> Dim:
    """An extent: a positive int32, or an int32 expression over symbols alone."""
    if isinstance(extent, Value):
        extent = _check_symbolic(where, what, extent)
        if not isinstance(extent.expr, ir.Const):
            return extent
        extent = extent.expr.value
    value = to_python(extent)
    if not is_int(value) or value <= 0:
        raise TeError(f"{where}: {what} must be a positive integer, got {value!r}")
    if value > ir.MAX_EXTENT:
        raise TeError(f"{where}: {what} must be at most {ir.MAX_EXTENT}, got {value}")
    return int(value)


def _check_symbolic(where: str, what: str, extent: Value) -> Value:
    """A symbolic extent such as `n + 2`, simplified, so that equal extents compare equal."""
    if extent.dtype != "int32":
        raise TeError(f"{where}: {what} must be int32, got {extent.dtype}")
    if (broken := size_violation(extent.expr)) is not None:
        raise TeError(f"{where}: {what} {broken}")
    if extent.tensors or not var_names(extent.expr) <= set(extent.symbols):
        raise TeError(f"{where}: {what} must consist of integers and te.var, got {expr_text(extent.expr)}")
    if not all(map(_is_arithmetic, ir.walk_expr(extent.expr))):
        raise TeError(f"{where}: {what} must be made with {', '.join(ir.INDEX_OPS)}, got {expr_text(extent.expr)}")
    expr = simplify(extent.expr, {})
    return replace(extent, expr=expr, symbols=tuple(s for s in extent.symbols if s in var_names(expr)))


def _is_arithmetic(part: ir.Expr) -> bool:
    """Whether a node of an extent is a variable, a constant or one of INDEX_OPS."""
    return isinstance(part, ir.Var | ir.Const) or (isinstance(part, ir.Binary) and part.op in ir.INDEX_OPS)


def extent_of(dim: Dim) -> ir.Extent:
    """The extent in the IR."""
    return dim.expr if isinstance(dim, Value) else int(dim)


def symbols_of(dims: Sequence[Dim]) -> tuple[str, ...]:
    """The symbols in extents."""
    return tuple(symbol for dim in dims if isinstance(dim, Value) for symbol in dim.symbols)


# --- parameters of functions of indices -----------------------------------------------------------

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def parameter_names(where: str, rule: str, function: object, count: int) -> list[str]:
    """The names of the parameters; `*args` fills up to `count` with i0, i1, ... by position.

    `rule` is the requirement on `function`, for the error message.
    """
    try:
        parameters = inspect.signature(function).parameters.values()  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise TeError(f"{where}: {rule}, got {function!r}") from None
    needed = [p for p in parameters if p.default is p.empty]
    for parameter in needed:
        if parameter.kind is parameter.KEYWORD_ONLY:
            raise TeError(f"{where}: {rule}, got one that needs the keyword {parameter.name}")
    names = [p.name for p in needed if p.kind in _POSITIONAL]
    if any(p.kind is p.VAR_POSITIONAL for p in needed):
        names += [f"i{place}" for place in range(len(names), count)]
    return names


def with_axes(names: Sequence[str], function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of any number of indices, as the body of a `compute` with axes of these names."""

    def body(*indices: Any) -> Any:  # noqa: ANN401  elements, and what the function gives
        return function(*indices)

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    body.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])  # type: ignore[attr-defined]
    return body


# --- bounds of indices ----------------------------------------------------------------------------

_Shapes = Mapping[str, tuple[object, ...]]  # an extent that is not an int is symbolic


def check_bounds(stage: Stage) -> None:
    """Rejects a stage that certainly reads outside a tensor."""
    axes = stage.reduction.axes if stage.reduction else ()
    extents = [*zip(stage.axes, stage.shape, strict=True), *((axis.name, axis.extent) for axis in axes)]
    ranges = {axis_name(name): (0, extent - 1) for name, extent in extents if isinstance(extent, int)}
    shapes = {tensor.name: tensor.shape for tensor in stage.reads}
    for expr in stage.exprs:
        broken = _find_violation(expr, shapes, ranges)
        if broken is not None:
            raise TeError(f"te.compute {', '.join(stage.names)}: {broken}")


def _find_violation(expr: ir.Expr, shapes: _Shapes, ranges: Mapping[str, Range]) -> str | None:
    """The first certain out-of-bounds read, as `index ... must ..., got ...`; None without one."""
    for load in _unconditional_loads(expr):
        for dimension, (index, extent) in enumerate(zip(load.indices, shapes.get(load.buffer, ()), strict=False)):
            bounds = _attained_bounds(index, ranges)
            if isinstance(extent, int) and bounds is not None and not (bounds[0] >= 0 and bounds[1] < extent):
                got = f"{bounds[0]} to {bounds[1]}"
                return f"index {dimension} of {load.buffer} must satisfy 0 <= index < {extent}, got {got}"
    return None


def _unconditional_loads(expr: ir.Expr) -> Iterator[ir.Load]:
    """The loads that every element evaluates; shared subtrees are visited once."""
    seen: set[int] = set()
    pending = [expr]
    while pending:
        inner = pending.pop()
        if id(inner) in seen:
            continue
        seen.add(id(inner))
        if isinstance(inner, ir.Load):
            yield inner
        pending.extend((inner.cond,) if isinstance(inner, ir.Select) else ir.operands(inner))


def _attained_bounds(index: ir.Expr, ranges: Mapping[str, Range]) -> Range | None:
    """The smallest and largest value that an index attains; None if they are not known exactly."""
    match index:
        case ir.Binary(op="floordiv", a=a, b=ir.Const(value=divisor)) if divisor > 0:
            inner = _attained_bounds(a, ranges)
            return None if inner is None else (inner[0] // int(divisor), inner[1] // int(divisor))
    form = linear(index)
    if all(isinstance(term, ir.Var) and term.name in ranges for term in form.terms):
        return linear_bounds(form, ranges)
    return None
