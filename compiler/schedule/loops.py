"""Primitives on loops: split, fuse, reorder. None of them moves a block out of its loops."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from vdla.compiler import ir
from vdla.compiler.analysis.access import leaves, readers_of_any, written
from vdla.compiler.analysis.flow import is_last, summed_loops
from vdla.compiler.analysis.symbols import Domains, at_least, ceil_divided, domains_of, extent_form, extent_of
from vdla.compiler.analysis.tree import (
    ScheduleError,
    guarded,
    loop_at,
    loop_path,
    loops_on,
    names_of,
    replaced,
    substitute_loops,
)
from vdla.compiler.arith.affine import ANY, Linear, Ranges, linear, overlapping, var_names
from vdla.compiler.ir.names import Names
from vdla.compiler.ir.printer import extent_text
from vdla.support.integers import is_int, to_python

MOST = ANY[1] + 1  # iterations that an int32 counts


def split(
    fn: ir.Function,
    loop: str,
    factor: int | None = None,
    nparts: int | None = None,
    names: tuple[str, str] | None = None,
) -> tuple[ir.Function, tuple[str, str]]:
    """Cut a loop into two: `factor` is the extent of the inner one, or `nparts` that of the outer one.

        for i in range(10):              for i_o in range(3):
            block c(vi=i): ...    ->         for i_i in range(4):
                                                 block c(vi=i_o * 4 + i_i) where i_o * 4 + i_i < 10: ...

    The condition appears where the extent is not a multiple of the factor.
    """
    where = f"split of {loop}"
    path = loop_path(fn, loop, where)
    old = loop_at(path)
    ranges = domains_of(fn)
    inner_extent, outer_extent = split_extents(where, old.extent, factor, nparts, ranges)
    outer, inner = split_names(fn, where, loop, names)
    ranges = ranges.with_extents({outer: outer_extent, inner: inner_extent})
    index = ir.Binary("add", ir.Binary("mul", ir.Var(outer), ir.Const(inner_extent)), ir.Var(inner))
    body = substitute_loops(old.body, {loop: index}, ranges)
    if not at_least(extent_form(old.extent), extent_form(outer_extent).scaled(inner_extent), ranges):
        body = guarded(body, ir.Binary("lt", index, extent_form(old.extent).expr()))
    nest = ir.For(outer, outer_extent, ir.For(inner, inner_extent, body, old.kind, old.annotations))
    return replaced(fn, path, nest), (outer, inner)


def split_extents(
    where: str, extent: ir.Extent, factor: int | None, nparts: int | None, ranges: Ranges
) -> tuple[int, ir.Extent]:
    """The inner and outer extents."""
    if (factor is None) == (nparts is None):
        raise ScheduleError(f"{where}: exactly one of factor and nparts must be given, got {factor} and {nparts}")
    name, value = ("factor", to_python(factor)) if nparts is None else ("nparts", to_python(nparts))
    if not is_int(value) or value < 1:
        raise ScheduleError(f"{where}: {name} must be a positive integer, got {value!r}")
    inner: int
    outer: ir.Extent
    if nparts is None:
        inner, outer = value, ceil_divided(extent, value, ranges)
    elif isinstance(extent, int):
        inner, outer = -(-extent // value), value
    else:
        raise ScheduleError(f"{where}: nparts must be of an extent that is a number, got {extent_text(extent)}; give "
                            "the factor")  # fmt: skip
    count = inner * outer if isinstance(outer, int) else inner
    if count > MOST:
        raise ScheduleError(f"{where}: both loops must have at most {MOST} iterations together, got {count}")
    return inner, outer


def split_names(fn: ir.Function, where: str, loop: str, names: tuple[str, str] | None) -> tuple[str, str]:
    """The names of the two loops: as given, else `<loop>_o` and `<loop>_i`. The loop's own name is free again."""
    taken = names_of(fn)
    if names is None:
        return taken.fresh(f"{loop}_o", loop), taken.fresh(f"{loop}_i", loop)
    if not isinstance(names, tuple | list) or len(names) != 2 or names[0] == names[1]:
        raise ScheduleError(f"{where}: names must be two different names, got {names}")
    for name in names:
        check_new_name(where, name, taken, (loop,))
    return names[0], names[1]


def check_new_name(where: str, name: str, taken: Names, freed: tuple[str, ...]) -> None:
    """Refuse a name that is no identifier or in use; `freed` are the names of the loops that go."""
    if not isinstance(name, str) or not name.isidentifier():
        raise ScheduleError(f"{where}: a loop name must be an identifier, got {name!r}")
    if name in taken and name not in freed:
        raise ScheduleError(f"{where}: a loop name must be new in the function, got {name}")


