"""The primitive that splits a loop in two."""

from __future__ import annotations

from vdla.compiler import ir
from vdla.compiler.analysis.errors import ScheduleError
from vdla.compiler.analysis.symbols import at_least, ceil_div, domains_of, extent_form
from vdla.compiler.analysis.tree import loop_at, loop_path, replace_at, substitute_loops, used_names, with_condition
from vdla.compiler.arith import Ranges
from vdla.compiler.ir import extent_text
from vdla.compiler.schedule.loop_roles import MAX_ITERATIONS, check_new_name
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
    index = ir.Binary("add", ir.Binary("mul", ir.Var(outer), ir.Const(inner_extent)), ir.Var(inner))
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
    taken = used_names(fn)
    if names is None:
        return taken.fresh(f"{loop}_o", loop), taken.fresh(f"{loop}_i", loop)
    if not isinstance(names, tuple | list) or len(names) != 2 or names[0] == names[1]:
        raise ScheduleError(f"{where}: names must be two different names, got {names}")
    for name in names:
        check_new_name(where, name, taken, (loop,))
    return names[0], names[1]
