# SPDX-License-Identifier: Apache-2.0
"""Planted faults in loop nests of CPUs and kernels of GPUs: what a schedule primitive or a lowering
pass that is wrong would give.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from numpy.random import Generator

from vdla.benchmarks.certify_schedule_faults import CHANGES, Change, changed
from vdla.compiler import ir, te
from vdla.compiler.certificates.nest_certificate import Nest
from vdla.compiler.lowering import lower
from vdla.compiler.lowering.grid_pipeline import lower_kernels
from vdla.compiler.schedule import Schedule, unchecked
from vdla.compiler.target import GridLimits, Target
from vdla.support.errors import Error
from vdla.verification.fuzz.schedules import ARGUMENTS, Rewrites
from vdla.verification.grid import cooperative
from vdla.verification.grid.defects import defects

_CPU = Target.named("x86-64")
_LIMITS = GridLimits("any device", threads=1024, shared_bytes=1 << 16, warp=4)
_UNCHECKED = ("reorder", "compute_at", "reverse_compute_at", "cache_write")
_TRIALS = 40  # of random primitives without checks, for each function
UNCHECKED_KIND = "primitive without its checks"
KERNEL_KINDS = tuple(
    f"kernel: {kind}"
    for kind in (
        "barrier removed", "barrier of a warp", "barrier under a condition", "barrier in some iterations",
        "condition removed", "update not atomic", "strides overlapped", "halves overlapped", "tile overlapped",
        "tiles overlapped", "blocks overlapped",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class NestFault:
    """A loop nest, or kernels, with a fault of a kind."""

    kind: str
    nest: Nest


# --- functions and schedules ----------------------------------------------------------------------


def _product(dtype: str) -> ir.Function:
    a, b = te.placeholder((5, 6), dtype, "a"), te.placeholder((6, 7), dtype, "b")
    k, j = te.reduce_axis(6, "k"), te.reduce_axis(7, "j")
    c = te.compute((5, 7), lambda i, o: te.sum(a[i, k] * b[k, o], axis=k), "c")
    shifted = te.compute((5, 7), lambda i, o: te.maximum(c[i, o] + a[i, 0], 0), "shifted")
    return te.create_function([a, b], [te.compute((5,), lambda i: te.sum(shifted[i, j], axis=j), "y")], "product")


def _window(dtype: str) -> ir.Function:
    x, w = te.placeholder((9,), dtype, "x"), te.placeholder((3,), dtype, "w")
    padded = te.pad(x, [1], [1], 0, "padded")
    t = te.reduce_axis(3, "t")
    y = te.compute((9,), lambda i: te.sum(padded[i + t] * w[t], axis=t), "y")
    return te.create_function([x, w], [te.compute((9,), lambda i: y[i] * 2 + x[8 - i], "z")], "window")


def cpu_schedules() -> Iterator[Schedule]:
    """Functions of integers and floats with tiles, caches, vectors and parallel loops."""
    for dtype in ("int32", "float32"):
        s = Schedule(_product(dtype))
        s.cache_read("c", "b", "heap")
        i, o, k = s.loops("c")
        ko, ki = s.split(k, factor=4)
        oo, oi = s.split(o, factor=4)
        s.reorder(i, oo, ko, ki, oi)
        s.parallel(i)
        s.vectorize(oi)
        s.set_scope("shifted", "heap")
        s.rfactor(s.split(s.loops("y")[1], factor=3)[1], 1)
        yield s
        s = Schedule(_window(dtype))
        outer, _ = s.split(s.loops("z")[0], factor=4)
        s.compute_at("y", outer)
        s.compute_at("padded", outer)
        s.parallel(outer)
        yield s


def grid_schedules() -> Iterator[Schedule]:
    """Small functions whose threads exchange values."""
    yield cooperative.tiled_product(8, 4, 2, 2, dtype="float32")
    yield cooperative.tiled_product(6, 4, 2, 3)
    yield cooperative.row_sums(3, 16, 8)
    yield cooperative.row_sums(2, 32, 16, tree=True)
    yield cooperative.stencil(20, 8)
    yield cooperative.total(32, 2, 8)
    yield cooperative.centred_rows(2, 8, 4)
    yield cooperative.transpose(8, 4)


# --- faults in nests ------------------------------------------------------------------------------


def _lost_condition(stmt: ir.Stmt) -> Iterator[ir.Stmt]:
    if isinstance(stmt, ir.If):
        yield stmt.body


def _lost_statement(stmt: ir.Stmt) -> Iterator[ir.Stmt]:
    if isinstance(stmt, ir.Seq):
        for place in range(len(stmt.stmts)):
            yield ir.Seq((*stmt.stmts[:place], *stmt.stmts[place + 1 :]))


def _parallel_loop(stmt: ir.Stmt) -> Iterator[ir.Stmt]:
    if isinstance(stmt, ir.For) and stmt.kind is ir.LoopKind.SERIAL:
        yield replace(stmt, kind=ir.LoopKind.PARALLEL)


def _shared_slot(stmt: ir.Stmt) -> Iterator[ir.Stmt]:
    if isinstance(stmt, ir.HeapAlloc) and len(stmt.slots) > 1:
        first, second, *others = stmt.slots
        yield replace(stmt, slots=((*first, *second), *others))


def _index_of_store(stmt: ir.Stmt) -> Iterator[ir.Stmt]:
    if isinstance(stmt, ir.Store):
        for other in _moved_indices(stmt.indices):
            yield replace(stmt, indices=other)


def _value(make: Callable[[ir.Expr], Iterator[ir.Expr]]) -> Change:
    """Changes of one expression in a stored value."""

    def change(stmt: ir.Stmt) -> Iterator[ir.Stmt]:
        for target in ir.walk_expr(stmt.value) if isinstance(stmt, ir.Store) else ():
            for other in make(target):
                assert isinstance(stmt, ir.Store)
                yield replace(stmt, value=_with(stmt.value, target, other))

    return change


def _with(value: ir.Expr, old: ir.Expr, new: ir.Expr) -> ir.Expr:
    return ir.transform(value, lambda one: new if one == old else one)


def _moved_indices(indices: tuple[ir.Expr, ...]) -> Iterator[tuple[ir.Expr, ...]]:
    for place, index in enumerate(indices):
        for by in (1, -1):
            yield (*indices[:place], ir.Binary("add", index, ir.Const(by, "int32")), *indices[place + 1 :])


def _index_of_load(expr: ir.Expr) -> Iterator[ir.Expr]:
    if isinstance(expr, ir.Load):
        yield from (replace(expr, indices=other) for other in _moved_indices(expr.indices))


def _lost_operand(expr: ir.Expr) -> Iterator[ir.Expr]:
    if isinstance(expr, ir.Binary) and expr.op in ("add", "sub", "mul", "max", "min"):
        yield from (expr.a, expr.b)


def _other_operation(expr: ir.Expr) -> Iterator[ir.Expr]:
    others = {"add": "sub", "max": "min", "mul": "add"}
    if isinstance(expr, ir.Binary) and expr.op in others:
        yield replace(expr, op=others[expr.op])


_LOWERED: Mapping[str, Change] = {
    "condition that is lost": _lost_condition,
    "statement that is lost": _lost_statement,
    "loop that is parallel": _parallel_loop,
    "buffers in one memory": _shared_slot,
    "index of a store": _index_of_store,
    "index of a load": _value(_index_of_load),
    "operand that is lost": _value(_lost_operand),
    "another operation": _value(_other_operation),
}
NEST_KINDS = (*(f"nest: {kind}" for kind in (*CHANGES, UNCHECKED_KIND)), *(f"lowered: {kind}" for kind in _LOWERED))


def nest_faults(schedule: Schedule, count: int, rng: Generator) -> Iterator[NestFault]:
    """At most `count` faults of each kind in a schedule, and in its lowered nest."""
    lowered = lower(schedule.fn, _CPU)
    for kind, change in CHANGES.items():
        yield from _some(f"nest: {kind}", schedule.fn, change, count, rng)
    yield from _unchecked(schedule, count, int(rng.integers(1 << 30)))
    for kind, change in _LOWERED.items():
        yield from _some(f"lowered: {kind}", lowered, change, count, rng)


def _some(kind: str, fn: ir.Function, change: Change, count: int, rng: Generator) -> Iterator[NestFault]:
    made = list(changed(fn.body, change))
    for place in rng.permutation(len(made))[:count]:
        yield NestFault(kind, replace(fn, body=made[int(place)]))


def _unchecked(schedule: Schedule, count: int, seed: int) -> Iterator[NestFault]:
    """Primitives that are refused, and applied without checks; their illegal results."""
    chance, made = random.Random(seed), set[str]()
    for _ in range(_TRIALS):
        checked = Rewrites(chance, Schedule(schedule.unscheduled))
        name = chance.choice(_UNCHECKED)
        arguments = ARGUMENTS[name](checked)
        if checked.attempt(name, arguments) is not None or checked.accepted:
            continue
        free = Schedule(schedule.unscheduled)
        try:
            with unchecked():
                getattr(free, name)(*arguments)
        except Error:
            continue
        if str(free.fn) not in made and len(made) < count:
            made.add(str(free.fn))
            yield NestFault(f"nest: {UNCHECKED_KIND}", free.fn)


# --- faults in kernels ----------------------------------------------------------------------------


def kernel_faults(schedule: Schedule, count: int, rng: Generator) -> Iterator[NestFault]:
    """At most `count` faults of each kind in the kernels of a schedule."""
    kernels = lower_kernels(schedule.fn, _LIMITS)
    by_kind: dict[str, list[Nest]] = {}
    for number, kernel in enumerate(kernels):
        for kind, other in defects(kernel):
            if str(other) != str(kernel):
                by_kind.setdefault(kind, []).append((*kernels[:number], other, *kernels[number + 1 :]))
    for kind, made in by_kind.items():
        for place in rng.permutation(len(made))[:count]:
            yield NestFault(f"kernel: {kind}", made[int(place)])