def fuse(fn: ir.Function, *loops: str, name: str | None = None) -> tuple[ir.Function, str]:
    """Join loops, each directly inside the one before, into one.

    for i in range(3):
        for j in range(4):         ->  for i_j in range(12):
            block c(vi=i, vj=j): ...       block c(vi=i_j // 4, vj=i_j % 4): ...
    """
    if len(loops) < 2:
        raise ScheduleError(f"fuse: at least two loops must be given, got {len(loops)}")
    fused = loops[0]
    for position, inner in enumerate(loops[1:], 2):
        fn, fused = fuse_two(fn, fused, inner, name if position == len(loops) else None)
    return fn, fused


def fuse_two(fn: ir.Function, outer: str, inner: str, name: str | None) -> tuple[ir.Function, str]:
    """Join two loops; the name of the one is as given, else `<outer>_<inner>`."""
    where = f"fuse of {outer} and {inner}"
    path = loop_path(fn, outer, where)
    one, two = loop_at(path), loop_at(loop_path(fn, inner, where))
    if one.body is not two:
        raise ScheduleError(f"{where}: {inner} must be the only statement inside {outer}, got {content_text(one)}")
    check_fusable(where, one, two)
    taken = names_of(fn)
    if name is not None:
        check_new_name(where, name, taken, (outer, inner))
    fresh = taken.fresh(f"{outer}_{inner}", outer) if name is None else name
    if not isinstance(two.extent, int):
        raise ScheduleError(f"{where}: the extent of {inner} must be a number, got {extent_text(two.extent)}")
    if isinstance(one.extent, int) and one.extent * two.extent > MOST:
        found = one.extent * two.extent
        raise ScheduleError(f"{where}: both loops must have at most {MOST} iterations together, got {found}")
    var, width = ir.Var(fresh), ir.Const(two.extent)
    values: dict[str, ir.Expr] = {outer: ir.Binary("floordiv", var, width), inner: ir.Binary("mod", var, width)}
    extent = extent_of(extent_form(one.extent).scaled(two.extent))
    body = substitute_loops(two.body, values, domains_of(fn).with_extents({fresh: extent}))
    return replaced(fn, path, ir.For(fresh, extent, body, one.kind, {**two.annotations, **one.annotations})), fresh


def check_fusable(where: str, one: ir.For, two: ir.For) -> None:
    """Refuse loops of different kinds, and one that sums or goes on along steps with one that does not."""
    if one.kind is not two.kind:
        raise ScheduleError(f"{where}: both loops must be of one kind, got {one.kind.value} and {two.kind.value}")
    if 1 in (one.extent, two.extent):
        return
    for block in outermost_blocks(two.body):
        roles = role(block, one.var), role(block, two.var)
        if roles[0] != roles[1] and ("reduce" in roles or "scan" in roles):
            found = f"{roles[0]} {one.var} and {roles[1]} {two.var}"
            kinds = "both scan" if "scan" in roles else "both reduce"
            rule = f"both loops must be spatial or {kinds} in block {block.name}"
            raise ScheduleError(f"{where}: {rule}, got {found}")


def outermost_blocks(stmt: ir.Stmt) -> list[ir.Block]:
    """The blocks inside `stmt` that lie in no other block inside it."""
    if isinstance(stmt, ir.Block):
        return [stmt]
    return [block for child in ir.children(stmt) for block in outermost_blocks(child)]


def role(block: ir.Block, var: str) -> str:
    """What a loop does for a block: "spatial", "reduce", "mixed", or "unused"."""
    kinds = {axis.kind for axis, value in zip(block.axes, block.values, strict=True) if var in var_names(value)}
    if len(kinds) > 1:
        return "mixed"
    return kinds.pop().value if kinds else "unused"


def content_text(loop: ir.For) -> str:
    """What is directly inside a loop, for messages."""
    inside = loop.body.stmts if isinstance(loop.body, ir.Seq) else (loop.body,)
    return ", ".join(label(stmt) for stmt in inside)


def label(stmt: ir.Stmt) -> str:
    """A statement in two words."""
    match stmt:
        case ir.For(var=var):
            return f"loop {var}"
        case ir.Block(name=name):
            return f"block {name}"
    return "a store"


