"""The primitive that reduces over the threads of a block, in a tree through shared memory."""

from __future__ import annotations

from vdla.compiler import ir
from vdla.compiler.analysis.access import leaf_at, written_buffers
from vdla.compiler.analysis.errors import ScheduleError
from vdla.compiler.analysis.tree import block_path, loop_at, loop_path
from vdla.compiler.ir import THREAD_AXES, extent_text
from vdla.compiler.schedule.loop_kinds import bind, loops_of, set_scope
from vdla.compiler.schedule.rfactor import rfactor
from vdla.compiler.schedule.split import split

_LAST_TERMS = 2  # that one thread adds


def thread_reduce(fn: ir.Function, loop: str, thread: str) -> tuple[ir.Function, str]:
    """Bind a reduce loop to an axis of threads: each computes a partial result, and half as many
    threads combine pairs of them, until one thread combines the last two.

    for i in range(4):                   for i in range(4):
        for ko in range(4):                  for ko in range(4):  # thread=threadIdx.x
            for ki in range(8):                  for ki in range(8):
                block c(vi=i, ...):              block c_rf(vko=ko, ...): c_rf[vko, vi] += ...
                    c[vi] += a[...]   ->     for o in range(2):
                                                 for t in range(4):  # thread=threadIdx.x
                                                     block c_c_rf(vt=t, ...) where t < 2:
                                                         c_c_rf[vt, vi] += c_rf[o * 2 + vt, vi]
                                             for t in range(2):
                                                 block c(vi=i, ...): c[vi] += c_c_rf[t, vi]

    The partial results are in shared memory, so lowering puts a barrier between the steps; where a
    device has warps of 32 lanes, the last five steps go from register to register instead. The
    order of the additions changes, which floats show. The result is the name of the block of the
    first partial results.
    """
    where = f"thread_reduce of {loop}"
    if thread not in THREAD_AXES:
        raise ScheduleError(f"{where}: the thread must be one of {', '.join(THREAD_AXES)}, got {thread!r}")
    threads = loop_at(loop_path(fn, loop, where)).extent
    if not isinstance(threads, int):
        raise ScheduleError(f"{where}: the extent must be a number, got {extent_text(threads)}")
    total = _block_in(fn, loop)
    fn, first = _partial(fn, loop, where)
    fn = bind(fn, loop, thread)
    terms = threads
    while terms > _LAST_TERMS:
        terms = -(-terms // 2)
        fn, (_, pair) = split(fn, loops_of(fn, total)[-1], factor=terms)
        fn, _ = _partial(fn, pair, where)
        fn, (_, own) = split(fn, pair, factor=threads)
        fn = bind(fn, own, thread)
    return fn, first


def _block_in(fn: ir.Function, loop: str) -> str:
    """The block that reduces over a loop; `rfactor` refuses another number of blocks."""
    return next(stmt.name for stmt in ir.walk(loop_at(loop_path(fn, loop, ""))) if isinstance(stmt, ir.Block))


def _partial(fn: ir.Function, loop: str, where: str) -> tuple[ir.Function, str]:
    """`fn` with a reduction factored over a loop, its partial results in shared memory."""
    fn, name = rfactor(fn, loop, where=where)
    for buffer in sorted(written_buffers(leaf_at(block_path(fn, name, where)).block)):
        fn = set_scope(fn, buffer, "shared")
    return fn, name
