# SPDX-License-Identifier: Apache-2.0
"""Lookup and replacement of statements in the tree of a function.

A path is the statements from the root down to one statement, inclusive. Loop and block names are
unique, so each has one path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

from vdla.compiler import ir
from vdla.compiler.arith import Linear, Range, conjuncts, linear, predicate_of, simplify, var_names
from vdla.compiler.ir import Names
from vdla.compiler.ir.by_identity import by_identity
from vdla.support.errors import Error


class ScheduleError(Error, ValueError):
    """A rewrite that would change the function's result, or that names a loop, block or buffer that
    does not exist."""


Path = tuple[ir.Stmt, ...]


@dataclass(frozen=True, slots=True)
class Tree:
    """Statements in program order, except for stores: `parents[i]` is the index of the one around
    statement `i`, -1 for the first.

    `loops` and `blocks` have the statements with a name, and `loop_at` and `block_at` their
    indices.
    """

    statements: tuple[ir.Stmt, ...]
    parents: tuple[int, ...]
    loops: Mapping[str, ir.For]
    blocks: Mapping[str, ir.Block]
    loop_at: Mapping[str, int]
    block_at: Mapping[str, int]

    def path(self, index: int) -> Path:
        """The path of a statement."""
        result: list[ir.Stmt] = []
        while index >= 0:
            result.append(self.statements[index])
            index = self.parents[index]
        return tuple(reversed(result))


@by_identity(most=64)
def tree_of(stmt: ir.Stmt) -> Tree:
    """The statements of `stmt`."""
    statements: list[ir.Stmt] = []
    parents: list[int] = []
    loops: dict[str, ir.For] = {}
    blocks: dict[str, ir.Block] = {}
    loop_at: dict[str, int] = {}
    block_at: dict[str, int] = {}
    pending: list[tuple[ir.Stmt, int]] = [(stmt, -1)]
    while pending:
        inner, parent = pending.pop()
        while isinstance(inner, ir.For):  # most statements are loops
            loops[inner.var], loop_at[inner.var] = inner, len(statements)
            statements.append(inner)
            parents.append(parent)
            inner, parent = inner.body, len(parents) - 1
        if isinstance(inner, ir.Store):  # has no name, and nothing with one inside
            continue
        index = len(statements)
        statements.append(inner)
        parents.append(parent)
        if isinstance(inner, ir.Block):
            blocks[inner.name], block_at[inner.name] = inner, index
        pending += [(child, index) for child in reversed(ir.children(inner))]
    return Tree(tuple(statements), tuple(parents), loops, blocks, loop_at, block_at)


def loop_path(fn: ir.Function, var: str, where: str) -> Path:
    """The path of the loop over `var`."""
    tree = tree_of(fn.body)
    if isinstance(var, str) and var in tree.loops:
        return tree.path(tree.loop_at[var])
    raise ScheduleError(f"{where}: loop must be one of {', '.join(loop_names(fn))}, got {var!r}")


def block_path(fn: ir.Function, name: str, where: str) -> Path:
    """The path of the block `name`."""
    tree = tree_of(fn.body)
    if isinstance(name, str) and name in tree.blocks:
        return tree.path(tree.block_at[name])
    raise ScheduleError(f"{where}: block must be one of {', '.join(_block_names(fn))}, got {name!r}")


def loop_names(fn: ir.Function) -> list[str]:
    """The variables of all loops."""
    return list(tree_of(fn.body).loops)


def _block_names(fn: ir.Function) -> list[str]:
    """The names of all blocks."""
    return list(tree_of(fn.body).blocks)


def used_names(fn: ir.Function) -> Names:
    """The names in use, axes included: loops inside a blockized block must not shadow them."""
    tree = tree_of(fn.body)
    axes = [axis.var for block in tree.blocks.values() for axis in block.axes]
    return Names([*tree.loops, *tree.blocks, *axes, *fn.buffers, *fn.scalars])


def loops_on(path: Path) -> list[ir.For]:
    """The loops on a path, outermost first."""
    return [stmt for stmt in path if isinstance(stmt, ir.For)]


def loop_at(path: Path) -> ir.For:
    """The loop at the end of a path."""
    loop = path[-1]
    assert isinstance(loop, ir.For)
    return loop


def block_at(path: Path) -> ir.Block:
    """The block at the end of a path."""
    block = path[-1]
    assert isinstance(block, ir.Block)
    return block


def replace_at(fn: ir.Function, path: Path, new: ir.Stmt) -> ir.Function:
    """`fn` with the statement at the end of `path` replaced."""
    old = path[-1]
    for parent in reversed(path[:-1]):
        new, old = ir.with_children(parent, tuple(new if c is old else c for c in ir.children(parent))), parent
    return replace(fn, body=new)


def remove_at(fn: ir.Function, path: Path) -> ir.Function:
    """`fn` without the statement at the end of `path` and without the loops that become empty."""
    old, *above = reversed(path)
    for depth, parent in enumerate(above):
        if isinstance(parent, ir.Seq):
            kept = ir.seq(*(child for child in parent.stmts if child is not old))
            return replace_at(fn, path[: len(above) - depth], kept)
        old = parent
    raise AssertionError("the only block of a function cannot be removed")


def rewrite_blocks(stmt: ir.Stmt, change: Callable[[ir.Block], ir.Block]) -> ir.Stmt:
    """`stmt` with `change` applied to every block, inner blocks first."""
    if isinstance(stmt, ir.Store):
        return stmt
    old = ir.children(stmt)
    new = tuple(rewrite_blocks(child, change) for child in old)
    if any(a is not b for a, b in zip(old, new, strict=True)):
        stmt = ir.with_children(stmt, new)
    return change(stmt) if isinstance(stmt, ir.Block) else stmt


def substitute_loops(stmt: ir.Stmt, values: Mapping[str, ir.Expr], ranges: Mapping[str, Range]) -> ir.Stmt:
    """`stmt` with loop variables substituted in the bindings and predicates of its blocks."""

    def changed(expr: ir.Expr) -> ir.Expr:
        return simplify(ir.substitute(expr, values), ranges) if var_names(expr) & values.keys() else expr

    def change(block: ir.Block) -> ir.Block:
        bound = tuple(changed(value) for value in block.values)
        predicate = block.predicate
        if predicate is not None and var_names(predicate) & values.keys():
            predicate = predicate_of(_merge_equalities([changed(c) for c in conjuncts(predicate)]))
        if bound == block.values and predicate is block.predicate:
            return block
        return replace(block, values=bound, predicate=predicate)

    return rewrite_blocks(stmt, change)


def _merge_equalities(conditions: list[ir.Expr]) -> list[ir.Expr]:
    """`conditions` with `f // c == a` and `f % c == b`, left by fused loops, merged into `f == a *
    c + b`."""
    parts = {c.a: c for c in conditions if isinstance(c, ir.Binary) and c.op == "eq" and isinstance(c.b, ir.Const)}
    for part, one in parts.items():
        if isinstance(part, ir.Binary) and part.op == "floordiv" and isinstance(part.b, ir.Const):
            other = parts.get(ir.Binary("mod", part.a, part.b))
            if other is not None:
                form = linear(part.a)
                total = _number(one.b) * _number(part.b) + _number(other.b) - form.const
                merged = ir.binary("eq", Linear(form.terms).expr(), total)
                return _merge_equalities([*(c for c in conditions if c not in (one, other)), merged])
    return conditions


def _number(expr: ir.Expr) -> int:
    """The value of a constant."""
    assert isinstance(expr, ir.Const)
    return int(expr.value)


def with_condition(stmt: ir.Stmt, condition: ir.Expr) -> ir.Stmt:
    """`stmt` with a condition added to its outermost blocks."""
    if isinstance(stmt, ir.Block):
        return replace(stmt, predicate=predicate_of([*conjuncts(stmt.predicate), condition]))
    return ir.map_children(stmt, lambda child: with_condition(child, condition))


# --- schedules without checks ---------------------------------------------------------------------

# Schedules without checks, for trials: of many schedules, the winner is built again with them.
#
# A primitive gives the same function with and without them, or raises: a check changes nothing.

_skipped: ContextVar[bool] = ContextVar("_skipped", default=False)


@contextmanager
def unchecked() -> Iterator[None]:
    """A context in which primitives do not check the flow of data, nor what other primitives need
    to stay true.

    For schedules that are known to be legal, as those of a template: an illegal one computes
    something else.
    """
    token = _skipped.set(True)
    try:
        yield
    finally:
        _skipped.reset(token)


def is_unchecked() -> bool:
    """Whether checks are skipped here."""
    return _skipped.get()
