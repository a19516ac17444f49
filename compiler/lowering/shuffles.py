# SPDX-License-Identifier: Apache-2.0
"""Shuffles: what the lanes of a warp exchange through shared memory goes from register to register.

A shared buffer of at most 32 elements, each written by the thread of its number, is an element of
each lane. Reads at a fixed distance, as in the steps of a reduction over threads, become shuffles,
which need no memory and no barrier.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from vdla.compiler import ir
from vdla.compiler.analysis import used_names
from vdla.compiler.analysis.thread_accesses import threads_differ_in
from vdla.compiler.arith import linear, var_names
from vdla.compiler.ir import THREAD_AXES, GridKernel, Names, map_exprs
from vdla.compiler.lowering.grids import kernel_of, launches, with_launches
from vdla.compiler.tensorize import LANES
from vdla.support.errors import Error

_X = ir.Var(THREAD_AXES[0])
_FIRST = ir.binary("eq", _X, 0)
_MOST_COPIES = 4  # of the body of a loop over distances
_Indices = tuple[ir.Expr, ...]


class _NoShuffleError(Error):
    """A buffer is not exchanged within warps at fixed distances."""


def shuffle_partials(fn: ir.Function, warp: int) -> ir.Function:
    """`fn`, which consists of launches, with what warps exchange in registers.

    t[threadIdx.x] = ...                       t = ...
    if threadIdx.x < 16:                ->     shuffle 16: t_from = t
        c = c + t[threadIdx.x + 16]            if threadIdx.x < 16:
                                                   c = c + t_from
    """
    if warp != LANES:
        return fn
    for number in range(len(launches(fn))):
        for buffer in kernel_of(fn, launches(fn)[number], fn.name, warp).shared:
            fn = _in_registers(fn, number, buffer)
    return fn


def _in_registers(fn: ir.Function, number: int, buffer: ir.Buffer) -> ir.Function:
    """`fn` with a shared buffer of a launch in registers, if its threads only exchange it within
    warps."""
    kernel = kernel_of(fn, launches(fn)[number], fn.name, LANES)
    try:
        exchange = _Exchange.of(kernel, buffer, used_names(fn))
        body = exchange.rewritten(kernel.body)
    except _NoShuffleError:
        return fn
    held = {new.name: new for new in (exchange.lane_buffer(), *exchange.temporaries)}
    bodies = [kernel_of(fn, nest, fn.name, LANES).body for nest in launches(fn)]
    inside = (body.buffers, body.body) if isinstance(body, ir.Alloc) else ((), body)
    bodies[number] = ir.Alloc((*held, *inside[0]), inside[1])
    fn = replace(with_launches(fn, bodies), buffers={**fn.buffers, **held})
    return replace(fn, body=_moved_alloc(fn.body, buffer.name))


def _moved_alloc(body: ir.Stmt, name: str) -> ir.Stmt:
    """A function's body without the outer one of two allocations of a buffer."""
    if isinstance(body, ir.Alloc) and name in body.buffers:
        kept = tuple(other for other in body.buffers if other != name)
        return ir.Alloc(kept, body.body) if kept else body.body
    return ir.map_children(body, lambda child: _moved_alloc(child, name))


