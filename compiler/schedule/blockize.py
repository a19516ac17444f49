# SPDX-License-Identifier: Apache-2.0
"""The primitive that turns a tile of iterations into a block."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from vdla.compiler import ir
from vdla.compiler.analysis.symbols import domains_of
from vdla.compiler.analysis.tree import ScheduleError, loop_at, loop_path, replace_at, tree_of, used_names
from vdla.compiler.arith import Linear, Ranges, conjuncts, linear, linear_bounds, predicate_of, var_names
from vdla.compiler.ir import Match, Names, expr_text, extent_text
from vdla.compiler.schedule.loop_kinds import content_text
from vdla.compiler.tensorize import TensorizeError, match_block, perfect_nest


def blockize(fn: ir.Function, loop: str) -> tuple[ir.Function, str]:
    """Wrap `loop` and the loops inside it in one block around the inner block; the new block's
    name.

    for i in range(4):                         for i in range(4):
        for j in range(16):              ->        block c_o(vi_o=i, vj_o=j_o):
            block c(vi=i, vj=j_o * 16 + j): ...        for j in range(16):
                                                           block c(vi=vi_o, vj=vj_o * 16 + j): ...

    An axis of the new block counts tiles where the outer part of its binding is a multiple of the
    tile.
    """
    where = f"blockize of {loop}"
    path = loop_path(fn, loop, where)
    inner_loops, block = _chain(loop_at(path), where)
    inner = {step.var for step in inner_loops}
    for extent in (*(step.extent for step in inner_loops), *(axis.extent for axis in block.axes)):
        if not isinstance(extent, int):
            raise ScheduleError(f"{where}: every extent of {block.name} must be a number, got {extent_text(extent)}")
    ranges = domains_of(fn)
    name = used_names(fn).fresh(f"{block.name}_o", block.name)
    names = Names([*inner, *fn.scalars])
    parts = [
        _tile_axis(axis, value, inner, ranges, names.fresh(f"{axis.var}_o", block.name), where)
        for axis, value in block.bindings
    ]
    outer = [(axis, value) for axis, value, _ in parts if axis is not None]
    conditions = conjuncts(block.predicate)
    fixed = [c for c in conditions if not var_names(c) & inner]
    moving = [c for c in conditions if var_names(c) & inner]
    body: ir.Stmt = replace(block, values=tuple(value for *_, value in parts), predicate=predicate_of(moving))
    for step in reversed(inner_loops):
        body = replace(step, body=body)
    axes, values = tuple(axis for axis, _ in outer), tuple(value for _, value in outer)
    return replace_at(
        fn, path, ir.Block(name=name, axes=axes, values=values, body=body, init=None, predicate=predicate_of(fixed))
    ), name


def _chain(loop: ir.For, where: str) -> tuple[list[ir.For], ir.Block]:
    """The loops from `loop` inwards and the single block inside."""
    loops, stmt = [loop], loop.body
    while isinstance(stmt, ir.For):
        loops.append(stmt)
        stmt = stmt.body
    if not isinstance(stmt, ir.Block):
        content = f"{content_text(loops[-1])} inside {loops[-1].var}"
        raise ScheduleError(f"{where}: the loop must hold one block, got {content}")
    return loops, stmt


def _tile_axis(
    axis: ir.Axis, value: ir.Expr, inner: set[str], ranges: Ranges, name: str, where: str
) -> tuple[ir.Axis | None, ir.Expr, ir.Expr]:
    """The outer block's axis, or None, its binding, and the inner block's binding."""
    form = linear(value)
    moving = form.only(lambda term: bool(var_names(term) & inner))
    for term in moving.terms:
        if not var_names(term) <= inner:
            rule = f"the binding of {axis.var} must be a sum of outer and inner loops"
            raise ScheduleError(f"{where}: {rule}, got {expr_text(value)}")
    fixed = form - moving
    if not fixed.terms and not fixed.const:
        return None, value, value
    tile = linear_bounds(moving, ranges)[1] + 1
    aligned = fixed.const % tile == 0 and all(factor % tile == 0 for factor in fixed.terms.values())
    unit = tile if aligned else 1
    start = Linear({term: factor // unit for term, factor in fixed.terms.items()}, fixed.const // unit)
    if linear_bounds(start, ranges)[0] < 0:
        rule = f"the binding of {axis.var} must not begin before 0"
        raise ScheduleError(f"{where}: {rule}, got {expr_text(start.expr())}, cut by a condition inside")
    extent = max(-(-axis.size // unit), linear_bounds(start, ranges)[1] + 1)  # the last tile may exceed the axis
    outer = ir.Axis(name, extent, axis.kind)
    return outer, start.expr(), (Linear({ir.Var(outer.var): unit}) + moving).expr()


# --- checks of tensorized blocks ------------------------------------------------------------------

# The check that a nest tensorized for the accelerator stays a step of its intrinsic under later
# primitives.
#
# A nest tensorized for a CPU may change: lowering matches it anew, and runs it as plain loops if it
# is no longer a step.

Step = tuple[ir.For | None, tuple[ir.Buffer | None, ...]]
"""The nest of a tensorized block (None: no loop is marked) and the buffers of its match."""
CheckedSteps = Mapping[str, Step]


def check_tensorized(fn: ir.Function, where: str, known: CheckedSteps) -> CheckedSteps:
    """Refuse `fn` if a nest tensorized for the accelerator is no longer what was matched.

    `known` has the nest and the buffers of each step checked so far; a step whose nest and buffers
    are the same objects is not checked again. The result is that of `fn`.
    """
    steps = steps_of(fn)
    for name, (match, step) in steps.items():
        if name in known and _same(known[name], step):
            continue
        if step[0] is None or not _still_matches(fn, step[0], match):
            rule = f"{name} must stay a step of {match.intrinsic.name}, as it was tensorized"
            raise ScheduleError(f"{where}: {rule}, got another nest; tensorize it last")
    return {name: step for name, (_, step) in steps.items()}


def steps_of(fn: ir.Function) -> dict[str, tuple[Match, Step]]:
    """The blocks tensorized for the accelerator, in program order."""
    tree, steps = tree_of(fn.body), dict[str, tuple[Match, Step]]()
    for name, block in tree.blocks.items():
        match: Match | None = block.annotations.get("intrinsic")
        if match is not None and match.intrinsic.target == "vdla":
            around = tree.path(tree.block_at[name])
            nest = next((stmt for stmt in around if isinstance(stmt, ir.For) and "tensorize" in stmt.annotations), None)
            steps[block.name] = match, (nest, tuple(fn.buffers.get(name) for name in match.buffers.values()))
    return steps


def _same(old: Step, new: Step) -> bool:
    """Whether the nests and the buffers are the same objects."""
    return old[0] is new[0] is not None and all(a is b for a, b in zip(old[1], new[1], strict=True))


def _still_matches(fn: ir.Function, nest: ir.For, match: Match) -> bool:
    """Whether a nest is what was matched."""
    try:
        block, loops = perfect_nest(nest, match.intrinsic)
        now = match_block(fn, block, loops, match.intrinsic)
    except TensorizeError:
        return False
    parts = [(m.buffers, m.entries, m.immediates, m.conditions, m.moving) for m in (now, match)]
    return parts[0] == parts[1]
