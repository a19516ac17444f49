# SPDX-License-Identifier: Apache-2.0
"""Form grids: each nest of a function becomes one launch, loops over the axes of its grid around
the work of one thread.

A statement runs on the threads that the loops around it name: the innermost loop bound to an axis
decides, and along an axis that no loop around it is bound to, index 0 alone runs it. A loop bound
inside another one of the same axis deals the work out again, as when the threads of a block fetch a
tile together; what is inside must not depend on the outer one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from vdla.compiler import ir
from vdla.compiler.arith import conjunction, last_value, scalar_ranges, var_names
from vdla.compiler.ir import (
    BLOCK_AXES,
    GRID_AXES,
    THREAD,
    THREAD_AXES,
    GridKernel,
    extent_text,
    map_children,
    substitute_in,
)
from vdla.compiler.lowering.check import PassError
from vdla.compiler.lowering.simplify import Scope, simplify_stmt

_OWNERS = {"shared": ("block of threads", BLOCK_AXES), "local": ("thread", GRID_AXES)}
_Bound = Mapping[str, str]  # axis of the grid: the innermost loop around that is bound to it


def form_grids(fn: ir.Function) -> ir.Function:
    """`fn` as launches in sequence.

    for i in range(8):  # thread=blockIdx.x           for blockIdx.x in range(8):
        for j in range(4):  # thread=threadIdx.x          with alloc(t):
            t[j] = ...                         ->             for threadIdx.x in range(4):
        c[i] = t[0]                                               t[threadIdx.x] = ...
                                                                  if threadIdx.x == 0:
                                                                      c[blockIdx.x] = t[0]

    Raises:
        PassError: loops of one axis differ in extent, or a thread accesses what another one holds.
    """
    for stmt in ir.walk(fn.body):
        if isinstance(stmt, ir.Alloc):
            _check_owner(fn, stmt)
    held, body = _top_allocs(fn.body)
    placed = {name for name, buffer in fn.buffers.items() if buffer.scope != "local"} - set(fn.params)
    body = without_allocs(body, placed)
    nests = body.stmts if isinstance(body, ir.Seq) else (body,)
    _check_launch(fn, nests, held)
    launches = ir.seq(*(_launch(fn, nest, [name for name in held if name not in placed]) for nest in nests))
    between = tuple(name for name in fn.buffers if name in placed and fn.buffers[name].scope == "global")
    return replace(fn, body=ir.Alloc(between, launches) if between else launches)


def axis_of(loop: ir.For) -> str | None:
    """The axis of the grid over which a loop deals out its iterations; None if it has one."""
    return None if loop.extent == 1 else loop.annotations.get(THREAD)


def accessed_buffers(stmt: ir.Stmt) -> list[str]:
    """The buffers that a statement reads or writes, in the order of their first access."""
    result: dict[str, None] = {}
    for inner in ir.walk(stmt):
        exprs: tuple[ir.Expr, ...] = ()
        match inner:
            case ir.Store(buffer=buffer, indices=indices, value=value):
                exprs, result[buffer] = (*indices, value), None
            case ir.If(cond=cond):
                exprs = (cond,)
        result |= {e.buffer: None for expr in exprs for e in ir.find(expr, ir.Load)}
    return list(result)


def _top_allocs(body: ir.Stmt) -> tuple[list[str], ir.Stmt]:
    """The buffers allocated around all nests, and what is inside."""
    held: list[str] = []
    while isinstance(body, ir.Alloc):
        held += body.buffers
        body = body.body
    return held, body


def without_allocs(stmt: ir.Stmt, names: Collection[str]) -> ir.Stmt:
    """`stmt` without the allocations of `names`."""

    def without(new: ir.Stmt) -> ir.Stmt:
        kept = tuple(name for name in new.buffers if name not in names) if isinstance(new, ir.Alloc) else ()
        return new if not isinstance(new, ir.Alloc) else ir.Alloc(kept, new.body) if kept else new.body

    return ir.transform(stmt, without)


def _check_owner(fn: ir.Function, held: ir.Alloc) -> None:
    """Refuse a local buffer that several threads access, or a shared one that several blocks do."""
    for loop in ir.find(held.body, ir.For):
        used = accessed_buffers(loop) if axis_of(loop) else []
        for name in (name for name in held.buffers if name in used):
            owner = _OWNERS.get(fn.buffers[name].scope, ("", ()))
            if axis_of(loop) in owner[1]:
                what = f"the buffer {name} in {fn.buffers[name].scope} must have all its accesses in one {owner[0]}"
                accesses = f"some in the loop {loop.var}, which deals them out over {axis_of(loop)}"
                raise PassError(f"{fn.name}: {what}, got {accesses}; place the loop around all of them")


def _check_launch(fn: ir.Function, nests: Sequence[ir.Stmt], held: list[str]) -> None:
    """Refuse a shared or local buffer that several launches access."""
    for name in (name for name in held if fn.buffers[name].scope in _OWNERS):
        count = sum(name in accessed_buffers(nest) for nest in nests)
        if count > 1:
            what = f"the buffer {name} in {fn.buffers[name].scope} must have all its accesses in one nest"
            raise PassError(f"{fn.name}: {what}, which is one launch, got them in {count}")


def _launch(fn: ir.Function, nest: ir.Stmt, buffer_names: list[str]) -> ir.Stmt:
    """A nest as loops over the axes of its grid around the work of a thread; the local buffers of
    `buffer_names` are the thread's.
    """
    used = accessed_buffers(nest)
    local = tuple(name for name in buffer_names if name in used)
    nest = ir.Alloc(local, nest) if local else nest
    grid = _Grid(fn, _extents(fn, nest))
    work = grid.work(nest, {})
    shared = tuple(name for name in used if fn.buffers[name].scope == "shared")
    for axis in THREAD_AXES:
        work = grid.loop(axis, work)
    work = ir.Alloc(shared, work) if shared else work
    for axis in BLOCK_AXES:
        work = grid.loop(axis, work)
    return work


def _extents(fn: ir.Function, nest: ir.Stmt) -> dict[str, ir.Extent]:
    """The extent of each axis of the grid that a nest uses."""
    result: dict[str, ir.For] = {}
    for loop in (stmt for stmt in ir.find(nest, ir.For) if axis_of(stmt)):
        axis = str(axis_of(loop))
        first = result.setdefault(axis, loop)
        if first.extent != loop.extent:
            rule = f"the loops of {axis} must have one extent, {extent_text(first.extent)} as {first.var}"
            raise PassError(f"{fn.name}: {rule}, got {extent_text(loop.extent)} for {loop.var}")
        if axis in THREAD_AXES and not isinstance(loop.extent, int):
            raise PassError(f"{fn.name}: the extent of {axis} must be a number, got {extent_text(loop.extent)}")
    return {axis: loop.extent for axis, loop in result.items()}


@dataclass(frozen=True, slots=True)
class _Grid:
    """The grid of one nest of `fn`."""

    fn: ir.Function
    extents: Mapping[str, ir.Extent]

    def loop(self, axis: str, body: ir.Stmt) -> ir.Stmt:
        """The loop over an axis, if the grid has it."""
        return ir.For(axis, self.extents[axis], body, annotations={THREAD: axis}) if axis in self.extents else body

    def work(self, stmt: ir.Stmt, bound: _Bound) -> ir.Stmt:
        """What one thread does of `stmt`, which lies inside the loops `bound`."""
        if isinstance(stmt, ir.Atomic) and self.is_local(stmt.body):
            return self.work(stmt.body, bound)  # no other thread could interrupt it
        inside = _axes_inside(stmt)
        if isinstance(stmt, ir.For) and (axis := axis_of(stmt)):
            return self.share(stmt, axis, bound)
        alone = [a for a in GRID_AXES if self.extents.get(a, 1) != 1 and a not in bound]
        if alone and not inside & set(alone):
            first = conjunction(ir.binary("eq", axis, 0) for axis in alone)
            return ir.If(first, self.work(stmt, {**bound, **dict.fromkeys(alone, "")}))
        if isinstance(stmt, ir.If):
            self.check_shared(bound, var_names(stmt.cond), inside)
        return map_children(stmt, lambda child: self.work(child, bound))

    def is_local(self, stmt: ir.Stmt) -> bool:
        """Whether a statement stores to a buffer of one thread."""
        return isinstance(stmt, ir.Store) and self.fn.buffers[stmt.buffer].scope == "local"

    def share(self, loop: ir.For, axis: str, bound: _Bound) -> ir.Stmt:
        """The iteration of a bound loop that belongs to a thread."""
        work = self.work(loop.body, {**bound, axis: loop.var})
        self.check_shared(bound, _variables(work), {axis})
        return substitute_in(work, {loop.var: ir.Var(axis)})

    def check_shared(self, bound: _Bound, names: set[str], axes: Iterable[str]) -> None:
        """Refuse work that is dealt out again over `axes` and depends on how it was dealt out
        before."""
        for axis in axes:
            if bound.get(axis) in names:
                rule = f"what an inner loop deals out over {axis} must not depend on the loop {bound[axis]}"
                raise PassError(f"{self.fn.name}: {rule}, which is bound to the same axis")


def _axes_inside(stmt: ir.Stmt) -> set[str]:
    """The axes that loops in `stmt` are bound to."""
    return {axis for loop in ir.find(stmt, ir.For) if (axis := axis_of(loop))}


def _variables(stmt: ir.Stmt) -> set[str]:
    """The variables in the expressions of a statement."""
    result: set[str] = set()
    for inner in ir.walk(stmt):
        match inner:
            case ir.Store(indices=indices, value=value):
                result |= set().union(*(var_names(expr) for expr in (*indices, value)))
            case ir.If(cond=cond):
                result |= var_names(cond)
    return result


# --- launches -------------------------------------------------------------------------------------


def split_kernels(fn: ir.Function, warp: int = 1) -> tuple[GridKernel, ...]:
    """The launches of a lowered function, `fn` as `form_grids` leaves it, for warps of that size.

    A parameter of a kernel that is not one of `fn` is a temporary, written by an earlier launch.
    """
    nests = launches(fn)
    names = [f"{fn.name}_{n}" for n in range(len(nests))] if len(nests) > 1 else [fn.name]
    return tuple(kernel_of(fn, nest, name, warp) for nest, name in zip(nests, names, strict=True))


def launches(fn: ir.Function) -> tuple[ir.Stmt, ...]:
    """The launches of a function, in order."""
    body = fn.body.body if isinstance(fn.body, ir.Alloc) and _is_global(fn, fn.body) else fn.body
    return body.stmts if isinstance(body, ir.Seq) else (body,)


def with_launches(fn: ir.Function, bodies: Sequence[ir.Stmt]) -> ir.Function:
    """`fn` with what a thread does in each launch replaced."""
    body = ir.seq(*(_with_body(fn, nest, new) for nest, new in zip(launches(fn), bodies, strict=True)))
    held = isinstance(fn.body, ir.Alloc) and _is_global(fn, fn.body)
    return replace(fn, body=replace(fn.body, body=body) if held and isinstance(fn.body, ir.Alloc) else body)


def _is_global(fn: ir.Function, held: ir.Alloc) -> bool:
    """Whether an allocation is of temporaries between kernels."""
    return all(fn.buffers[name].scope == "global" for name in held.buffers)


def kernel_of(fn: ir.Function, nest: ir.Stmt, name: str, warp: int) -> GridKernel:
    """A launch as a kernel."""
    used = accessed_buffers(nest)
    extents: dict[str, ir.Extent] = {}
    body = nest
    while _is_header(fn, body):
        assert isinstance(body, ir.For | ir.Alloc)
        if isinstance(body, ir.For):
            extents[body.var] = body.extent
        body = body.body
    return GridKernel(
        name=name,
        grid=(extents.get(BLOCK_AXES[0], 1), extents.get(BLOCK_AXES[1], 1), extents.get(BLOCK_AXES[2], 1)),
        block=(_threads(extents, 0), _threads(extents, 1), _threads(extents, 2)),
        params=tuple(b for b in fn.buffers if b in used and fn.buffers[b].scope not in ("shared", "local")),
        buffers={b: buffer for b, buffer in fn.buffers.items() if b in used},
        body=body,
        scalars=fn.scalars,
        warp=warp,
    )


def simplify_launches(fn: ir.Function) -> ir.Function:
    """`fn` with what a thread does in each launch simplified, without the buffers that it no longer
    uses; the loops over the grid stay."""
    bodies = []
    for nest in launches(fn):
        kernel = kernel_of(fn, nest, fn.name, 1)
        scalars = scalar_ranges(fn)
        axes = {axis: (0, last_value(extent, scalars)) for axis, extent in kernel.extents.items()}
        body = simplify_stmt(kernel.body, Scope({**scalars, **axes}))
        bodies.append(without_allocs(body, fn.buffers.keys() - set(accessed_buffers(body))))
    return with_launches(fn, bodies)


def _with_body(fn: ir.Function, nest: ir.Stmt, body: ir.Stmt) -> ir.Stmt:
    """A launch with what a thread does replaced."""
    if not _is_header(fn, nest):
        return body
    return ir.with_children(nest, tuple(_with_body(fn, child, body) for child in ir.children(nest)))


def _is_header(fn: ir.Function, stmt: ir.Stmt) -> bool:
    """Whether a statement is a loop over an axis of the grid, or holds the shared buffers."""
    match stmt:
        case ir.For(var=var):
            return var == axis_of(stmt)
        case ir.Alloc(buffers=buffers):
            return all(fn.buffers[name].scope == "shared" for name in buffers)
    return False


def _threads(extents: dict[str, ir.Extent], dimension: int) -> int:
    """The threads of a block along one axis."""
    axis = THREAD_AXES[dimension]
    return ir.number(extents.get(axis, 1), axis)