@dataclass(slots=True)
class _Exchange:
    """A shared buffer whose index `lane` is the thread; `whole` if its other indices never differ.

    A lane then holds one element, else one for each value of the others.
    """

    buffer: ir.Buffer
    lane: int
    whole: bool
    names: Names
    temporaries: list[ir.Buffer] = field(default_factory=list)

    @staticmethod
    def of(kernel: GridKernel, buffer: ir.Buffer, names: Names) -> _Exchange:
        """The exchange through a buffer.

        Raises:
            _NoShuffleError: threads write elements of other lanes, or rows of threads share some.
        """
        written = [store.indices for store in _stores(kernel.body) if store.buffer == buffer.name]
        read = [load.indices for load in _loads(kernel.body) if load.buffer == buffer.name]
        dims = [d for d in range(len(buffer.dims)) if written and all(indices[d] == _X for indices in written)]
        if kernel.block[0] % LANES or not dims or buffer.dims[dims[0]] > LANES or _is_stepped(kernel.body, buffer.name):
            raise _NoShuffleError
        others = {(*indices[: dims[0]], *indices[dims[0] + 1 :]) for indices in (*written, *read)}
        used = set().union(*(var_names(index) for indices in others for index in indices))
        rows = {axis for axis, extent in zip(THREAD_AXES[1:], kernel.block[1:], strict=True) if extent > 1}
        if _X.name in used or not (rows <= used if len(others) == 1 else not rows and not used & {*THREAD_AXES}):
            raise _NoShuffleError
        return _Exchange(buffer, dims[0], len(others) == 1, names)

    def lane_buffer(self) -> ir.Buffer:
        """What a lane holds."""
        rest = (*self.buffer.shape[: self.lane], *self.buffer.shape[self.lane + 1 :])
        return replace(self.buffer, shape=(1,) if self.whole or not rest else rest, scope="local")

    def place(self, indices: _Indices) -> _Indices:
        """The indices of an element in the lane that holds it."""
        rest = (*indices[: self.lane], *indices[self.lane + 1 :])
        return (ir.Const(0),) if self.whole or not rest else rest

    def rewritten(self, body: ir.Stmt) -> ir.Stmt:
        """The body of the kernel with shuffles."""
        before, new = self.visit(body, parted=False, first=False)
        return ir.seq(*before, new)

    def visit(self, stmt: ir.Stmt, *, parted: bool, first: bool) -> tuple[list[ir.Stmt], ir.Stmt]:
        """`stmt` with its reads from registers, and the shuffles that go before it.

        Where threads have `parted` under a condition, all shuffles go before that; `first` is set
        where thread 0 alone is left.
        """
        match stmt:
            case ir.Store() | ir.MultiStore():
                return self.store(stmt, first=first)
            case ir.If(cond=cond, body=body):
                if any(load.buffer == self.buffer.name for load in _loads_in(cond)):
                    raise _NoShuffleError
                parts = parted or threads_differ_in(cond)
                before, new = self.visit(body, parted=parts, first=first or cond == _FIRST)
                return (before, ir.If(cond, new)) if parts else ([], ir.If(cond, ir.seq(*before, new)))
            case ir.For(body=body) if self.is_distance(stmt):
                if not isinstance(stmt.extent, int) or stmt.extent > _MOST_COPIES:
                    raise _NoShuffleError
                copies = (ir.substitute_in(body, {stmt.var: ir.Const(n)}) for n in range(stmt.extent))
                return self.visit(ir.seq(*copies), parted=parted, first=first)
            case ir.For(body=body):
                before, new = self.visit(body, parted=parted, first=first)
                if before and (parted or not isinstance(stmt.extent, int)):
                    raise _NoShuffleError
                return [], replace(stmt, body=ir.seq(*before, new))
            case ir.Seq(stmts=stmts):
                return self.sequence(stmts, parted=parted, first=first)
            case ir.Alloc(body=body):
                before, new = self.visit(body, parted=parted, first=first)
                return (
                    ([], replace(stmt, body=ir.seq(*before, new))) if not parted else (before, replace(stmt, body=new))
                )
        return [], stmt

    def sequence(self, stmts: tuple[ir.Stmt, ...], *, parted: bool, first: bool) -> tuple[list[ir.Stmt], ir.Stmt]:
        """Statements in sequence: each behind its shuffles, or all behind all."""
        parts = [self.visit(stmt, parted=parted, first=first) for stmt in stmts]
        if not parted:
            return [], ir.seq(*(stmt for before, new in parts for stmt in (*before, new)))
        before = [stmt for shuffles, _ in parts for stmt in shuffles]
        if before and any(store.buffer == self.buffer.name for stmt in stmts for store in _stores(stmt)):
            raise _NoShuffleError
        return before, ir.seq(*(new for _, new in parts))

    def is_distance(self, loop: ir.For) -> bool:
        """Whether the distance of a read depends on a loop."""
        loads = (load for load in _loads(loop.body) if load.buffer == self.buffer.name)
        return any(loop.var in var_names(load.indices[self.lane]) for load in loads)

    def store(self, stmt: ir.Store | ir.MultiStore, *, first: bool) -> tuple[list[ir.Stmt], ir.Stmt]:
        """Stores, and the shuffles that they need."""
        before: list[ir.Stmt] = []
        known: dict[tuple[int, _Indices], ir.Load] = {}

        def change(new: ir.Expr) -> ir.Expr:
            if not (isinstance(new, ir.Load) and new.buffer == self.buffer.name):
                return new
            distance, place = self.distance(new.indices[self.lane], first=first), self.place(new.indices)
            old = ir.Load(self.buffer.name, place)
            if distance == 0:
                return old
            if (distance, place) not in known:
                held = ir.Buffer(self.names.fresh(f"{self.buffer.name}_from", "t"), (1,), self.buffer.dtype, "local")
                self.temporaries.append(held)
                known[distance, place] = ir.Load(held.name, (ir.Const(0),))
                before.append(ir.Shuffle(ir.Store(held.name, (ir.Const(0),), old), distance))
            return known[distance, place]

        def moved(inner: ir.Stmt) -> ir.Stmt:
            if isinstance(inner, ir.Store) and inner.buffer == self.buffer.name:
                return replace(inner, indices=self.place(inner.indices))
            return inner

        return before, ir.transform(map_exprs(stmt, lambda expr: ir.transform(expr, change)), moved)

    def distance(self, index: ir.Expr, *, first: bool) -> int:
        """How many lanes further the element of an index is."""
        form = linear(index)
        if form.terms == ({} if first and not form.terms else {_X: 1}) and 0 <= form.const < LANES:
            return form.const
        raise _NoShuffleError


def _stores(stmt: ir.Stmt) -> Iterator[ir.Store]:
    """The stores in a statement."""
    return ir.find(stmt, ir.Store)


def _loads(stmt: ir.Stmt) -> Iterator[ir.Load]:
    """The loads in a statement."""
    for inner in ir.walk(stmt):
        match inner:
            case ir.Store(indices=indices, value=value):
                yield from (load for expr in (*indices, value) for load in _loads_in(expr))
            case ir.If(cond=cond):
                yield from _loads_in(cond)


def _loads_in(expr: ir.Expr) -> Iterator[ir.Load]:
    """The loads in an expression."""
    return ir.find(expr, ir.Load)


def _is_stepped(stmt: ir.Stmt, buffer: str) -> bool:
    """Whether a step of a warp, an atomic update or a shuffle accesses a buffer."""
    whole = (s for s in ir.walk(stmt) if isinstance(s, ir.IntrinsicCall | ir.Atomic | ir.Shuffle))
    accessed = ({*(s.buffer for s in _stores(inner)), *(load.buffer for load in _loads(inner))} for inner in whole)
    return any(buffer in names for names in accessed)