def reorder(fn: ir.Function, *loops: str) -> ir.Function:
    """Put loops of one nest in the given order; they take the places that they have between them.

        for i in range(3):             for k in range(4):
            for k in range(4):   ->        for i in range(3):
                block c(...): ...              block c(...): ...

    Between the outermost and the innermost of them nothing but loops may lie.
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
    check_perfect(where, between)
    old = [loop_at(deepest[: len(top) + d]) for d in range(len(between))]
    nest = permuted(old, loops)
    check_order(where, nest, domains_of(fn))
    check_steps(where, old, nest)
    check_ends(where, fn, old, chain_vars(nest, len(old)))
    return replaced(fn, top, nest)


def check_perfect(where: str, between: tuple[ir.Stmt, ...]) -> None:
    """Refuse anything but loops on the way down."""
    for above, stmt in pairwise(between):
        if not isinstance(stmt, ir.For):
            loop = above.var if isinstance(above, ir.For) else ""
            found = content_text(above) if isinstance(above, ir.For) else "a block"
            raise ScheduleError(f"{where}: only one loop must lie directly inside {loop}, got {found}")


def permuted(chain: list[ir.For], loops: tuple[str, ...]) -> ir.Stmt:
    """The chain rebuilt, the places of `loops` filled in their order."""
    by_name = {loop.var: loop for loop in chain}
    order = iter(loops)
    nest: ir.Stmt = chain[-1].body
    places = [by_name[next(order)] if loop.var in loops else loop for loop in chain]
    for loop in reversed(places):
        nest = replace(loop, body=nest)
    return nest


def check_order(where: str, nest: ir.Stmt, known: Domains) -> None:
    """Refuse a loop that repeats a reduction inside of the loops that it sums over: each term would count twice."""
    for block in outermost_blocks(nest):
        if not any(axis.kind is ir.AxisKind.REDUCE for axis in block.axes):
            continue
        summed = ""
        around = loops_above(nest, block)
        ranges = {loop.var: known[loop.var] for loop in around}
        spatial = [v for a, v in zip(block.axes, block.values, strict=True) if a.kind is ir.AxisKind.SPATIAL]
        again = {name for value in spatial for name in overlapping(within(value, ranges), ranges)}
        for loop in around:
            kind = "unused" if loop.var in again else role(block, loop.var)
            if kind == "reduce" and loop.extent != 1:
                summed = loop.var
            if kind == "unused" and summed and loop.extent != 1:
                rule = f"{loop.var} must stay outside of {summed}, over which block {block.name} sums"
                raise ScheduleError(
                    f"{where}: {rule}, got it inside, where each term would count {extent_text(loop.extent)} times"
                )


def check_steps(where: str, old: list[ir.For], nest: ir.Stmt) -> None:
    """Refuse a loop that changes sides with one over the steps of a scan."""
    before, after = [loop.var for loop in old], chain_vars(nest, len(old))
    for block in outermost_blocks(nest):
        for step in (var for var in before if role(block, var) == "scan"):
            moved = set(before[: before.index(step)]) ^ set(after[: after.index(step)])
            if moved:
                rule = f"{min(moved)} must stay on its side of {step}, along which block {block.name} goes on"
                side = "outside" if min(moved) in after[: after.index(step)] else "inside"
                raise ScheduleError(f"{where}: {rule}, got it {side}")


def check_ends(where: str, fn: ir.Function, old: list[ir.For], after: list[str]) -> None:
    """Refuse another order of the loops of a sum where a block inside reads it after its last term, if that need not be
    the last iteration of each."""
    inside = [leaf for leaf in leaves(fn) if any(loop is old[-1] for loop in leaf.loops)]
    for writer in inside:
        summed = summed_loops(writer, old)
        order = [var for var in after if var in [loop.var for loop in summed]]
        if order == [loop.var for loop in summed]:
            continue
        for reader in readers_of_any(inside, written(writer.block)):
            if not all(is_last(loop) in reader.conditions for loop in summed):
                rule = f"the loops over which {writer.name} sums must keep their order"
                raise ScheduleError(
                    f"{where}: {rule}, as {reader.name} inside reads it after its last term, got {', '.join(order)}"
                )


def chain_vars(nest: ir.Stmt, depth: int) -> list[str]:
    """The variables of the outermost loops of a nest."""
    names: list[str] = []
    while len(names) < depth and isinstance(nest, ir.For):
        names.append(nest.var)
        nest = nest.body
    return names


def within(value: ir.Expr, ranges: Ranges) -> Linear:
    """The terms of a binding over the given loops."""
    return linear(value).only(lambda term: bool(var_names(term) & ranges.keys()))


def loops_above(stmt: ir.Stmt, block: ir.Block) -> list[ir.For]:
    """The loops inside `stmt` around `block`."""
    if stmt is block:
        return []
    for child in ir.children(stmt):
        if child is block or any(inner is block for inner in ir.walk(child)):
            return ([stmt] if isinstance(stmt, ir.For) else []) + loops_above(child, block)
    return []
