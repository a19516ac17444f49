# SPDX-License-Identifier: Apache-2.0
"""Primitives that set a loop kind, an annotation or a scope. None moves a block."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from vdla.compiler import ir
from vdla.compiler.analysis.independence import check_independent
from vdla.compiler.analysis.tree import (
    Path,
    ScheduleError,
    block_path,
    loop_at,
    loop_path,
    loops_on,
    replace_at,
    tree_of,
)
from vdla.compiler.arith import INT32, conjuncts, var_names
from vdla.compiler.ir import BLOCK_AXES, GRID_AXES, RESERVED, THREAD, Names, expr_text, extent_text
from vdla.compiler.ir.by_identity import by_identity

MAX_ITERATIONS = INT32[1] + 1  # of an int32 loop variable


def outermost_blocks(stmt: ir.Stmt) -> list[ir.Block]:
    """The blocks inside `stmt`, without those nested in another block."""
    if isinstance(stmt, ir.Block):
        return [stmt]
    return [block for child in ir.children(stmt) for block in outermost_blocks(child)]


def role(block: ir.Block, var: str) -> str:
    """The role of a loop for a block: "spatial", "reduce", "scan", "mixed" or "unused"."""
    kinds = _kinds_of(block).get(var, frozenset())
    if len(kinds) > 1:
        return "mixed"
    return next(iter(kinds)).value if kinds else "unused"


@by_identity(most=64)
def _kinds_of(block: ir.Block) -> Mapping[str, frozenset[ir.AxisKind]]:
    """The kinds of the axes that each loop drives."""
    result: dict[str, frozenset[ir.AxisKind]] = {}
    for axis, value in block.bindings:
        for var in var_names(value):
            result[var] = result.get(var, frozenset()) | {axis.kind}
    return result


def content_text(loop: ir.For) -> str:
    """The statements directly inside a loop, for messages."""
    inside = loop.body.stmts if isinstance(loop.body, ir.Seq) else (loop.body,)
    return ", ".join(_label(stmt) for stmt in inside)


def _label(stmt: ir.Stmt) -> str:
    """A statement, for messages."""
    match stmt:
        case ir.For(var=var):
            return f"loop {var}"
        case ir.Block(name=name):
            return f"block {name}"
    return "a store"


def check_new_name(where: str, name: str, names: Names, replaced: tuple[str, ...]) -> None:
    """Refuse a name that is not an identifier or is in use; names of `replaced` loops may be
    reused.
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise ScheduleError(f"{where}: a loop name must be an identifier, got {name!r}")
    if name in names and name not in replaced:
        raise ScheduleError(f"{where}: a loop name must be new in the function, got {name}")


def unroll(fn: ir.Function, loop: str) -> ir.Function:
    """Unroll a loop when lowering.

    for i in range(4): ...  ->  for i in unroll(4): ...
    """
    where = f"unroll of {loop}"
    _check_static(loop_at(loop_path(fn, loop, where)), where)
    return _with_kind(fn, loop, ir.LoopKind.UNROLL, where)


def vthread(fn: ir.Function, loop: str) -> ir.Function:
    """Run the iterations as virtual threads.

    Lowering gives each its own on-chip tiles and interleaves their instructions: one loads while
    another computes.

        for i in range(2): ...  ->  for i in vthread(2): ...

    For each block inside, the loop must be spatial or reduce.
    """
    where = f"vthread of {loop}"
    _check_static(loop_at(loop_path(fn, loop, where)), where)
    _check_roles(fn, loop, where, ("spatial", "reduce", "unused"))
    return _with_kind(fn, loop, ir.LoopKind.VTHREAD, where)


def parallel(fn: ir.Function, loop: str) -> ir.Function:
    """Run the iterations on several cores.

    for i in range(8): ...  ->  for i in parallel(8): ...

    No iteration may write an element that another reads or writes. Buffers accessed only inside the
    loop are private to an iteration, so producers placed there by `compute_at` may compute
    overlapping regions.
    """
    where = f"parallel of {loop}"
    check_independent(fn, loop_at(loop_path(fn, loop, where)), where, shared=False)
    return _with_kind(fn, loop, ir.LoopKind.PARALLEL, where)


