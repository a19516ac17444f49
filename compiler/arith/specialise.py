"""Numbers for the symbolic extents of a function: `specialise(fn, {"n": 5})` is `fn` with every n replaced by 5.

Extents become numbers; in elements and indices the symbol becomes a constant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from vdla.compiler import ir
from vdla.compiler.arith.evaluate import evaluate
from vdla.support.errors import Error
from vdla.support.integers import is_int


class SpecialiseError(Error, ValueError):
    """Symbols that are not given, or whose values make no shape."""


def specialise(fn: ir.Function, values: Mapping[str, int]) -> ir.Function:
    """`fn` with a number for each of its symbols.

    Raises:
        SpecialiseError: a symbol is missing, unknown or no extent, or a buffer would have no elements or too many.
    """
    if not isinstance(fn, ir.Function):
        raise SpecialiseError(f"specialise: fn must be a Function, as of schedule.fn, got {type(fn).__name__}")
    where = f"specialise {fn.name}"
    if not isinstance(values, Mapping):
        raise SpecialiseError(f"{where}: values must be a mapping of symbols to numbers, got {values!r}")
    if set(values) != set(fn.scalars):
        raise SpecialiseError(f"{where}: values must be given for {listed(fn.scalars)}, got {listed(tuple(values))}")
    for name, value in values.items():
        if not is_int(value) or not 1 <= value <= ir.MAX_EXTENT:
            raise SpecialiseError(f"{where}: {name} must be an integer from 1 to {ir.MAX_EXTENT}, got {value!r}")
    if not fn.scalars:
        return fn
    values = {name: int(value) for name, value in values.items()}
    constants: dict[str, ir.Expr] = {name: ir.Const(value) for name, value in values.items()}
    buffers = {name: special_buffer(where, buffer, values) for name, buffer in fn.buffers.items()}
    return replace(fn, buffers=buffers, body=special_stmt(fn.body, constants, values), scalars=())


def listed(names: tuple[str, ...]) -> str:
    """Names, or that there are none."""
    return ", ".join(names) or "no symbols"


def special_extent(extent: ir.Extent, values: Mapping[str, int]) -> int:
    """An extent as a number."""
    return extent if isinstance(extent, int) else int(evaluate(extent, values))


def special_buffer(where: str, buffer: ir.Buffer, values: Mapping[str, int]) -> ir.Buffer:
    """A buffer of numbers."""
    shape = tuple(special_extent(extent, values) for extent in buffer.shape)
    for dimension, extent in enumerate(shape):
        if not 1 <= extent <= ir.MAX_EXTENT:
            what = f"dimension {dimension} of {buffer.name}"
            raise SpecialiseError(f"{where}: {what} must be from 1 to {ir.MAX_EXTENT}, got {extent}")
    return replace(buffer, shape=shape)


def special_stmt(stmt: ir.Stmt, constants: Mapping[str, ir.Expr], values: Mapping[str, int]) -> ir.Stmt:
    """A statement without symbols."""
    inner = tuple(special_stmt(child, constants, values) for child in ir.children(stmt))
    stmt = ir.with_children(stmt, inner)
    match stmt:
        case ir.For(extent=extent):
            return replace(stmt, extent=special_extent(extent, values))
        case ir.Store(indices=indices, value=value):
            places = tuple(ir.substitute(index, constants) for index in indices)
            return replace(stmt, indices=places, value=ir.substitute(value, constants))
        case ir.Prefetch(indices=indices):
            return replace(stmt, indices=tuple(ir.substitute(index, constants) for index in indices))
        case ir.If(cond=cond):
            return replace(stmt, cond=ir.substitute(cond, constants))
        case ir.Block():
            return special_block(stmt, constants, values)
        case ir.IntrinsicCall(match=match):
            return replace(stmt, match=special_match(match, constants))
    return stmt


def special_block(block: ir.Block, constants: Mapping[str, ir.Expr], values: Mapping[str, int]) -> ir.Block:
    """A block without symbols in its axes, bindings, predicate and intrinsic."""
    notes = dict(block.annotations)
    if "intrinsic" in notes:
        notes["intrinsic"] = special_match(notes["intrinsic"], constants)
    return replace(
        block,
        annotations=notes,
        axes=tuple(replace(axis, extent=special_extent(axis.extent, values)) for axis in block.axes),
        values=tuple(ir.substitute(value, constants) for value in block.values),
        predicate=None if block.predicate is None else ir.substitute(block.predicate, constants),
    )


def special_match(match: ir.Match, constants: Mapping[str, ir.Expr]) -> ir.Match:
    """The operands of an intrinsic without symbols."""
    entries = {n: tuple(ir.substitute(e, constants) for e in at) for n, at in match.entries.items()}
    conditions = {n: ir.substitute(condition, constants) for n, condition in match.conditions.items()}
    return replace(match, entries=entries, conditions=conditions)


def scalars_of(fn: ir.Function, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """The values of the symbols of `fn`, from the shapes of (some of) its parameters.

    Raises:
        SpecialiseError: two dimensions disagree, or none tells a symbol.
    """
    found: dict[str, tuple[int, str]] = {}
    for name in (name for name in fn.params if name in shapes):
        for extent, size in zip(fn.buffers[name].shape, shapes[name], strict=False):
            if isinstance(extent, ir.Var):
                value, first = found.setdefault(extent.name, (size, name))
                if value != size:
                    got = f"{value} in {first} and {size} in {name}"
                    raise SpecialiseError(f"{fn.name}: {extent.name} must be the same everywhere, got {got}")
    for symbol in fn.scalars:
        if symbol not in found:
            rule = f"{symbol} must be a dimension of an array that is given"
            raise SpecialiseError(f"{fn.name}: {rule}, got none; call specialise(fn, {{{symbol!r}: ...}}) first")
    return {symbol: found[symbol][0] for symbol in fn.scalars}
