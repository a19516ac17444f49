# SPDX-License-Identifier: Apache-2.0
"""Primitives for the storage of a buffer: double_buffer, prefetch, storage_align. None changes a
value.

They annotate the block that writes the buffer or the loop that prefetches; lowering follows where
the target can.
"""

from __future__ import annotations

from vdla.compiler import ir
from vdla.compiler.analysis.access import LeafBlock, leaf_at, leaves, read_indices, stores, writers_of
from vdla.compiler.analysis.dataflow import common_loops
from vdla.compiler.analysis.independence import ROOT
from vdla.compiler.analysis.tree import ScheduleError, block_path, loops_on
from vdla.compiler.arith import INT32
from vdla.compiler.ir import ATOMIC, STRIPS, expr_text
from vdla.compiler.schedule.loop_kinds import with_annotation
from vdla.support.integers import is_int, to_python


def double_buffer(fn: ir.Function, buffer: str) -> ir.Function:
    """Give an intermediate buffer two copies, used in turn by the iterations of the loop around its
    accesses.

    One is filled while the other is read.

    block w(vi=i): ...  ->  block w(vi=i): ...  # double_buffer=True

    Raises:
        ScheduleError: no loop lies around all accesses.
    """
    where = f"double_buffer of {buffer}"
    writer = _writer_of(fn, buffer, where)
    order = leaves(fn)
    users = [leaf for leaf in order if read_indices(leaf.block, buffer) or leaf in writers_of(order, buffer)]
    around = min((common_loops(writer, user) for user in users), key=len)
    if not around:
        raise ScheduleError(
            f"{where}: a loop must lie around all its accesses, got none; place its writer by compute_at"
        )
    return with_annotation(fn, writer.name, "double_buffer", True, where)


def prefetch(fn: ir.Function, block: str, buffer: str, loop: str, distance: int = 1) -> ir.Function:
    """Prefetch what a block reads `distance` iterations of `loop` later: on a CPU, one request per
    cache line.

    for i in range(8): ...  ->  for i in range(8): ...  # prefetch=(('a', 'c', 1),)

    Raises:
        ScheduleError: the block does not read the buffer, or the loop is not around it.
    """
    where = f"prefetch of {buffer} for {block}"
    path = block_path(fn, block, where)
    around = [step.var for step in loops_on(path)]
    if loop not in around:
        raise ScheduleError(f"{where}: the loop must be one of {', '.join(around)}, got {loop!r}")
    leaf = next((leaf for leaf in leaves(fn) if leaf.name == block), None)
    if leaf is None or not read_indices(leaf.block, buffer):
        raise ScheduleError(f"{where}: the block must read the buffer, got none of its elements read")
    _check_at_least(where, "distance", distance, 1)
    earlier = next(step for step in loops_on(path) if step.var == loop).annotations.get("prefetch", ())
    return with_annotation(fn, loop, "prefetch", (*earlier, (buffer, block, int(distance))), where)


def storage_align(fn: ir.Function, buffer: str, dimension: int, factor: int, offset: int = 0) -> ir.Function:
    """Pad an intermediate buffer so that the stride of a dimension, in elements, is `offset` modulo
    `factor`.

    Rows of a power of two then do not all map to the same cache sets.

    block w(vi=i, vj=j): ...  ->  block w(vi=i, vj=j): ...  # storage_align=(0, 32, 8)

    Raises:
        ScheduleError: the dimension is the last, or the offset is not in [0, factor).
    """
    where = f"storage_align of {buffer}"
    writer = _writer_of(fn, buffer, where)
    last = len(fn.buffers[buffer].shape) - 1
    if last == 0:
        rule = "the buffer must have two dimensions or more, as the last has a stride of one"
        raise ScheduleError(f"{where}: {rule}, got 1")
    if not is_int(dimension) or not 0 <= dimension < last:
        raise ScheduleError(f"{where}: the dimension must be in 0..{last - 1}, before the last one, got {dimension!r}")
    for behind in fn.buffers[buffer].shape[dimension + 1 :]:
        if not isinstance(behind, int):
            raise ScheduleError(f"{where}: the dimensions behind must be numbers, got {expr_text(behind)}")
    _check_at_least(where, "factor", factor, 1)
    _check_at_least(where, "offset", offset, 0)
    if offset >= factor:
        raise ScheduleError(f"{where}: the offset must be below the factor {factor}, got {offset}")
    return with_annotation(fn, writer.name, "storage_align", (int(dimension), int(factor), int(offset)), where)


def _writer_of(fn: ir.Function, buffer: str, where: str) -> LeafBlock:
    """The block that writes an intermediate buffer."""
    inner = [name for name in fn.buffers if name not in fn.params]
    if buffer in fn.params:
        raise ScheduleError(f"{where}: the buffer must not be a parameter, got {buffer}, which the caller holds")
    if buffer not in inner:
        raise ScheduleError(f"{where}: the buffer must be one of {', '.join(inner)}, got {buffer!r}")
    return writers_of(leaves(fn), buffer)[-1]


def _check_at_least(where: str, what: str, value: object, least: int) -> None:
    """Refuse what is not an int32 of at least `least`."""
    number = to_python(value)
    if not is_int(number) or number < least:
        raise ScheduleError(f"{where}: the {what} must be an integer of at least {least}, got {value!r}")
    if number > INT32[1]:
        raise ScheduleError(f"{where}: the {what} must be at most {INT32[1]}, got {value!r}")


# --- where a buffer is allocated ------------------------------------------------------------------


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


# --- strips ---------------------------------------------------------------------------------------


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


# --- atomic updates -------------------------------------------------------------------------------

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
    target, *others = stores(leaf_at(block_path(fn, block, where)).block)
    old = ir.Load(target.buffer, target.indices)
    match target.value:
        case ir.Binary(op=op, a=a, b=b) if not others and op in _OPS and (a == old) != (b == old):
            dtype = fn.buffers[target.buffer].dtype
        case _:
            rule = f"the block must update one element by {', '.join(_OPS[:-1])} or {_OPS[-1]}"
            raise ScheduleError(f"{where}: {rule}, got {target.buffer} = {expr_text(target.value)}")
    if dtype not in _DTYPES:
        raise ScheduleError(f"{where}: {target.buffer} must be {' or '.join(_DTYPES)}, got {dtype}")
    return with_annotation(fn, block, ATOMIC, True, where)
