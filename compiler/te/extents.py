"""Extents of shapes and axes: positive integers, or int32 arithmetic on symbols of `te.var`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vdla.compiler import ir
from vdla.compiler.arith import simplify, var_names
from vdla.compiler.ir import expr_text, size_violation
from vdla.compiler.te.expr import Dim, TeError, Value
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
