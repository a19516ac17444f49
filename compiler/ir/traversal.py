"""Traversal of the IR: children and operands, walks, rebuilding, substitution.

Statements and expressions are separate trees: `walk` visits statements, `walk_expr` the nodes of
one expression.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

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
