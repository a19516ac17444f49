# SPDX-License-Identifier: Apache-2.0
"""The primitive that splits a loop in two."""

from __future__ import annotations

from vdla.compiler import ir
from vdla.compiler.analysis.symbols import at_least, ceil_div, domains_of, extent_form, extent_of
from vdla.compiler.analysis.tree import (
    ScheduleError,
    loop_at,
    loop_path,
    replace_at,
    substitute_loops,
    used_names,
    with_condition,
)
from vdla.compiler.arith import Ranges
from vdla.compiler.ir import extent_text
from vdla.compiler.schedule.loop_kinds import MAX_ITERATIONS, check_new_name, content_text, outermost_blocks, role
from vdla.support.integers import is_int, to_python


def split(
    fn: ir.Function,
    loop: str,
    factor: int | None = None,
    nparts: int | None = None,
    names: tuple[str, str] | None = None,
) -> tuple[ir.Function, tuple[str, str]]:
    """Split a loop in two: `factor` is the extent of the inner loop, or `nparts` that of the outer
    one.

    for i in range(10):              for i_o in range(3):
        block c(vi=i): ...    ->         for i_i in range(4):
                                             block c(vi=i_o * 4 + i_i) where i_o * 4 + i_i < 10: ...

    The condition is added unless the factor divides the extent.
    """
    where = f"split of {loop}"
    path = loop_path(fn, loop, where)
    old = loop_at(path)
    ranges = domains_of(fn)
    inner_extent, outer_extent = _split_extents(where, old.extent, factor, nparts, ranges)
    outer, inner = _split_names(fn, where, loop, names)
    ranges = ranges.with_extents({outer: outer_extent, inner: inner_extent})
    index = ir.binary("add", ir.binary("mul", outer, inner_extent), inner)
    body = substitute_loops(old.body, {loop: index}, ranges)
    if not at_least(extent_form(old.extent), extent_form(outer_extent).scaled(inner_extent), ranges):
        body = with_condition(body, ir.Binary("lt", index, extent_form(old.extent).expr()))
    nest = ir.For(outer, outer_extent, ir.For(inner, inner_extent, body, old.kind, old.annotations))
    return replace_at(fn, path, nest), (outer, inner)


def _split_extents(
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
        inner, outer = value, ceil_div(extent, value, ranges)
    elif isinstance(extent, int):
        inner, outer = -(-extent // value), value
    else:
        raise ScheduleError(f"{where}: nparts must be of an extent that is a number, got {extent_text(extent)}; give "
                            "the factor")  # fmt: skip
    count = inner * outer if isinstance(outer, int) else inner
    if count > MAX_ITERATIONS:
        raise ScheduleError(f"{where}: both loops must have at most {MAX_ITERATIONS} iterations together, got {count}")
    return inner, outer


def _split_names(fn: ir.Function, where: str, loop: str, names: tuple[str, str] | None) -> tuple[str, str]:
    """The names of the two loops: as given, else `<loop>_o` and `<loop>_i`."""
    names_in_use = used_names(fn)
    if names is None:
        return names_in_use.fresh(f"{loop}_o", loop), names_in_use.fresh(f"{loop}_i", loop)
    if not isinstance(names, tuple | list) or len(names) != 2 or names[0] == names[1]:
        raise ScheduleError(f"{where}: names must be two different names, got {names}")
    for name in names:
        check_new_name(where, name, names_in_use, (loop,))
    return names[0], names[1]


# --- fuse -----------------------------------------------------------------------------------------


def fuse(fn: ir.Function, *loops: str, name: str | None = None) -> tuple[ir.Function, str]:
    """Fuse perfectly nested loops into one; its name.

    for i in range(3):
        for j in range(4):         ->  for i_j in range(12):
            block c(vi=i, vj=j): ...       block c(vi=i_j // 4, vj=i_j % 4): ...
    """
    if len(loops) < 2:
        raise ScheduleError(f"fuse: at least two loops must be given, got {len(loops)}")
    fused = loops[0]
    for position, inner in enumerate(loops[1:], 2):
        fn, fused = _fuse_two(fn, fused, inner, name if position == len(loops) else None)
    return fn, fused


def _fuse_two(fn: ir.Function, outer: str, inner: str, name: str | None) -> tuple[ir.Function, str]:
    """Fuse two loops; the name is as given, else `<outer>_<inner>`."""
    where = f"fuse of {outer} and {inner}"
    path = loop_path(fn, outer, where)
    one, two = loop_at(path), loop_at(loop_path(fn, inner, where))
    if one.body is not two:
        raise ScheduleError(f"{where}: {inner} must be the only statement inside {outer}, got {content_text(one)}")
    _check_fusable(where, one, two)
    names_in_use = used_names(fn)
    if name is not None:
        check_new_name(where, name, names_in_use, (outer, inner))
    fresh = names_in_use.fresh(f"{outer}_{inner}", outer) if name is None else name
    if not isinstance(two.extent, int):
        raise ScheduleError(f"{where}: the extent of {inner} must be a number, got {extent_text(two.extent)}")
    if isinstance(one.extent, int) and one.extent * two.extent > MAX_ITERATIONS:
        product = one.extent * two.extent
        raise ScheduleError(
            f"{where}: both loops must have at most {MAX_ITERATIONS} iterations together, got {product}"
        )
    var, width = ir.Var(fresh), ir.Const(two.extent)
    values: dict[str, ir.Expr] = {outer: ir.Binary("floordiv", var, width), inner: ir.Binary("mod", var, width)}
    extent = extent_of(extent_form(one.extent).scaled(two.extent))
    body = substitute_loops(two.body, values, domains_of(fn).with_extents({fresh: extent}))
    return replace_at(fn, path, ir.For(fresh, extent, body, one.kind, {**two.annotations, **one.annotations})), fresh


def _check_fusable(where: str, one: ir.For, two: ir.For) -> None:
    """Refuse loops of different kinds, and a reduce or scan loop with one of another role."""
    if one.kind is not two.kind:
        raise ScheduleError(f"{where}: both loops must be of one kind, got {one.kind.value} and {two.kind.value}")
    if 1 in (one.extent, two.extent):
        return
    for block in outermost_blocks(two.body):
        roles = role(block, one.var), role(block, two.var)
        if roles[0] != roles[1] and ("reduce" in roles or "scan" in roles):
            loop_roles = f"{roles[0]} {one.var} and {roles[1]} {two.var}"
            kinds = "both scan" if "scan" in roles else "both reduce"
            rule = f"both loops must be spatial or {kinds} in block {block.name}"
            raise ScheduleError(f"{where}: {rule}, got {loop_roles}")
