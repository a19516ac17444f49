# SPDX-License-Identifier: Apache-2.0
"""Constants for the symbolic extents of a function.

`specialise(fn, {"n": 5})` is `fn` with n replaced by 5 in every extent, index and value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from vdla.compiler import ir
from vdla.compiler.arith.evaluate import evaluate
from vdla.support.errors import Error
from vdla.support.integers import is_int


class SpecialiseError(Error, ValueError):
    """Missing symbols, or values that do not make valid shapes."""


def specialise(fn: ir.Function, values: Mapping[str, int]) -> ir.Function:
    """`fn` with a constant for each of its symbols.

    Raises:
        SpecialiseError: a symbol is missing, unknown or out of range, or an extent of a buffer is.
    """
    if not isinstance(fn, ir.Function):
        raise SpecialiseError(f"specialise: fn must be a Function, as of schedule.fn, got {type(fn).__name__}")
    where = f"specialise {fn.name}"
    if not isinstance(values, Mapping):
        raise SpecialiseError(f"{where}: values must be a mapping of symbols to numbers, got {values!r}")
    if set(values) != set(fn.scalars):
        raise SpecialiseError(
            f"{where}: values must be given for {_name_list(fn.scalars)}, got {_name_list(tuple(values))}"
        )
    for name, value in values.items():
        if not is_int(value) or not 1 <= value <= ir.MAX_EXTENT:
            raise SpecialiseError(f"{where}: {name} must be an integer from 1 to {ir.MAX_EXTENT}, got {value!r}")
    if not fn.scalars:
        return fn
    values = {name: int(value) for name, value in values.items()}
    constants: dict[str, ir.Expr] = {name: ir.Const(value) for name, value in values.items()}
    buffers = {name: _specialise_buffer(where, buffer, values) for name, buffer in fn.buffers.items()}
    return replace(fn, buffers=buffers, body=_specialise_stmt(fn.body, constants, values), scalars=())


def _name_list(names: tuple[str, ...]) -> str:
    """The names as a list, for messages."""
    return ", ".join(names) or "no symbols"


def _value_of(extent: ir.Extent, values: Mapping[str, int]) -> int:
    """The value of an extent."""
    return extent if isinstance(extent, int) else int(evaluate(extent, values))


def _specialise_buffer(where: str, buffer: ir.Buffer, values: Mapping[str, int]) -> ir.Buffer:
    """`buffer` with a constant shape."""
    shape = tuple(_value_of(extent, values) for extent in buffer.shape)
    for dimension, extent in enumerate(shape):
        if not 1 <= extent <= ir.MAX_EXTENT:
            what = f"dimension {dimension} of {buffer.name}"
            raise SpecialiseError(f"{where}: {what} must be from 1 to {ir.MAX_EXTENT}, got {extent}")
    return replace(buffer, shape=shape)


def _specialise_stmt(stmt: ir.Stmt, constants: Mapping[str, ir.Expr], values: Mapping[str, int]) -> ir.Stmt:
    """`stmt` without symbols."""
    inner = tuple(_specialise_stmt(child, constants, values) for child in ir.children(stmt))
    stmt = ir.with_children(stmt, inner)
    match stmt:
        case ir.For(extent=extent):
            return replace(stmt, extent=_value_of(extent, values))
        case ir.Store(indices=indices, value=value):
            new = tuple(ir.substitute(index, constants) for index in indices)
            return replace(stmt, indices=new, value=ir.substitute(value, constants))
        case ir.Prefetch(indices=indices):
            return replace(stmt, indices=tuple(ir.substitute(index, constants) for index in indices))
        case ir.If(cond=cond):
            return replace(stmt, cond=ir.substitute(cond, constants))
        case ir.Block():
            return _specialise_block(stmt, constants, values)
        case ir.IntrinsicCall(match=match):
            return replace(stmt, match=_specialise_match(match, constants))
    return stmt


def _specialise_block(block: ir.Block, constants: Mapping[str, ir.Expr], values: Mapping[str, int]) -> ir.Block:
    """`block` without symbols; its init and body are done by the caller."""
    notes = dict(block.annotations)
    if "intrinsic" in notes:
        notes["intrinsic"] = _specialise_match(notes["intrinsic"], constants)
    return replace(
        block,
        annotations=notes,
        axes=tuple(replace(axis, extent=_value_of(axis.extent, values)) for axis in block.axes),
        values=tuple(ir.substitute(value, constants) for value in block.values),
        predicate=None if block.predicate is None else ir.substitute(block.predicate, constants),
    )


def _specialise_match(match: ir.Match, constants: Mapping[str, ir.Expr]) -> ir.Match:
    """`match` without symbols."""
    return ir.map_match(match, lambda expr: ir.substitute(expr, constants))


def scalars_of(fn: ir.Function, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """The values of the symbols of `fn`, from the shapes of some or all of its parameters.

    Raises:
        SpecialiseError: two dimensions disagree, or no dimension determines a symbol.
    """
    result: dict[str, tuple[int, str]] = {}
    for name in (name for name in fn.params if name in shapes):
        for extent, size in zip(fn.buffers[name].shape, shapes[name], strict=False):
            if isinstance(extent, ir.Var):
                value, first = result.setdefault(extent.name, (size, name))
                if value != size:
                    got = f"{value} in {first} and {size} in {name}"
                    raise SpecialiseError(f"{fn.name}: {extent.name} must be the same everywhere, got {got}")
    for symbol in fn.scalars:
        if symbol not in result:
            rule = f"{symbol} must be a dimension of an array that is given"
            raise SpecialiseError(f"{fn.name}: {rule}, got none; call specialise(fn, {{{symbol!r}: ...}}) first")
    return {symbol: result[symbol][0] for symbol in fn.scalars}
