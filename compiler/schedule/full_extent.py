# SPDX-License-Identifier: Apache-2.0
"""The primitive that runs a placed block over the full extent of an axis.

Its readers may need less: a copy moves full entries even where only part of the last one is read.
"""

from __future__ import annotations

from dataclasses import replace

from vdla.compiler import ir
from vdla.compiler.analysis.access import leaf_at
from vdla.compiler.analysis.dataflow import check_flow
from vdla.compiler.analysis.tree import ScheduleError, block_at, block_path, loops_on, replace_at
from vdla.compiler.arith import conjuncts, predicate_of, var_names
from vdla.compiler.ir import expr_text
from vdla.compiler.schedule.loop_kinds import content_text
from vdla.compiler.schedule.place import check_only_writer


def full_extent(fn: ir.Function, block: str, *axes: str) -> ir.Function:
    """Run a block, already placed by compute_at, over the full extent of the given axes.

        for i in range(9):                  for i in range(16):
            block w(vi=i): ...       ->         block w(vi=i): ...

    Raises:
        ScheduleError: an axis is not spatial or has no loop of its own, or the block would read
            elements that are not computed.
    """
    block_path(fn, block, f"full_extent of {block}")
    for axis in axes:
        fn = _full_axis(fn, block, axis)
        check_flow(fn, block, f"full_extent of {block} over {axis}")
    return fn


def _full_axis(fn: ir.Function, block: str, axis: str) -> ir.Function:
    """`full_extent` for one axis."""
    where = f"full_extent of {block} over {axis}"
    path = block_path(fn, block, where)
    target_block = block_at(path)
    spatial = [a.var for a in target_block.axes if a.kind is ir.AxisKind.SPATIAL]
    if axis not in spatial:
        raise ScheduleError(f"{where}: the axis must be one of {', '.join(spatial)}, got {axis!r}")
    values = {a.var: value for a, value in target_block.bindings}
    loop = values[axis]
    others = set().union(*(var_names(v) for a, v in values.items() if a != axis))
    around = {step.var: step for step in loops_on(path)}
    if not isinstance(loop, ir.Var) or loop.name in others or loop.name not in around:
        raise ScheduleError(f"{where}: the axis must be driven by a loop of its own, got {expr_text(loop)}")
    outer_loop = around[loop.name]
    if any(isinstance(s, ir.Block) and s is not target_block for s in ir.walk(outer_loop)):
        raise ScheduleError(
            f"{where}: the loop {outer_loop.var} must hold no other block, got {content_text(outer_loop)}"
        )
    leaf = leaf_at(path)
    check_only_writer(fn, leaf, where)
    kept = [c for c in conjuncts(target_block.predicate) if loop.name not in var_names(c)]
    fn = replace_at(fn, path, replace(target_block, predicate=predicate_of(kept)))
    position = path.index(outer_loop)
    path = block_path(fn, block, where)[: position + 1]
    inner = path[position]
    assert isinstance(inner, ir.For)
    return replace_at(fn, path, replace(inner, extent=leaf.axis_of(axis).extent))
