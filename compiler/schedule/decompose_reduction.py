# SPDX-License-Identifier: Apache-2.0
"""The primitive that splits a reduction into an init block and an update block.

Both blocks then write the buffer, so neither can be moved any more.
"""

from __future__ import annotations

from dataclasses import replace

from vdla.compiler import ir
from vdla.compiler.analysis.access import LeafBlock, leaf_at, stores
from vdla.compiler.analysis.dataflow import check_flow, scan_loops
from vdla.compiler.analysis.independence import check_terms_once, elements_differ
from vdla.compiler.analysis.symbols import domains_of
from vdla.compiler.analysis.tree import ScheduleError, block_path, loop_path, replace_at, used_names
from vdla.compiler.arith import conjuncts, predicate_of, var_names
from vdla.compiler.ir import expr_text
from vdla.compiler.schedule.place import check_not_blockized, in_fresh_loops, target_loops


def decompose_reduction(fn: ir.Function, block: str, loop: str) -> tuple[ir.Function, str]:
    """Initialise a reduction in a block `<name>_init` in front of `loop`; the name of that block.

    for i in range(4):                       for i in range(4):
        for k in range(8):                       block c_init(vi=i): c[vi] = 0
            block c(vi=i, vk=reduce k): ->       for k in range(8):
                init: c[vi] = 0                      block c(vi=i, vk=reduce k): c[vi] = c[vi] + ...
                c[vi] = c[vi] + ...

    The new block gets its own copies of the spatial loops from `loop` inwards.
    """
    where = f"decompose_reduction of {block} at {loop}"
    leaf = leaf_at(block_path(fn, block, where))
    check_not_blockized(leaf.path, "decomposed", where)
    if leaf.block.init is None:
        raise ScheduleError(f"{where}: the block must be a reduction with an init, got {block}")
    target_loops(fn, loop, where)
    inner = _loops_from(leaf, loop, where)
    summed = leaf.loops_along(ir.AxisKind.REDUCE)
    _check_outside(leaf, loop, summed, where)
    _check_inside_steps(leaf, inner, where)
    _check_once(fn, leaf, inner, summed, where)
    check_terms_once(leaf, inner, domains_of(fn), where)
    name = used_names(fn).fresh(f"{block}_init", block)
    start = _starting_block(leaf, name, {step.var for step in inner} & summed, where)
    nest = in_fresh_loops(fn, start, [step for step in inner if step.var not in summed])
    path = block_path(fn, block, where)
    result = replace_at(fn, path, replace(leaf.block, init=None))
    path = loop_path(result, loop, where)
    result = replace_at(result, path, ir.seq(nest, path[-1]))
    check_flow(result, name, where)
    return result, name


def _loops_from(leaf: LeafBlock, loop: str, where: str) -> list[ir.For]:
    """The loops around a leaf, from `loop` inwards."""
    names = [step.var for step in leaf.loops]
    if loop not in names:
        raise ScheduleError(f"{where}: the loop must be one of {', '.join(names)}, got {loop!r}")
    return list(leaf.loops[names.index(loop) :])


def _check_outside(leaf: LeafBlock, loop: str, summed: set[str], where: str) -> None:
    """Refuse an init inside a reduce loop of the block."""
    for step in leaf.loops:
        if step.var == loop:
            return
        if step.var in summed and step.extent != 1:
            rule = f"the loop must lie outside of {step.var}, over which the block reduces"
            raise ScheduleError(f"{where}: {rule}, got {loop} inside")


def _check_inside_steps(leaf: LeafBlock, inner: list[ir.For], where: str) -> None:
    """Refuse an init in front of the steps of a scan."""
    for step in inner:
        if step.var in scan_loops(leaf):
            rule = f"the loop must lie inside of {step.var}, over which the block scans"
            raise ScheduleError(f"{where}: {rule}, got {inner[0].var}")


def _check_once(fn: ir.Function, leaf: LeafBlock, inner: list[ir.For], summed: set[str], where: str) -> None:
    """Refuse loops inside which an element would be initialised more than once."""
    (store, *_) = stores(leaf.block)
    chosen = {name for value in leaf.element() for name in var_names(value)}
    for step in inner:
        if step.extent == 1 or (step.var in summed and step.var not in chosen):
            continue
        if not elements_differ(leaf, store.indices, step.var, domains_of(fn)):
            rule = f"each sum of {leaf.name} must start once inside the loop"
            raise ScheduleError(f"{where}: {rule}, got one start in several iterations of {step.var}")


def _starting_block(leaf: LeafBlock, name: str, dropped: set[str], where: str) -> ir.Block:
    """The init block, over the loops that select the element."""
    block = leaf.block
    kept = [place for place, axis in enumerate(block.axes) if axis.kind is not ir.AxisKind.REDUCE]
    conditions: list[ir.Expr] = []
    for condition in conjuncts(block.predicate):
        if not var_names(condition) & dropped:
            conditions.append(condition)
        elif not var_names(condition) <= dropped:
            rule = "no condition must tie the element to the terms of its sum"
            raise ScheduleError(f"{where}: {rule}, got {expr_text(condition)}")
    axes = tuple(block.axes[place] for place in kept)
    values = tuple(ir.substitute(block.values[p], dict.fromkeys(dropped, ir.Const(0))) for p in kept)
    assert block.init is not None
    return ir.Block(name=name, axes=axes, values=values, body=block.init, init=None, predicate=predicate_of(conditions))
