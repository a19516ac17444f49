# SPDX-License-Identifier: Apache-2.0
"""Traversal of the IR: children and operands, walks, rebuilding, substitution.

Statements and expressions are separate trees: `walk` visits statements, `walk_expr` the nodes of
one expression.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar, cast, overload

from vdla.compiler.ir import nodes as ir
from vdla.compiler.ir.nodes import (
    Alloc,
    Atomic,
    Barrier,
    Binary,
    Block,
    Call,
    Cast,
    Const,
    Expr,
    For,
    Function,
    HeapAlloc,
    If,
    IntrinsicCall,
    Load,
    MultiStore,
    Prefetch,
    Select,
    Seq,
    Shuffle,
    Stmt,
    Store,
    Var,
)


def seq(*stmts: Stmt) -> Stmt:
    """The statements in order, flattened; a single one stays itself."""
    flat = [inner for stmt in stmts for inner in (stmt.stmts if isinstance(stmt, Seq) else (stmt,))]
    return flat[0] if len(flat) == 1 else Seq(tuple(flat))


def children(stmt: Stmt) -> tuple[Stmt, ...]:
    """The statements directly inside `stmt`; a block's `init` before its body."""
    match stmt:
        case For(body=body) | If(body=body) | Alloc(body=body) | HeapAlloc(body=body):
            return (body,)
        case IntrinsicCall(body=body) | Atomic(body=body) | Shuffle(body=body):
            return (body,)
        case Seq(stmts=stmts):
            return stmts
        case MultiStore(stores=stores):
            return stores
        case Block(init=init, body=body):
            return (body,) if init is None else (init, body)
        case Store() | Prefetch() | Barrier():
            return ()


def with_children(stmt: Stmt, new: tuple[Stmt, ...]) -> Stmt:
    """`stmt` with its children replaced, in the order of `children`."""
    match stmt:
        case For(var=var, extent=extent, kind=kind, annotations=annotations):
            return For(var, extent, new[0], kind, annotations)
        case If() | Alloc() | HeapAlloc() | IntrinsicCall() | Atomic() | Shuffle():
            return replace(stmt, body=new[0])
        case Seq():
            return seq(*new)
        case MultiStore():
            return MultiStore(tuple(store for store in new if isinstance(store, Store)))
        case Block(init=None):
            return replace(stmt, body=new[0])
        case Block():
            return replace(stmt, init=new[0], body=new[1])
        case Store() | Prefetch() | Barrier():
            return stmt


def walk(stmt: Stmt) -> Iterator[Stmt]:
    """Every statement of the tree, in preorder."""
    pending = [stmt]
    while pending:
        stmt = pending.pop()
        yield stmt
        pending += children(stmt)[::-1]


def operands(expr: Expr) -> tuple[Expr, ...]:
    """The direct operands of `expr`."""
    match expr:
        case Var() | Const():  # half of all nodes
            return ()
        case Binary(a=a, b=b):
            return (a, b)
        case Cast(value=value):
            return (value,)
        case Select(cond=cond, a=a, b=b):
            return (cond, a, b)
        case Load(indices=indices):
            return indices
        case Call(args=args):
            return args


def walk_expr(expr: Expr) -> Iterator[Expr]:
    """Every node of the tree, in preorder."""
    pending = [expr]
    while pending:
        expr = pending.pop()
        yield expr
        pending += operands(expr)[::-1]


Kind = TypeVar("Kind")


def find(node: Stmt | Expr, kind: type[Kind]) -> Iterator[Kind]:
    """The nodes of one kind: the statements in a statement, the expressions in an expression."""
    nodes = walk_expr(node) if isinstance(node, Expr) else walk(node)
    return (inner for inner in nodes if isinstance(inner, kind))


def with_operands(expr: Expr, new: tuple[Expr, ...]) -> Expr:
    """`expr` with its operands replaced, in the order of `operands`."""
    match expr:
        case Binary(op=op):
            return Binary(op, *new)
        case Cast(dtype=dtype):
            return Cast(dtype, *new)
        case Select():
            return Select(*new)
        case Load(buffer=buffer):
            return Load(buffer, new)
        case Call():
            return replace(expr, args=new)
        case Var() | Const():
            return expr


