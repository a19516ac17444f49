"""The check that what was tensorized for the accelerator stays a step of its intrinsic, whatever is done after.

Lowering for a CPU matches each nest anew, and runs one that is no step any more as loops; the accelerator has nothing
but its instructions.
"""

from __future__ import annotations

from vdla.compiler import ir
from vdla.compiler.analysis.errors import ScheduleError
from vdla.compiler.analysis.tree import block_at, paths
from vdla.compiler.ir import Match
from vdla.compiler.tensorize import TensorizeError, match_block, perfect_nest


def check_tensorized(fn: ir.Function, where: str) -> None:
    """Refuse `fn` if a nest tensorized for the accelerator is no longer what was matched."""
    for path in paths(fn.body):
        if isinstance(path[-1], ir.Block) and "intrinsic" in path[-1].annotations:
            block = block_at(path)
            match: Match = block.annotations["intrinsic"]
            nest = next((stmt for stmt in path if isinstance(stmt, ir.For) and "tensorize" in stmt.annotations), None)
            if match.intrinsic.target == "vdla" and (nest is None or not _still_matches(fn, nest, match)):
                rule = f"{block.name} must stay a step of {match.intrinsic.name}, as it was tensorized"
                raise ScheduleError(f"{where}: {rule}, got another nest; tensorize it last")


def _still_matches(fn: ir.Function, nest: ir.For, match: Match) -> bool:
    """Whether a nest is what was matched."""
    try:
        block, loops = perfect_nest(nest, match.intrinsic)
        now = match_block(fn, block, loops, match.intrinsic)
    except TensorizeError:
        return False
    parts = [(m.buffers, m.entries, m.immediates, m.conditions) for m in (now, match)]
    return parts[0] == parts[1]
