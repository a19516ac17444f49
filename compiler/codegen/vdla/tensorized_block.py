"""Tensorized blocks: every block of a function with its loops and the intrinsic that it matches."""

from __future__ import annotations

from dataclasses import dataclass

from vdla.compiler import ir
from vdla.compiler.arith import var_names
from vdla.compiler.codegen.vdla.errors import LoweringError
from vdla.compiler.ir import Match


@dataclass(frozen=True, slots=True)
class TensorizedBlock:
    """A block of the IR, the loops around it, outermost first, and its match with an intrinsic."""

    node: ir.Block
    path: tuple[ir.For, ...]
    match: Match

    @property
    def name(self) -> str:
        """The name of the block."""
        return self.node.name

    @property
    def output(self) -> str:
        """The buffer that the block writes."""
        return self.match.buffers[self.match.intrinsic.output.name]

    def over_loops(self, expr: ir.Expr) -> ir.Expr:
        """An expression over the block's axes as one over the loops."""
        return ir.substitute(expr, {a.var: v for a, v in zip(self.node.axes, self.node.values, strict=True)})

    def inside_entry(self, loop: ir.For) -> bool:
        """Whether the loop runs inside one entry: it is the tensorized loop or nested in it."""
        names = [other.var for other in self.path]
        start = next(i for i, other in enumerate(self.path) if "tensorize" in other.annotations)
        return loop.var in names and names.index(loop.var) >= start

    def reduce_loops(self) -> set[str]:
        """The loops on which a reduce axis depends."""
        return {
            e.name
            for axis, value in zip(self.node.axes, self.node.values, strict=True)
            if axis.kind is ir.AxisKind.REDUCE
            for e in ir.walk_expr(value)
            if isinstance(e, ir.Var)
        }

    def partial_loops(self) -> set[str]:
        """The loops on which the predicate depends, but no axis."""
        if self.node.predicate is None:
            return set()
        return var_names(self.node.predicate) - set().union(*(var_names(v) for v in self.node.values))


def tensorized_blocks(fn: ir.Function) -> list[TensorizedBlock]:
    """Every block in program order.

    Raises:
        LoweringError: a block is not tensorized, or a store lies outside of all blocks.
    """
    found: list[TensorizedBlock] = []

    def visit(stmt: ir.Stmt, path: tuple[ir.For, ...]) -> None:
        match stmt:
            case ir.For():
                visit(stmt.body, (*path, stmt))
            case ir.Block():
                found.append(TensorizedBlock(stmt, path, _match_of(stmt, fn)))
            case ir.Store(buffer=buffer):
                rule = "every store must lie in a tensorized block, as before the passes for CPUs"
                raise LoweringError(f"{fn.name}: {rule}, got one to {buffer} outside of all blocks")
            case _:
                for child in ir.children(stmt):
                    visit(child, path)

    visit(fn.body, ())
    return found


def _match_of(block: ir.Block, fn: ir.Function) -> Match:
    match = block.annotations.get("intrinsic")
    if not isinstance(match, Match):
        raise LoweringError(
            f"{fn.name}: block {block.name} must be tensorized, as the VDLA has no scalar unit, got a scalar "
            "computation; tensorize its innermost loops"
        )
    if match.intrinsic.target != "vdla":
        raise LoweringError(
            f"{fn.name}: the intrinsic of block {block.name} must be of target vdla, got {match.intrinsic} of "
            f"{match.intrinsic.target}"
        )
    return match
