# SPDX-License-Identifier: Apache-2.0
"""The primitive that reorders the loops of a nest."""

from __future__ import annotations

from itertools import pairwise

from vdla.compiler import ir
from vdla.compiler.analysis.access import leaves, readers_of_any, written_buffers
from vdla.compiler.analysis.dataflow import last_iteration, reduction_loops
from vdla.compiler.analysis.symbols import Domains, domains_of
from vdla.compiler.analysis.tree import ScheduleError, is_unchecked, loop_at, loop_path, loops_on, replace_at
from vdla.compiler.arith import Linear, Ranges, ambiguous_vars, linear, var_names
from vdla.compiler.ir import extent_text
from vdla.compiler.schedule.loop_kinds import content_text, outermost_blocks, role
from vdla.compiler.schedule.split import split


def reorder(fn: ir.Function, *loops: str) -> ir.Function:
    """Reorder loops of one nest; together they keep the positions that they occupy.

        for i in range(3):             for k in range(4):
            for k in range(4):   ->        for i in range(3):
                block c(...): ...              block c(...): ...

    The nest must be perfect between the outermost and the innermost of them.
    """
    where = f"reorder of {', '.join(map(str, loops)) or 'no loops'}"
    for loop in loops:
        if not isinstance(loop, str):
            raise ScheduleError(f"{where}: loops must be given by name, got {loop!r}")
    if len(set(loops)) != len(loops) or not loops:
        raise ScheduleError(f"{where}: loops must be given once each, got {', '.join(loops) or 'none'}")
    all_paths = [loop_path(fn, loop, where) for loop in loops]
    deepest = max(all_paths, key=len)
    chain = loops_on(deepest)
    for loop in loops:
        if loop not in [step.var for step in chain]:
            raise ScheduleError(f"{where}: loops must lie inside each other, got {loop} beside {loop_at(deepest).var}")
    top = min(all_paths, key=len)
    between = deepest[len(top) - 1 :]
    _check_perfect(where, between)
    old = [loop_at(deepest[: len(top) + d]) for d in range(len(between))]
    nest = _permuted(old, loops)
    if not is_unchecked():
        _check_terms_once(where, nest, domains_of(fn))
        _check_scan_order(where, old, nest)
        _check_last_terms(where, fn, old, _chain_vars(nest, len(old)))
    return replace_at(fn, top, nest)


def _check_perfect(where: str, between: tuple[ir.Stmt, ...]) -> None:
    """Refuse a nest that is not perfect."""
    for above, stmt in pairwise(between):
        if not isinstance(stmt, ir.For):
            loop = above.var if isinstance(above, ir.For) else ""
            content = content_text(above) if isinstance(above, ir.For) else "a block"
            raise ScheduleError(f"{where}: only one loop must lie directly inside {loop}, got {content}")


def _permuted(chain: list[ir.For], loops: tuple[str, ...]) -> ir.Stmt:
    """The chain rebuilt with `loops` in the given order."""
    by_name = {loop.var: loop for loop in chain}
    order = iter(loops)
    nest: ir.Stmt = chain[-1].body
    places = [by_name[next(order)] if loop.var in loops else loop for loop in chain]
    for loop in reversed(places):
        nest = ir.For(loop.var, loop.extent, nest, loop.kind, loop.annotations)
    return nest


def _check_terms_once(where: str, nest: ir.Stmt, known: Domains) -> None:
    """Refuse an unrelated loop inside a reduce loop: it would repeat each term."""
    for block in outermost_blocks(nest):
        if not any(axis.kind is ir.AxisKind.REDUCE for axis in block.axes):
            continue
        summed = ""
        around = _loops_above(nest, block)
        ranges = {loop.var: known[loop.var] for loop in around}
        spatial = [v for a, v in block.bindings if a.kind is ir.AxisKind.SPATIAL]
        again = {name for value in spatial for name in ambiguous_vars(_terms_over(value, ranges), ranges)}
        for loop in around:
            kind = "unused" if loop.var in again else role(block, loop.var)
            if kind == "reduce" and loop.extent != 1:
                summed = loop.var
            if kind == "unused" and summed and loop.extent != 1:
                rule = f"{loop.var} must stay outside of {summed}, over which block {block.name} reduces"
                raise ScheduleError(
                    f"{where}: {rule}, got it inside, where each term would count {extent_text(loop.extent)} times"
                )


