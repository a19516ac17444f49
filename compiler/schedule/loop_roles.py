"""The roles of loops for the blocks inside them, and helpers of the loop primitives."""

from __future__ import annotations

from collections.abc import Mapping

from vdla.compiler import ir
from vdla.compiler.analysis.errors import ScheduleError
from vdla.compiler.arith import INT32, var_names
from vdla.compiler.ir import Names
from vdla.compiler.ir.by_identity import by_identity

MAX_ITERATIONS = INT32[1] + 1  # of an int32 loop variable


def outermost_blocks(stmt: ir.Stmt) -> list[ir.Block]:
    """The blocks inside `stmt`, without those nested in another block."""
    if isinstance(stmt, ir.Block):
        return [stmt]
    return [block for child in ir.children(stmt) for block in outermost_blocks(child)]


def role(block: ir.Block, var: str) -> str:
    """The role of a loop for a block: "spatial", "reduce", "scan", "mixed" or "unused"."""
    kinds = _kinds_of(block).get(var, frozenset())
    if len(kinds) > 1:
        return "mixed"
    return next(iter(kinds)).value if kinds else "unused"


@by_identity(most=64)
def _kinds_of(block: ir.Block) -> Mapping[str, frozenset[ir.AxisKind]]:
    """The kinds of the axes that each loop drives."""
    found: dict[str, frozenset[ir.AxisKind]] = {}
    for axis, value in zip(block.axes, block.values, strict=True):
        for var in var_names(value):
            found[var] = found.get(var, frozenset()) | {axis.kind}
    return found


def content_text(loop: ir.For) -> str:
    """The statements directly inside a loop, for messages."""
    inside = loop.body.stmts if isinstance(loop.body, ir.Seq) else (loop.body,)
    return ", ".join(_label(stmt) for stmt in inside)


def _label(stmt: ir.Stmt) -> str:
    """A statement, for messages."""
    match stmt:
        case ir.For(var=var):
            return f"loop {var}"
        case ir.Block(name=name):
            return f"block {name}"
    return "a store"


def check_new_name(where: str, name: str, taken: Names, freed: tuple[str, ...]) -> None:
    """Refuse a name that is no identifier or is in use; the loops `freed` are replaced."""
    if not isinstance(name, str) or not name.isidentifier():
        raise ScheduleError(f"{where}: a loop name must be an identifier, got {name!r}")
    if name in taken and name not in freed:
        raise ScheduleError(f"{where}: a loop name must be new in the function, got {name}")
