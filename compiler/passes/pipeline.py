"""The passes in their order: from a scheduled function to plain loops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from vdla.compiler import ir
from vdla.compiler.passes.blocks import remove_blocks
from vdla.compiler.passes.check import Level, check
from vdla.compiler.passes.decompose import decompose
from vdla.compiler.passes.parallel import one_level
from vdla.compiler.passes.partition import partition
from vdla.compiler.passes.prefetch import prefetch
from vdla.compiler.passes.rooms import share_rooms
from vdla.compiler.passes.simplify import simplify
from vdla.compiler.passes.steps import choose_steps
from vdla.compiler.passes.storage import place_storage
from vdla.compiler.passes.unroll import unroll
from vdla.compiler.passes.vectorize import vectorize
from vdla.compiler.target import Target


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass, and the level that its result has."""

    name: str
    run: Callable[[ir.Function], ir.Function]
    level: Level


PIPELINE = (
    Pass("check parallel", one_level, Level.SCHEDULED),
    Pass("decompose", decompose, Level.DECOMPOSED),
    Pass("place storage", place_storage, Level.PLACED),
    Pass("prefetch", prefetch, Level.PLACED),
    Pass("remove blocks", remove_blocks, Level.LOOPS),
    Pass("simplify", simplify, Level.LOOPS),
    Pass("partition", partition, Level.LOOPS),
    Pass("unroll", unroll, Level.UNROLLED),
    Pass("vectorize", vectorize, Level.UNROLLED),
    Pass("share rooms", share_rooms, Level.LOWERED),
)


def lower(fn: ir.Function, target: Target) -> ir.Function:
    """`fn` as loops, stores, conditions, allocations and steps of intrinsics; it computes the same, bit for bit.

    Raises:
        PassError: the schedule asks for what cannot be had, such as unrolling more than the limit.
    """
    fn = choose_steps(fn, target)
    for step in PIPELINE:
        fn = step.run(fn)
        check(fn, step.level)
    return fn