def vectorize(fn: ir.Function, loop: str) -> ir.Function:
    """Run the iterations in the lanes of a vector.

    for i in range(8): ...  ->  for i in vectorize(8): ...

    The extent must be a number. No lane may write an element that another reads or writes;
    vectorized loops do not nest.
    """
    where = f"vectorize of {loop}"
    path = loop_path(fn, loop, where)
    _check_static(loop_at(path), where)
    inside = list(ir.find(loop_at(path), ir.For))
    for other in (*loops_on(path)[:-1], *inside[1:]):
        if other.kind is ir.LoopKind.VECTORIZE:
            rule = "no other vectorized loop must lie around it or inside"
            raise ScheduleError(f"{where}: {rule}, got {other.var}")
    check_independent(fn, loop_at(path), where, shared=True)
    return _with_kind(fn, loop, ir.LoopKind.VECTORIZE, where)


def bind(fn: ir.Function, loop: str, thread: str) -> ir.Function:
    """Run the iterations as the blocks or threads of a grid.

    for i in range(8): ...  ->  for i in range(8):  # thread=blockIdx.x

    The loop must satisfy the conditions of `parallel`, or be a reduce loop of a block that is
    `atomic`. On a target without a grid, such as a CPU, a
    bound loop runs serially. In one nest an axis has one extent, and binds one of the loops around
    a block. A thread axis may bind a loop inside another one that it binds, if nothing inside
    depends on the outer one: where that loop would do the same work in each thread, the threads
    share it, as when they fetch a tile together.

        for j in range(4):  # thread=threadIdx.x       for j in range(4):  # thread=threadIdx.x
            for k in range(4):                   ->        for k in range(4):  # thread=threadIdx.x
                block t(vk=k): t[vk] = a[vk]                   block t(vk=k): t[vk] = a[vk]
            block c(vj=j): ... t ...                       block c(vj=j): ... t ...
    """
    where = f"bind of {loop}"
    path = loop_path(fn, loop, where)
    old = loop_at(path)
    if thread not in GRID_AXES:
        raise ScheduleError(f"{where}: the thread must be one of {', '.join(GRID_AXES)}, got {thread!r}")
    if THREAD in old.annotations:
        raise ScheduleError(f"{where}: the loop must not be bound yet, got {old.annotations[THREAD]}")
    if old.kind is not ir.LoopKind.SERIAL:
        raise ScheduleError(f"{where}: the loop must be serial, got {old.kind.value}")
    _check_axis(path, thread, where)
    new = replace(old, annotations={**old.annotations, THREAD: thread})
    result = replace_at(fn, path, new)
    check_independent(result, new, where, shared=False)
    return result


def _check_axis(path: Path, thread: str, where: str) -> None:
    """Refuse an axis that binds a loop of another extent in the nest, or one around or inside that
    the work depends on."""
    loop = loop_at(path)
    nest = path[1] if isinstance(path[0], ir.Seq) else path[0]
    above = loops_on(path)[:-1]
    for other in ir.find(nest, ir.For):
        if other.annotations.get(THREAD) != thread:
            continue
        if other.extent != loop.extent:
            rule = f"the extent of {thread} must be that of {other.var}, {extent_text(other.extent)}"
            raise ScheduleError(f"{where}: {rule}, got {extent_text(loop.extent)}")
        around = any(other is step for step in above)
        if not around and not any(other is stmt for stmt in ir.walk(loop.body)):
            continue
        if thread in BLOCK_AXES:
            raise ScheduleError(f"{where}: {thread} must bind one loop around a block, got {other.var} too")
        _check_shared_out(*((other, loop) if around else (loop, other)), thread, where)


def _check_shared_out(outer: ir.For, inner: ir.For, thread: str, where: str) -> None:
    """Refuse work of an inner loop that is not the same in each iteration of the outer one."""
    for block in outermost_blocks(inner.body):
        exprs = (*block.values, *conjuncts(block.predicate))
        if any(outer.var in var_names(expr) for expr in exprs):
            rule = f"block {block.name} inside {inner.var} must not depend on {outer.var}"
            raise ScheduleError(f"{where}: {rule}, which binds {thread} too, got {_dependent(exprs, outer.var)}")


