"""Counted loops in LLVM's preferred form: a test in front where nothing may run, the other one at the end.

Loops that the schedule has already made of vectors or unrolled are marked, so that LLVM neither widens nor unrolls them
again: that would take most of the time of compilation and undo the schedule's choice of registers. A loop annotated
ROLLED is left for LLVM to widen: short ones it would write out first, and then find no loop. One that divides by what
may be 0 is not widened either: LLVM 22 can divide for the first lane only, where that one needs it, and give what comes
of it to all lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from llvmlite import ir as llvm

from vdla.compiler import ir
from vdla.compiler.codegen.llvm.function_builder import Frame
from vdla.compiler.codegen.llvm.types import Value

ROLLED = "rolled"  # the annotation of a loop whose stores LLVM's loop vectorizer joins
DIVISIONS = ("sdiv", "udiv", "srem", "urem")
KEPT = ("llvm.loop.unroll.disable",)
NARROW = ("llvm.loop.vectorize.enable", llvm.IntType(1)(0))


def count_up(frame: Frame, loop: ir.For, begin: Value, end: Value, largest: int, body: Callable[[], None]) -> None:
    """`for begin <= loop.var < end`, in which the variable is at most `largest`; `body` writes what is inside."""
    if isinstance(begin, llvm.Constant) and isinstance(end, llvm.Constant):
        return _at_least_once(frame, loop, begin, end, largest, body)
    some = frame.builder.icmp_signed("<", begin, end)
    with frame.branch(some, "any"):
        _at_least_once(frame, loop, begin, end, largest, body)


def _at_least_once(
    frame: Frame, loop: ir.For, begin: Value, end: Value, largest: int, body: Callable[[], None]
) -> None:
    builder, before = frame.builder, frame.builder.block
    blocks = builder.function.blocks
    first = len(blocks)
    inside, after = frame.block(f"loop.{loop.var}"), frame.block(f"end.{loop.var}")
    builder.branch(inside)
    builder.position_at_end(inside)
    counter = builder.phi(frame.kernel.index, loop.var)
    counter.add_incoming(begin, before)
    with frame.bound(loop.var, counter, largest):
        body()
    following = builder.add(counter, frame.index(1), flags=("nuw", "nsw"))
    counter.add_incoming(following, builder.block)
    again = builder.cbranch(builder.icmp_signed("<", following, end), inside, after)
    marks: list[Sequence[object]] = []
    if is_final(loop) or ROLLED in loop.annotations:
        marks.append(KEPT)
    if is_final(loop) or divides(blocks[first:]):
        marks.append(NARROW)
    if marks:
        again.set_metadata("llvm.loop", _marked(frame.kernel.module, marks))
    builder.position_at_end(after)


def is_final(loop: ir.For) -> bool:
    """Whether the schedule has made vectors inside of the loop."""
    inner = (stmt for stmt in ir.walk(loop.body) if isinstance(stmt, ir.For | ir.IntrinsicCall))
    return any(isinstance(stmt, ir.IntrinsicCall) or stmt.kind is ir.LoopKind.VECTORIZE for stmt in inner)


def divides(blocks: Iterable[llvm.Block]) -> bool:
    """Whether code divides by what is no number."""
    code = (instruction for block in blocks for instruction in block.instructions)
    return any(i.opname in DIVISIONS and not isinstance(i.operands[1], llvm.Constant) for i in code)


def _marked(module: Value, marks: Iterable[Sequence[object]]) -> Value:
    """The metadata of a loop: its first operand is itself, which makes it this loop's own."""
    properties = [module.add_metadata(mark) for mark in marks]
    node = module.add_metadata([f"loop {len(module.metadata)}", *properties])
    node.operands = (node, *properties)
    return node
