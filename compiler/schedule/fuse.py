"""The primitive that fuses nested loops into one."""

from __future__ import annotations

from vdla.compiler import ir
from vdla.compiler.analysis.errors import ScheduleError
from vdla.compiler.analysis.symbols import domains_of, extent_form, extent_of
from vdla.compiler.analysis.tree import loop_at, loop_path, replace_at, substitute_loops, used_names
from vdla.compiler.ir import extent_text
from vdla.compiler.schedule.loop_roles import MAX_ITERATIONS, check_new_name, content_text, outermost_blocks, role


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
    taken = used_names(fn)
    if name is not None:
        check_new_name(where, name, taken, (outer, inner))
    fresh = taken.fresh(f"{outer}_{inner}", outer) if name is None else name
    if not isinstance(two.extent, int):
        raise ScheduleError(f"{where}: the extent of {inner} must be a number, got {extent_text(two.extent)}")
    if isinstance(one.extent, int) and one.extent * two.extent > MAX_ITERATIONS:
        found = one.extent * two.extent
        raise ScheduleError(f"{where}: both loops must have at most {MAX_ITERATIONS} iterations together, got {found}")
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
            found = f"{roles[0]} {one.var} and {roles[1]} {two.var}"
            kinds = "both scan" if "scan" in roles else "both reduce"
            rule = f"both loops must be spatial or {kinds} in block {block.name}"
            raise ScheduleError(f"{where}: {rule}, got {found}")
