"""The primitive that chooses the loop inside which a buffer is allocated."""

from __future__ import annotations

from vdla.compiler import ir
from vdla.compiler.analysis.errors import ScheduleError
from vdla.compiler.analysis.independence import ROOT
from vdla.compiler.analysis.tree import block_path, loops_on
from vdla.compiler.schedule.loop_kinds import with_annotation


def store_at(fn: ir.Function, block: str, loop: str | None) -> ir.Function:
    """Allocate the buffer that a block writes once per iteration of `loop`.

        for y in range(4):                      for y in range(4):  # one tile for all of co
            for co in range(8):          ->         for co in range(8):
                block w(vco=co): ...                    block w(vco=co): ...  # store_at=y

    With None for `loop` it is allocated once per program.

    Raises:
        ScheduleError: the loop is not around the block.
    """
    where = f"store_at of {block}"
    around = [step.var for step in loops_on(block_path(fn, block, where))]
    if loop is not None and loop not in around:
        raise ScheduleError(f"{where}: the loop must be one of {', '.join(around)}, got {loop!r}")
    return with_annotation(fn, block, "store_at", ROOT if loop is None else loop, where)
