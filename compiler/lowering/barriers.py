# SPDX-License-Identifier: Apache-2.0
"""Insert barriers: where threads of a block depend on each other, and nowhere else."""

from __future__ import annotations

from dataclasses import replace

from vdla.compiler import ir
from vdla.compiler.analysis import (
    MeetingTable,
    Race,
    ScheduleError,
    ThreadProgram,
    barrier_violation,
    check_threads,
    races,
)
from vdla.compiler.ir import GridKernel
from vdla.compiler.lowering.check import PassError
from vdla.compiler.lowering.grids import kernel_of, launches, with_launches

_Place = tuple[int, ...]


def insert_barriers(fn: ir.Function, warp: int = 1) -> ir.Function:
    """`fn`, which consists of launches, with the barriers that make the threads of each block
    independent between them.

    A barrier is one of warps, of that size, where no threads of different warps depend on each
    other.

    for threadIdx.x in range(4):                  for threadIdx.x in range(4):
        t[threadIdx.x] = a[threadIdx.x]    ->         t[threadIdx.x] = a[threadIdx.x]
        c[threadIdx.x] = t[3 - threadIdx.x]           barrier of block
                                                      c[threadIdx.x] = t[3 - threadIdx.x]

    Raises:
        PassError: threads race all the same, or would part at a barrier.
    """
    return with_launches(fn, [_body_with_barriers(kernel_of(fn, nest, fn.name, warp)) for nest in launches(fn)])


def _body_with_barriers(kernel: GridKernel) -> ir.Stmt:
    """The body of a kernel with its barriers."""
    table = MeetingTable()
    while (place := _next_place(kernel, table)) is not None:
        kernel = replace(kernel, body=_insert(kernel.body, place))
    try:
        kernel = _without_idle(kernel, table)
        kernel = _with_warps(kernel, table) if kernel.warp > 1 else kernel
        check_threads(kernel, table)
    except ScheduleError as error:
        raise PassError(str(error)) from error
    return kernel.body


def _next_place(kernel: GridKernel, table: MeetingTable) -> _Place | None:
    """Where a barrier is missing; None if nowhere, or if the threads would part at it."""
    program = ThreadProgram.of(kernel)
    if any(barrier_violation(barrier) for barrier in program.barriers):
        return None  # one that was inserted; `check_threads` refuses it
    return next((place for race in races(program, table) if (place := _place_for(race)) is not None), None)


def _place_for(race: Race) -> _Place | None:
    """The place at which a barrier ends a race: before the second access, or last in the loop that
    carries it.

    None if both accesses are in one statement.
    """
    if race.loop is not None:
        return (*race.loop.place, 0, -1)
    pairs = list(zip(race.first.place, race.second.place, strict=False))
    apart = next((n for n, (a, b) in enumerate(pairs) if a != b), None)
    return None if apart is None else race.second.place[: apart + 1]


def _insert(stmt: ir.Stmt, place: _Place) -> ir.Stmt:
    """`stmt` with a barrier before the child at `place`; after the body of a loop for -1."""
    first, *rest = place
    if first == -1:
        return ir.seq(stmt, ir.Barrier())
    children = list(ir.children(stmt))
    if not rest:
        return ir.seq(*children[:first], ir.Barrier(), *children[first:])
    children[first] = _insert(children[first], tuple(rest))
    return ir.with_children(stmt, tuple(children))


def _without_idle(kernel: GridKernel, table: MeetingTable) -> GridKernel:
    """A kernel without the barriers that later ones made idle."""
    for barrier in ThreadProgram.of(kernel).barriers[::-1]:
        less = replace(kernel, body=_replaced(kernel.body, barrier.place, ir.Seq(())))
        if next(races(ThreadProgram.of(less), table), None) is None:
            kernel = less
    return kernel


def _with_warps(kernel: GridKernel, table: MeetingTable) -> GridKernel:
    """A kernel whose barriers stop a warp alone where that is enough."""
    for barrier in ThreadProgram.of(kernel).barriers:
        body = _replaced(kernel.body, barrier.place, ir.Barrier(ir.BarrierScope.WARP))
        weaker = replace(kernel, body=body)
        if next(races(ThreadProgram.of(weaker), table), None) is None:
            kernel = weaker
    return kernel


def _replaced(stmt: ir.Stmt, place: _Place, new: ir.Stmt) -> ir.Stmt:
    """`stmt` with the statement at `place` replaced."""
    first, *rest = place
    children = list(ir.children(stmt))
    children[first] = _replaced(children[first], tuple(rest), new) if rest else new
    return ir.with_children(stmt, tuple(children))
