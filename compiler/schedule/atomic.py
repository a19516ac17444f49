"""The primitive that lets threads add to one element at once."""

from __future__ import annotations

from vdla.compiler import ir
from vdla.compiler.analysis.access import leaf_at, stores
from vdla.compiler.analysis.errors import ScheduleError
from vdla.compiler.analysis.tree import block_path
from vdla.compiler.ir import ATOMIC, expr_text
from vdla.compiler.schedule.loop_kinds import with_annotation

_OPS = ("add", "min", "max")
_DTYPES = ("int32", "uint32")  # what every device updates at once


def atomic(fn: ir.Function, block: str) -> ir.Function:
    """Let threads of a grid update the elements of a reduction at once, so that `bind` takes its
    reduce loops.

    block c(vi=i, vk=reduce k):       ->    block c(vi=i, vk=reduce k):  # atomic=True
        c[vi] = c[vi] + a[vi, vk]               c[vi] = c[vi] + a[vi, vk]

    The sums are of 32-bit integers, whose order does not show, or their least or greatest.
    """
    where = f"atomic of {block}"
    found, *others = stores(leaf_at(block_path(fn, block, where)).block)
    own = ir.Load(found.buffer, found.indices)
    match found.value:
        case ir.Binary(op=op, a=a, b=b) if not others and op in _OPS and (a == own) != (b == own):
            dtype = fn.buffers[found.buffer].dtype
        case _:
            rule = f"the block must update one element by {', '.join(_OPS[:-1])} or {_OPS[-1]}"
            raise ScheduleError(f"{where}: {rule}, got {found.buffer} = {expr_text(found.value)}")
    if dtype not in _DTYPES:
        raise ScheduleError(f"{where}: {found.buffer} must be {' or '.join(_DTYPES)}, got {dtype}")
    return with_annotation(fn, block, ATOMIC, True, where)
