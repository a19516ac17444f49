"""The primitive that cuts computation into strips where it would wait for transfers."""

from __future__ import annotations

from vdla.compiler import ir
from vdla.compiler.analysis.errors import ScheduleError
from vdla.compiler.analysis.tree import block_path
from vdla.compiler.ir import STRIPS
from vdla.compiler.schedule.loop_kinds import with_annotation
from vdla.support.integers import is_int, to_python


def strips(fn: ir.Function, block: str, count: int) -> ir.Function:
    """Compute the tiles of a block in `count` strips where it would wait for a window or for its
    results to be stored.

    On the VDLA, each strip begins when its part of the window has been loaded, and its results are
    stored while the next one is computed. Virtual threads overlap the transfers of all tiles but
    the first and the last, so with them only these are cut. It changes no value, and nothing on
    other targets.

    block w(vi=i): ...  ->  block w(vi=i): ...  # strips=2
    """
    where = f"strips of {block}"
    block_path(fn, block, where)
    number = to_python(count)
    if not is_int(number) or number < 1:
        raise ScheduleError(f"{where}: the count must be an integer of at least 1, got {count!r}")
    return with_annotation(fn, block, STRIPS, int(number), where)
