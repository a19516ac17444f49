# SPDX-License-Identifier: Apache-2.0
"""Counted loops in LLVM's canonical form: tested at the end, guarded in front if they may not run.

Loops in which the schedule has made vectors are marked, so that LLVM neither unrolls nor vectorizes
them again: that would take most of the compile time and undo the schedule's register tiles. A loop
annotated ROLLED is left to LLVM's loop vectorizer, but not unrolled first. Loops that divide by a
variable are not vectorized either: LLVM 22 may divide for the first lane only and broadcast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from llvmlite import ir as llvm

from vdla.compiler import ir
from vdla.compiler.codegen.llvm.function_builder import FunctionBuilder, Hint
from vdla.compiler.codegen.llvm.types import Value

ROLLED = "rolled"  # the annotation of a loop to be vectorized by LLVM
_DIVISIONS = ("sdiv", "udiv", "srem", "urem")
_NO_UNROLL = ("llvm.loop.unroll.disable",)
_NO_VECTORIZE = ("llvm.loop.vectorize.enable", llvm.IntType(1)(0))


def count_up(
    fb: FunctionBuilder, loop: ir.For, begin: Value, end: Value, largest: int, emit_body: Callable[[], None]
) -> None:
    """`for begin <= loop.var < end`, with the variable at most `largest`."""
    if isinstance(begin, llvm.Constant) and isinstance(end, llvm.Constant):
        return _at_least_once(fb, loop, begin, end, largest, emit_body)
    runs = fb.builder.icmp_signed("<", begin, end)
    with fb.branch(runs, "any"):
        _at_least_once(fb, loop, begin, end, largest, emit_body)


def _at_least_once(
    fb: FunctionBuilder, loop: ir.For, begin: Value, end: Value, largest: int, emit_body: Callable[[], None]
) -> None:
    builder, before = fb.builder, fb.builder.block
    blocks = builder.function.blocks
    first = len(blocks)
    inside, after = fb.block(f"loop.{loop.var}"), fb.block(f"end.{loop.var}")
    builder.branch(inside)
    builder.position_at_end(inside)
    counter = builder.phi(fb.index_type, loop.var)
    counter.add_incoming(begin, before)
    with fb.variable(loop.var, counter, largest):
        emit_body()
    following = builder.add(counter, fb.index(1), flags=("nuw", "nsw"))
    counter.add_incoming(following, builder.block)
    back_edge = builder.cbranch(builder.icmp_signed("<", following, end), inside, after)
    hints = fb.kernel.rules.loop_hints(fb, loop, blocks[first:])
    if hints:
        back_edge.set_metadata("llvm.loop", _loop_metadata(fb.kernel.module, hints))
    builder.position_at_end(after)


def cpu_loop_hints(loop: ir.For, blocks: Iterable[llvm.Block]) -> list[Hint]:
    """What LLVM must know of a loop whose code is in `blocks`, on a CPU."""
    hints: list[Hint] = []
    if _has_vectors(loop) or ROLLED in loop.annotations:
        hints.append(_NO_UNROLL)
    if _has_vectors(loop) or _divides_by_variable(blocks):
        hints.append(_NO_VECTORIZE)
    return hints


def _has_vectors(loop: ir.For) -> bool:
    """Whether the schedule has made vectors inside the loop."""
    inner = (stmt for stmt in ir.walk(loop.body) if isinstance(stmt, ir.For | ir.IntrinsicCall))
    return any(isinstance(stmt, ir.IntrinsicCall) or stmt.kind is ir.LoopKind.VECTORIZE for stmt in inner)


def _divides_by_variable(blocks: Iterable[llvm.Block]) -> bool:
    """Whether the code divides by anything but constants."""
    code = (instruction for block in blocks for instruction in block.instructions)
    return any(i.opname in _DIVISIONS and not isinstance(i.operands[1], llvm.Constant) for i in code)


def _loop_metadata(module: Value, hints: Iterable[Hint]) -> Value:
    """The metadata node of a loop; it is distinct because its first operand is itself."""
    properties = [module.add_metadata(hint) for hint in hints]
    node = module.add_metadata([f"loop {len(module.metadata)}", *properties])
    node.operands = (node, *properties)
    return node