def _dependent(exprs: tuple[ir.Expr, ...], var: str) -> str:
    """The first expression that depends on a variable, for messages."""
    return next(expr_text(expr) for expr in exprs if var in var_names(expr))


def _check_static(loop: ir.For, where: str) -> None:
    """Refuse a symbolic extent."""
    if not isinstance(loop.extent, int):
        raise ScheduleError(f"{where}: the extent must be a number, got {extent_text(loop.extent)}")


def _check_roles(fn: ir.Function, loop: str, where: str, allowed: tuple[str, ...]) -> None:
    """Refuse a loop that has another role for a block inside."""
    for block in outermost_blocks(loop_at(loop_path(fn, loop, where)).body):
        kind = role(block, loop)
        if kind not in allowed:
            rule = f"the loop must be {' or '.join(a for a in allowed if a != 'unused')} in block {block.name}"
            raise ScheduleError(f"{where}: {rule}, got {kind}")


def _with_kind(fn: ir.Function, loop: str, kind: ir.LoopKind, where: str) -> ir.Function:
    """`fn` with the kind of a serial loop set."""
    path = loop_path(fn, loop, where)
    old = loop_at(path)
    if old.kind not in (ir.LoopKind.SERIAL, kind):
        raise ScheduleError(f"{where}: the loop must be serial, got {old.kind.value}")
    if THREAD in old.annotations:
        raise ScheduleError(f"{where}: the loop must not be bound, got {old.annotations[THREAD]}")
    return replace_at(fn, path, replace(old, kind=kind))


def annotate(fn: ir.Function, name: str, key: str, value: Any) -> ir.Function:  # noqa: ANN401  any printable value
    """Attach a key and a value to a loop or a block.

    for i in range(4): ...  ->  for i in range(4):  # key=value
    """
    if not isinstance(key, str) or key in RESERVED:
        fix = f"; use {RESERVED[key]}" if isinstance(key, str) else ""
        raise ScheduleError(f"annotate: the key must be a string that no primitive sets, got {key!r}{fix}")
    return with_annotation(fn, name, key, value, "annotate")


def with_annotation(fn: ir.Function, name: str, key: str, value: Any, where: str) -> ir.Function:  # noqa: ANN401
    """`fn` with a key and a value attached to a loop or a block."""
    tree = tree_of(fn.body)
    named = {**tree.block_at, **tree.loop_at}
    if not isinstance(name, str) or name not in named:
        raise ScheduleError(f"{where}: the name must be a loop or a block of {fn.name}, got {name!r}")
    path = tree.path(named[name])
    stmt = path[-1]
    assert isinstance(stmt, ir.For | ir.Block)
    return replace_at(fn, path, replace(stmt, annotations={**stmt.annotations, key: value}))


def set_scope(fn: ir.Function, buffer: str, scope: str) -> ir.Function:
    """Put an intermediate buffer into a memory: "global" or the name of an on-chip buffer.

    acc: int32[4, 16]  ->  acc: int32[4, 16] in acc
    """
    where = f"set_scope of {buffer}"
    inner = [name for name in fn.buffers if name not in fn.params]
    if not isinstance(buffer, str) or not isinstance(scope, str):
        raise ScheduleError(f"{where}: the buffer and the scope must be names, got {buffer!r} and {scope!r}")
    if buffer in fn.params:
        raise ScheduleError(f"{where}: the buffer must not be a parameter, got {buffer}, which the caller holds")
    if buffer not in fn.buffers:
        raise ScheduleError(f"{where}: the buffer must be one of {', '.join(inner)}, got {buffer!r}")
    check_scope(scope, where)
    return replace(fn, buffers={**fn.buffers, buffer: replace(fn.buffers[buffer], scope=scope)})


def check_scope(scope: object, where: str) -> None:
    """Refuse a scope that is not an identifier."""
    if not isinstance(scope, str) or not scope.isidentifier():
        raise ScheduleError(f"{where}: the scope must be an identifier, got {scope!r}")


def loops_of(fn: ir.Function, block: str) -> list[str]:
    """The loops around a block, outermost first."""
    return [loop.var for loop in loops_on(block_path(fn, block, "loops"))]
