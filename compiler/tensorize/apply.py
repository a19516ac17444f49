# SPDX-License-Identifier: Apache-2.0
"""Tensorize: mark a loop nest that computes what an intrinsic declares as one step of that
intrinsic.

The nest keeps its loops and its meaning; its block is annotated with the `Match`, from which
lowering emits instructions. A nest that does not match is refused with the first difference (axis,
stride, dtype or scope) and its remedy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from vdla.compiler import ir
from vdla.compiler.arith import Linear, linear, var_names
from vdla.compiler.ir import Match, expr_text, extent_text, substitute_in
from vdla.compiler.ir.by_identity import by_identity
from vdla.compiler.tensorize.fragment import AxisOutsideError, TensorizeError
from vdla.compiler.tensorize.intrinsic import Intrinsic
from vdla.compiler.tensorize.matcher import Matcher

__all__ = ["TensorizeError", "match_block", "tensorize"]


def tensorize(fn: ir.Function, name: str, intrinsic: Intrinsic) -> ir.Function:
    """Run a nest as one step of `intrinsic`: the loops of its entry around block `name`, or from
    loop `name` inwards.

    before: for b in range(1): for o in range(16): for i in range(16): acc[b, o] += ...
    after:  the same nest, its outermost loop and its block annotated with the intrinsic

    Raises:
        TensorizeError: names what differs and how to schedule the nest so that it matches.
    """
    if not isinstance(intrinsic, Intrinsic):
        raise TensorizeError(f"tensorize of {name}: intrinsic must be an Intrinsic, got {intrinsic!r}")
    above, nest, match = _find_nest(fn, name, intrinsic)
    return replace(fn, body=_replaced(above, nest, _marked(nest, intrinsic, match)))


# --- finding the nest -----------------------------------------------------------------------------


_Path = tuple[ir.Stmt, ...]
_Nest = tuple[_Path, ir.For, Match]
"""The statements around a nest, its outermost loop, and its match."""


def _find_nest(fn: ir.Function, name: str, intrinsic: Intrinsic) -> _Nest:
    """The nest that `name` denotes."""
    paths = list(_paths_to(fn.body, name, []))
    loops = [path for path in paths if isinstance(path[-1], ir.For)]
    blocks = [path for path in paths if isinstance(path[-1], ir.Block)]
    match loops, blocks:
        case [(*above, ir.For() as loop)], []:
            return tuple(above), loop, _match_nest(fn, loop, intrinsic)
        case [], [path]:
            return _match_around(fn, path, intrinsic)
        case [], []:
            blocks_and_loops = f"a block ({', '.join(_block_names(fn))}) or a loop ({', '.join(_loop_names(fn))})"
            raise TensorizeError(f"tensorize: name must be that of {blocks_and_loops}, got {name!r}")
    raise TensorizeError(
        f"tensorize of {name}: name must be that of one block or loop, got {len(blocks)} blocks and {len(loops)} loops"
    )


def _match_around(fn: ir.Function, path: _Path, intrinsic: Intrinsic) -> _Nest:
    """The nest around the block at the end of `path` that is one step of `intrinsic`.

    Nests that match differ by loops of extent 1 only. The one of as many loops as an entry has axes
    is tried first, then the larger and the smaller ones. If none matches, the error is that of the
    first with all axes inside.
    """
    loops = [stmt for stmt in path if isinstance(stmt, ir.For)]
    if not loops:
        block = path[-1]
        assert isinstance(block, ir.Block)
        raise TensorizeError(
            f"tensorize {intrinsic.name} at block {block.name}: the loops of one entry must lie around it, got none"
        )
    depth = min(_entry_depth(intrinsic), len(loops))
    errors: list[TensorizeError] = []
    for loop in (*reversed(loops[: len(loops) - depth + 1]), *reversed(loops[len(loops) - depth + 1 :])):
        try:
            return path[: _position(path, loop)], loop, _match_nest(fn, loop, intrinsic)
        except TensorizeError as error:
            errors.append(error)
    raise next((error for error in errors if not isinstance(error, AxisOutsideError)), errors[0])


def _position(path: _Path, stmt: ir.Stmt) -> int:
    """Where a statement is on a path."""
    return next(index for index, other in enumerate(path) if other is stmt)


@lru_cache(maxsize=256)
def _entry_depth(intrinsic: Intrinsic) -> int:
    """The number of axes of an entry: those that the behaviour's indices use."""
    (block,) = ir.find(intrinsic.behaviour.body, ir.Block)
    assert isinstance(block.body, ir.Store)
    exprs = (*block.body.indices, block.body.value)
    used = {e.name for expr in exprs for e in ir.find(expr, ir.Var)}
    return max(1, sum(axis.var in used for axis in block.axes))