def substitute(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    """`expr` with each variable named in `values` replaced."""
    if isinstance(expr, Var):
        return values.get(expr.name, expr)
    old = operands(expr)
    new = tuple(substitute(operand, values) for operand in old)
    return expr if new == old else with_operands(expr, new)


def output_names(fn: Function) -> list[str]:
    """The parameters that `fn` writes, in order."""
    stored = {stmt.buffer for stmt in walk(fn.body) if isinstance(stmt, Store)}
    return [name for name in fn.params if name in stored]


# --- rebuilding with expressions or children mapped -----------------------------------------------

ExprMap = Callable[[ir.Expr], ir.Expr]
Substitution = Mapping[str, ir.Expr]


def _map_each(old: tuple[ir.Expr, ...], change: ExprMap) -> tuple[ir.Expr, ...]:
    """The expressions mapped; `old` itself if none changes."""
    new = tuple(change(expr) for expr in old)
    return old if all(a is b for a, b in zip(old, new, strict=True)) else new


def map_operands(expr: ir.Expr, change: ExprMap) -> ir.Expr:
    """`expr` with its operands mapped."""
    old = operands(expr)
    new = _map_each(old, change)
    return expr if new is old else with_operands(expr, new)


def reads_memory(expr: ir.Expr) -> bool:
    """Whether an expression loads from a buffer, so that stores can change its value."""
    return any(isinstance(inner, ir.Load) for inner in walk_expr(expr))


def map_children(stmt: ir.Stmt, change: Callable[[ir.Stmt], ir.Stmt]) -> ir.Stmt:
    """`stmt` with the statements directly inside it mapped."""
    old = children(stmt)
    new = tuple(change(child) for child in old)
    return stmt if all(a is b for a, b in zip(old, new, strict=True)) else with_children(stmt, new)


@overload
def transform(node: Stmt, change: Callable[[Stmt], Stmt]) -> Stmt: ...
@overload
def transform(node: Expr, change: ExprMap) -> Expr: ...
def transform(node: Stmt | Expr, change: Callable[[Any], Any]) -> Stmt | Expr:
    """A node with `change` applied to each node inside and then to itself: to the statements of a
    statement, or to the expressions of an expression."""
    if isinstance(node, Expr):
        return cast("Expr", change(map_operands(node, lambda operand: transform(operand, change))))
    return cast("Stmt", change(map_children(node, lambda child: transform(child, change))))


def map_store(store: ir.Store, index: ExprMap, value: ExprMap) -> ir.Store:
    """A store with its indices and its value mapped."""
    indices, new = _map_each(store.indices, index), value(store.value)
    return store if indices is store.indices and new is store.value else ir.Store(store.buffer, indices, new)


def map_prefetch(prefetch: ir.Prefetch, index: ExprMap) -> ir.Prefetch:
    """A prefetch with its indices mapped."""
    return ir.Prefetch(prefetch.buffer, _map_each(prefetch.indices, index))


def map_match(match: ir.Match, change: ExprMap) -> ir.Match:
    """A match with its entries and conditions mapped."""
    entries = {name: _map_each(indices, change) for name, indices in match.entries.items()}
    conditions = {name: change(condition) for name, condition in match.conditions.items()}
    return replace(match, entries=entries, conditions=conditions)


def map_exprs(stmt: ir.Stmt, change: ExprMap) -> ir.Stmt:
    """`stmt` with all its expressions mapped, the operands of intrinsic calls included."""
    match stmt:
        case ir.Store():
            return map_store(stmt, change, change)
        case ir.Prefetch():
            return map_prefetch(stmt, change)
        case ir.If(cond=cond, body=body):
            return ir.If(change(cond), map_exprs(body, change))
        case ir.IntrinsicCall(match=match, body=body):
            return ir.IntrinsicCall(map_match(match, change), map_exprs(body, change))
    return map_children(stmt, lambda child: map_exprs(child, change))


def substitute_in(stmt: ir.Stmt, values: Substitution) -> ir.Stmt:
    """`stmt` with the variables named in `values` replaced in every expression."""
    return map_exprs(stmt, lambda expr: substitute(expr, values)) if values else stmt


# --- sizes of expressions -------------------------------------------------------------------------

# Subexpressions can be shared: a few lines of Python can describe a tree too large to traverse.

MAX_DEPTH = 160  # each level takes several frames of Python's stack
_MAX_NODES = 1 << 16


class ExprSize(NamedTuple):
    """The depth of a tree and its node count; a shared subtree counts at each occurrence."""

    depth: int
    nodes: int


def size_of(expr: Expr) -> ExprSize:
    """The size of an expression, in time linear in its distinct nodes."""
    known: dict[int, ExprSize] = {}
    pending = [expr]
    while pending:
        parts = operands(pending[-1])
        missing = [part for part in parts if id(part) not in known]
        if missing:
            pending += missing
            continue
        sizes = [known[id(part)] for part in parts]
        total = ExprSize(1 + max((size.depth for size in sizes), default=0), 1 + sum(size.nodes for size in sizes))
        known[id(pending.pop())] = total
    return known[id(expr)]


def size_violation(expr: Expr) -> str | None:
    """The limit that an expression exceeds, as `must ..., got ...`; None if it is within all."""
    size = size_of(expr)
    if size.depth > MAX_DEPTH:
        return f"must nest at most {MAX_DEPTH} operations deep, got {size.depth}"
    if size.nodes > _MAX_NODES:
        return f"must have at most {_MAX_NODES} operations, got {size.nodes}"
    return None
