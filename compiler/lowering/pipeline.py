# SPDX-License-Identifier: Apache-2.0
"""The pass pipeline, from a scheduled function to plain loops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from sys import getrecursionlimit

from vdla.compiler import ir
from vdla.compiler.ir import map_children
from vdla.compiler.lowering.blocks import decompose, remove_blocks
from vdla.compiler.lowering.check import CheckedExpressions, Level, PassError, check
from vdla.compiler.lowering.heap_slots import share_heap_slots
from vdla.compiler.lowering.partition import partition
from vdla.compiler.lowering.prefetch import prefetch
from vdla.compiler.lowering.select_intrinsics import select_intrinsics
from vdla.compiler.lowering.simplify import simplify_function
from vdla.compiler.lowering.storage import place_storage
from vdla.compiler.lowering.unroll import unroll
from vdla.compiler.lowering.vectorize import vectorize
from vdla.compiler.target import Target

# --- nested parallel loops ------------------------------------------------------------------------


def serialise_nested(fn: ir.Function) -> ir.Function:
    """`fn` without PARALLEL loops inside PARALLEL loops.

    for i in parallel(4):                 for i in parallel(4):
        for j in parallel(8): ...   ->        for j in range(8): ...
    """
    return replace(fn, body=_serialise(fn.body, inside=False))


def _serialise(stmt: ir.Stmt, *, inside: bool) -> ir.Stmt:
    """`stmt` with only its outermost parallel loops; none if it is `inside` one."""
    is_parallel = isinstance(stmt, ir.For) and stmt.kind is ir.LoopKind.PARALLEL
    new = map_children(stmt, lambda child: _serialise(child, inside=inside or is_parallel))
    return replace(new, kind=ir.LoopKind.SERIAL) if inside and is_parallel and isinstance(new, ir.For) else new


@dataclass(frozen=True, slots=True)
class Pass:
    """A pass and the level of its result."""

    name: str
    run: Callable[[ir.Function], ir.Function]
    level: Level


PIPELINE = (
    Pass("decompose", decompose, Level.DECOMPOSED),
    Pass("place storage", place_storage, Level.PLACED),
    Pass("prefetch", prefetch, Level.PLACED),
    Pass("remove blocks", remove_blocks, Level.LOOPS),
    Pass("simplify", simplify_function, Level.LOOPS),
    Pass("partition", partition, Level.LOOPS),
    Pass("unroll", unroll, Level.UNROLLED),
    Pass("vectorize", vectorize, Level.UNROLLED),
    Pass("serialise nested parallel", serialise_nested, Level.UNROLLED),
    Pass("share heap slots", share_heap_slots, Level.LOWERED),
)


def lower(fn: ir.Function, target: Target) -> ir.Function:
    """`fn` as loops, stores, conditions, allocations and intrinsic calls, bit for bit equivalent.

    Raises:
        PassError: the schedule asks for the impossible, such as unrolling beyond the limit.
    """
    _check_arguments(fn, target)
    known = CheckedExpressions()
    try:
        fn = select_intrinsics(fn, target)
        for step in PIPELINE:
            fn = step.run(fn)
            check(fn, step.level, known if step.level >= Level.LOOPS else None)
    except RecursionError as error:
        rule = "loops and expressions must nest within Python's recursion limit"
        raise PassError(f"lower of {fn.name}: {rule}, got more than {getrecursionlimit()} calls") from error
    return fn


def _check_arguments(fn: ir.Function, target: Target) -> None:
    """Rejects arguments of the wrong type, and lowered functions."""
    if not isinstance(fn, ir.Function):
        raise PassError(f"lower: fn must be a Function, as of schedule.fn, got {type(fn).__name__}")
    if not isinstance(target, Target):
        raise PassError(
            f"lower of {fn.name}: target must be a Target (Target.named gives one), got {type(target).__name__}"
        )
    lowered = (s for s in ir.walk(fn.body) if isinstance(s, ir.Alloc | ir.HeapAlloc | ir.IntrinsicCall | ir.Prefetch))
    if (candidate := next(lowered, None)) is not None:
        raise PassError(f"lower of {fn.name}: fn must not be lowered already, got {type(candidate).__name__}")