def _match_nest(fn: ir.Function, nest: ir.For, intrinsic: Intrinsic) -> Match:
    """The match of a nest with the intrinsic or an alternative."""
    block, loops = perfect_nest(nest, intrinsic)
    try:
        return match_block(fn, block, loops, intrinsic)
    except TensorizeError as error:
        for other in intrinsic.alternatives:
            try:
                return match_block(fn, block, loops, other)
            except TensorizeError:
                continue
        raise error


def _paths_to(stmt: ir.Stmt, name: str, above: list[ir.Stmt]) -> Iterator[tuple[ir.Stmt, ...]]:
    """The paths of the loops and blocks of a name; `above` has the statements around."""
    above.append(stmt)
    label = stmt.var if isinstance(stmt, ir.For) else stmt.name if isinstance(stmt, ir.Block) else None
    if label is not None and label == name:
        yield tuple(above)
    for child in ir.children(stmt):
        yield from _paths_to(child, name, above)
    above.pop()


def _loop_names(fn: ir.Function) -> list[str]:
    return [stmt.var for stmt in ir.find(fn.body, ir.For)]


def _block_names(fn: ir.Function) -> list[str]:
    return [stmt.name for stmt in ir.find(fn.body, ir.Block)]


# --- matching a nest ------------------------------------------------------------------------------


def perfect_nest(nest: ir.For, intrinsic: ir.DeclaredIntrinsic) -> tuple[ir.Block, dict[str, int]]:
    """The single block inside `nest`, and the extents of the loops from `nest` inwards."""
    loops: dict[str, int] = {}
    stmt: ir.Stmt = nest
    while isinstance(stmt, ir.For):
        if not isinstance(stmt.extent, int):
            raise TensorizeError(
                f"tensorize {intrinsic.name} at loop {nest.var}: every extent inside must be a number, got "
                f"{extent_text(stmt.extent)} of loop {stmt.var}; split it and tensorize the inner loop"
            )
        loops[stmt.var] = stmt.extent
        stmt = stmt.body
    if not isinstance(stmt, ir.Block):
        raise TensorizeError(
            f"tensorize {intrinsic.name} at loop {nest.var}: the loops inside must hold a single block, got "
            f"{len(ir.children(stmt))} statements; move the others out with compute_at or reverse_compute_at"
        )
    return stmt, loops


def match_block(
    fn: ir.Function, block: ir.Block, loops: Mapping[str, int], intrinsic: ir.DeclaredIntrinsic
) -> ir.Match:
    """How `block`, over the given inner loops (their extents, outermost first), is one step of
    `intrinsic`."""
    where = f"tensorize {intrinsic.name} at block {block.name}"
    block = tiled_block(block, loops) if intrinsic.target == "gpu" else block
    inner = _inner_axes(block, loops, intrinsic, where)
    given = fn, block, intrinsic, where, inner, tuple(loops)
    if intrinsic.target != "vdla":  # whose floats may be equal and differ, as 0.0 and -0.0
        return Matcher(*given).match()
    buffers = tuple(fn.buffers[name] for name in _buffers_of(block.body))
    key = block.body, block.init, block.axes, buffers, tuple(inner.items()), intrinsic
    return _matched(_Question(given, key))


@dataclass(frozen=True, slots=True)
class _Question:
    """What a match is `given`, and what it depends on: schedules of a function differ in the loops
    around a block, and ask again.
    """

    given: tuple[ir.Function, ir.Block, ir.DeclaredIntrinsic, str, dict[str, int], tuple[str, ...]] = field(
        compare=False
    )
    key: tuple[object, ...]


@lru_cache(maxsize=64)
def _matched(question: _Question) -> ir.Match:
    return Matcher(*question.given).match()


@by_identity(most=256)
def _buffers_of(body: ir.Stmt) -> tuple[str, ...]:
    """The buffers that the stores of a block access."""
    stores = list(ir.find(body, ir.Store))
    read = (e for store in stores for part in (store.value, *store.indices) for e in ir.walk_expr(part))
    loads = [e.buffer for e in read if isinstance(e, ir.Load)]
    return tuple(dict.fromkeys([*(store.buffer for store in stores), *loads]))