def _check_scan_order(where: str, old: list[ir.For], nest: ir.Stmt) -> None:
    """Refuse to move a loop across the steps of a scan."""
    before, after = [loop.var for loop in old], _chain_vars(nest, len(old))
    for block in outermost_blocks(nest):
        for step in (var for var in before if role(block, var) == "scan"):
            moved = set(before[: before.index(step)]) ^ set(after[: after.index(step)])
            if moved:
                rule = f"{min(moved)} must stay on its side of {step}, over which block {block.name} scans"
                side = "outside" if min(moved) in after[: after.index(step)] else "inside"
                raise ScheduleError(f"{where}: {rule}, got it {side}")


def _check_last_terms(where: str, fn: ir.Function, old: list[ir.For], after: list[str]) -> None:
    """Refuse to reorder reduce loops around a block that reads the result too early."""
    inside = [leaf for leaf in leaves(fn) if any(loop is old[-1] for loop in leaf.loops)]
    for writer in inside:
        summed = reduction_loops(writer, old)
        order = [var for var in after if var in [loop.var for loop in summed]]
        if order == [loop.var for loop in summed]:
            continue
        for reader in readers_of_any(inside, written_buffers(writer.block)):
            if not all(last_iteration(loop) in reader.conditions for loop in summed):
                rule = f"the loops over which {writer.name} reduces must keep their order"
                raise ScheduleError(
                    f"{where}: {rule}, as {reader.name} inside reads it after its last term, got {', '.join(order)}"
                )


def _chain_vars(nest: ir.Stmt, depth: int) -> list[str]:
    """The variables of the `depth` outermost loops of a nest."""
    names: list[str] = []
    while len(names) < depth and isinstance(nest, ir.For):
        names.append(nest.var)
        nest = nest.body
    return names


def _terms_over(value: ir.Expr, ranges: Ranges) -> Linear:
    """The terms of a binding that depend on the given loops."""
    return linear(value).only(lambda term: bool(var_names(term) & ranges.keys()))


def _loops_above(stmt: ir.Stmt, block: ir.Block) -> list[ir.For]:
    """The loops inside `stmt` around `block`."""
    if stmt is block:
        return []
    for child in ir.children(stmt):
        if child is block or any(inner is block for inner in ir.walk(child)):
            return ([stmt] if isinstance(stmt, ir.For) else []) + _loops_above(child, block)
    return []


# --- tile -----------------------------------------------------------------------------------------

TileNames = tuple[str, str, str, str]


def tile(
    fn: ir.Function, y: str, x: str, y_factor: int, x_factor: int, names: TileNames | None = None
) -> tuple[ir.Function, TileNames]:
    """Tile two nested loops by `y_factor` x `x_factor` iterations.

    for i in range(6):                  for i_o in range(3):
        for j in range(8):                  for j_o in range(2):
            block c(vi=i, vj=j): ... ->         for i_i in range(2):
                                                    for j_i in range(4):
                                                        block c(vi=i_o * 2 + i_i, vj=j_o * 4 + j_i)

    The four loop names, in this order, are as given, else those of the splits.
    """
    where = f"tile of {y} and {x}"
    if names is not None and (not isinstance(names, tuple | list) or len(names) != 4):
        raise ScheduleError(f"{where}: names must be four different names, got {names}")
    y_names, x_names = (None, None) if names is None else ((names[0], names[2]), (names[1], names[3]))
    try:
        fn, (y_outer, y_inner) = split(fn, y, y_factor, names=y_names)
        fn, (x_outer, x_inner) = split(fn, x, x_factor, names=x_names)
        return reorder(fn, y_outer, x_outer, y_inner, x_inner), (y_outer, x_outer, y_inner, x_inner)
    except ScheduleError as error:
        raise ScheduleError(f"{where}: {error}") from error
