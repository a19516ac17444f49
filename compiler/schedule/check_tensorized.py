"""The check that a nest tensorized for the accelerator stays a step of its intrinsic under later
primitives.

A nest tensorized for a CPU may change: lowering matches it anew, and runs it as plain loops if it
is no longer a step.
"""

from __future__ import annotations

from collections.abc import Mapping

from vdla.compiler import ir
from vdla.compiler.analysis.errors import ScheduleError
from vdla.compiler.analysis.tree import paths
from vdla.compiler.ir import Match
from vdla.compiler.tensorize import TensorizeError, match_block, perfect_nest

CheckedSteps = Mapping[str, tuple[ir.For, tuple[ir.Buffer | None, ...]]]


def check_tensorized(fn: ir.Function, where: str, known: CheckedSteps) -> CheckedSteps:
    """Refuse `fn` if a nest tensorized for the accelerator is no longer what was matched.

    `known` has the nest and the buffers of each step checked so far; a step whose nest and buffers
    are the same objects is not checked again. The result is that of `fn`.
    """
    result: dict[str, tuple[ir.For, tuple[ir.Buffer | None, ...]]] = {}
    for path in paths(fn.body):
        block = path[-1]
        if not isinstance(block, ir.Block) or "intrinsic" not in block.annotations:
            continue
        match: Match = block.annotations["intrinsic"]
        if match.intrinsic.target != "vdla":
            continue
        nest = next((stmt for stmt in path if isinstance(stmt, ir.For) and "tensorize" in stmt.annotations), None)
        buffers = tuple(fn.buffers.get(name) for name in match.buffers.values())
        if nest is not None and _is_known(known, block.name, nest, buffers):
            result[block.name] = known[block.name]
            continue
        if nest is None or not _still_matches(fn, nest, match):
            rule = f"{block.name} must stay a step of {match.intrinsic.name}, as it was tensorized"
            raise ScheduleError(f"{where}: {rule}, got another nest; tensorize it last")
        result[block.name] = nest, buffers
    return result


def _is_known(known: CheckedSteps, block: str, nest: ir.For, buffers: tuple[ir.Buffer | None, ...]) -> bool:
    if block not in known:
        return False
    old_nest, old_buffers = known[block]
    return old_nest is nest and all(old is new for old, new in zip(old_buffers, buffers, strict=True))


def _still_matches(fn: ir.Function, nest: ir.For, match: Match) -> bool:
    """Whether a nest is what was matched."""
    try:
        block, loops = perfect_nest(nest, match.intrinsic)
        now = match_block(fn, block, loops, match.intrinsic)
    except TensorizeError:
        return False
    parts = [(m.buffers, m.entries, m.immediates, m.conditions) for m in (now, match)]
    return parts[0] == parts[1]
