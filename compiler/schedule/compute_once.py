# SPDX-License-Identifier: Apache-2.0
"""The primitive that runs a block only in the first iteration of a loop."""

from __future__ import annotations

from dataclasses import replace

from vdla.compiler import ir
from vdla.compiler.analysis.access import leaf_at
from vdla.compiler.analysis.dataflow import first_iteration
from vdla.compiler.analysis.tree import ScheduleError, block_path, replace_at
from vdla.compiler.arith import FALSE, affine, conjuncts, predicate_of, simplify, var_names
from vdla.compiler.ir import expr_text
from vdla.compiler.schedule.place import check_only_writer


def compute_once(fn: ir.Function, block: str, *loops: str) -> ir.Function:
    """Run a block only in the first iteration of loops that its region does not depend on.

    Later iterations read what the first one left in the buffer.

        for y in range(4):                  for y in range(4):
            for k in range(8):        ->        for k in range(8):
                block w(vk=k): ...                  block w(vk=k) where y == 0: ...
    """
    block_path(fn, block, f"compute_once of {block}")
    for loop in loops:
        fn = _once_over(fn, block, loop)
    return fn


def _once_over(fn: ir.Function, block: str, loop: str) -> ir.Function:
    """`compute_once` for one loop."""
    where = f"compute_once of {block} over {loop}"
    path = block_path(fn, block, where)
    leaf = leaf_at(path)
    around = [step.var for step in leaf.loops]
    if loop not in around:
        raise ScheduleError(f"{where}: the loop must be one of {', '.join(around)}, got {loop!r}")
    for axis, value in leaf.values.items():
        if loop in var_names(value):
            value_text = f"{axis} = {expr_text(value)}"
            raise ScheduleError(f"{where}: the region must not depend on the loop, got {value_text}")
    check_only_writer(fn, leaf, where)
    conditions = [_in_first_iteration(condition, loop, where) for condition in conjuncts(leaf.block.predicate)]
    predicate = predicate_of([*conditions, first_iteration(loop)])
    return replace_at(fn, path, replace(leaf.block, predicate=predicate))


def _in_first_iteration(condition: ir.Expr, loop: str, where: str) -> ir.Expr:
    """The condition in the first iteration of `loop`, where it must hold if it holds in any."""
    if loop not in var_names(condition):
        return condition
    if isinstance(condition, ir.Binary) and condition.op in ("lt", "le"):
        form = affine(condition.a)
        if form is not None and form[0][loop] > 0 and loop not in var_names(condition.b):
            first = simplify(ir.substitute(condition, {loop: ir.Const(0)}), {})
            return first if first != FALSE else condition
    raise ScheduleError(f"{where}: the block must not run in some iterations only, got {expr_text(condition)}")