def _inner_axes(
    block: ir.Block, loops: Mapping[str, int], intrinsic: ir.DeclaredIntrinsic, where: str
) -> dict[str, int]:
    """The extents of the block axes that the inner loops drive, each by one whole loop."""
    inner: dict[str, int] = {}
    for axis, value in block.bindings:
        used = [e.name for e in ir.find(value, ir.Var) if e.name in loops]
        if not used:
            if axis.extent == 1 and isinstance(value, ir.Const):  # its loop is gone
                inner[axis.var] = 1
            continue
        if value != ir.Var(used[0]) or loops[used[0]] != axis.extent:
            raise TensorizeError(
                f"{where}: axis {axis.var} must be one whole loop of extent {axis.extent} inside the tensorized loop, "
                f"got {expr_text(value)} with {', '.join(f'{v} of {loops[v]}' for v in used)}; "
                f"{_part_remedy(block, axis, value, loops, intrinsic)}"
            )
        inner[axis.var] = axis.extent
    bound = {v.name for v in block.values if isinstance(v, ir.Var)}
    for loop, extent in loops.items():
        if loop not in bound and extent > 1:
            raise TensorizeError(
                f"{where}: loop {loop} of extent {extent} must drive an axis of the block, got none; "
                "reorder it outwards"
            )
    return inner


def _part_remedy(
    block: ir.Block, axis: ir.Axis, value: ir.Expr, loops: Mapping[str, int], intrinsic: ir.DeclaredIntrinsic
) -> str:
    """The remedy for an axis that the inner loops cover only in part."""
    parts = [e.name for e in ir.find(value, ir.Var)]
    (pattern,) = ir.find(intrinsic.behaviour.body, ir.Block)
    extents = {pattern_axis.extent for pattern_axis in pattern.axes}
    if axis.extent not in extents:
        wanted = next((loops[part] for part in parts if loops.get(part) in extents), None)
        if isinstance(axis.extent, int) and wanted is not None and axis.extent % wanted == 0:
            shape = [axis.extent // wanted, wanted]
            return f"declare that dimension as two, {shape}, in the expression instead of splitting its loop"
        return "undo its split, or tensorize further in"
    if len(parts) == 1:
        return f"full_extent({block.name!r}, {axis.var!r}) computes all of it"
    call = f"fuse({', '.join(repr(part) for part in parts)})"
    names = list(loops)
    if all(part in loops for part in parts) and names.index(parts[-1]) - names.index(parts[0]) == len(parts) - 1:
        return f"{call} undoes its split"
    return f"reorder its loops next to each other, then {call} undoes its split"


# --- marking it -----------------------------------------------------------------------------------


def _marked(nest: ir.Stmt, intrinsic: Intrinsic, match: Match, outermost: bool = True) -> ir.Stmt:
    """A perfect nest, its outermost loop and its block annotated."""
    if isinstance(nest, ir.For):
        extra = {"tensorize": intrinsic.name} if outermost else {}
        body = _marked(nest.body, intrinsic, match, outermost=False)
        return ir.For(nest.var, nest.extent, body, nest.kind, {**nest.annotations, **extra})
    assert isinstance(nest, ir.Block)
    return replace(nest, annotations={**nest.annotations, "intrinsic": match})


def _replaced(above: _Path, old: ir.Stmt, new: ir.Stmt) -> ir.Stmt:
    """The outermost statement of a path, with the one behind the path replaced."""
    for parent in reversed(above):
        new = ir.with_children(parent, tuple(new if child is old else child for child in ir.children(parent)))
        old = parent
    return new


# --- tiled blocks ---------------------------------------------------------------------------------


def tiled_block(block: ir.Block, loops: Mapping[str, int]) -> ir.Block:
    """The block with each axis that one of `loops` drives in part as two axes.

    block c(vi=i_o * 16 + i_i): c[vi]    ->    block c(vi=i_o * 16, i_i=i_i): c[vi + i_i]

    The axis of the start keeps its name. What is bound in another way stays as it is.
    """
    axes: list[ir.Axis] = []
    values: list[ir.Expr] = []
    places: dict[str, ir.Expr] = {}
    for axis, value in block.bindings:
        loop = _inner_loop(value, loops)
        if loop is None or value == ir.Var(loop) or any(other.var == loop for other in block.axes):
            axes.append(axis)
            values.append(value)
            continue
        axes += [axis, ir.Axis(loop, loops[loop], axis.kind)]
        values += [(linear(value) + Linear({ir.Var(loop): -1})).expr(), ir.Var(loop)]
        places[axis.var] = ir.binary("add", axis.var, loop)
    return replace(
        block,
        axes=tuple(axes),
        values=tuple(values),
        body=substitute_in(block.body, places),
        init=None if block.init is None else substitute_in(block.init, places),
    )


def _inner_loop(value: ir.Expr, loops: Mapping[str, int]) -> str | None:
    """The one loop of `loops` that a value adds."""
    form = linear(value)
    used = [name for name in var_names(value) if name in loops]
    return used[0] if len(used) == 1 and form.terms.get(ir.Var(used[0])) == 1 else None
