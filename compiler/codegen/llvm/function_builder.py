"""One LLVM function while it is written: where its instructions go and what they may use by name.

Everything known in a `Frame` dominates the place that its builder is at: `scope` forgets what was found inside of a
loop or branch. `Kernel` is what all functions of one module share.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import Any

from llvmlite import ir as llvm

from vdla.compiler import ir
from vdla.compiler.arith import Range
from vdla.compiler.codegen.llvm.lanes import Lanes
from vdla.compiler.codegen.llvm.types import POINTER, Type, Value, index_type, nbytes
from vdla.compiler.codegen.llvm.values import Operators
from vdla.compiler.target import Target, TargetError

ALIGN = 64  # of temporaries, in bytes: a cache line, and the widest vector


@dataclass(frozen=True, slots=True)
class Place:
    """Where a buffer begins, and the alignment in bytes of that."""

    pointer: Value
    align: int


@dataclass(frozen=True, slots=True)
class Kernel:
    """The module of one lowered function."""

    fn: ir.Function
    target: Target
    contract: bool
    module: Value

    @property
    def index(self) -> Type:
        """The integer type of indices."""
        return index_type(self.target)

    def nbytes(self, buffer: ir.Buffer) -> int:
        """The bytes of a buffer, as if its symbolic extents were 1; indices must be able to count them.

        Raises:
            TargetError: they cannot.
        """
        size, most = nbytes(buffer.dtype), (1 << (self.index.width - 1)) - 1
        size *= prod(extent for extent in buffer.shape if isinstance(extent, int))
        if size > most:
            rule = f"{buffer.name} must have at most {most} bytes on {self.target.name}"
            raise TargetError(f"{self.fn.name}: {rule}, got {size}")
        return size


@dataclass(slots=True)
class Frame:
    """A function of a kernel. `variables` are loop variables and scalars of index type, outermost first; `heap` are the
    buffers to free before leaving; `fail` ends the function for want of memory; `value` evaluates an expression, which
    indices and values need of each other."""

    kernel: Kernel
    function: Value
    builder: Value
    fail: Callable[[Frame], None]
    value: Callable[[Frame, ir.Expr, Lanes | None], Value]
    variables: dict[str, Value] = field(default_factory=dict)
    ranges: dict[str, Range] = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)
    heap: list[Value] = field(default_factory=list)
    memo: ChainMap[Any, Value] = field(default_factory=ChainMap)
    parts: ChainMap[Any, Any] = field(default_factory=ChainMap)

    @property
    def operators(self) -> Operators:
        """The operators on elements at the builder's place."""
        return Operators(self.builder, self.kernel.target, self.kernel.contract)

    def index(self, number: int) -> Value:
        """A constant index."""
        return self.kernel.index(number)

    def once(self, key: object, make: Callable[[], Value]) -> Value:
        """The value of `key`, made where it is asked for first."""
        if key not in self.memo:
            self.memo[key] = make()
        return self.memo[key]

    def part(self, expr: ir.Expr, mask: Value | None, make: Callable[[], Value]) -> Value:
        """The value of this very expression in the lanes of `mask`, computed once in a statement."""
        key = (id(expr), id(mask))
        if key not in self.parts:
            self.parts[key] = (make(), expr, mask)  # what is kept keeps its id
        return self.parts[key][0]

    @contextmanager
    def scope(self) -> Iterator[None]:
        """What is found inside is forgotten at the end."""
        outer, parts = self.memo, self.parts
        self.memo, self.parts = outer.new_child(), parts.new_child()
        yield
        self.memo, self.parts = outer, parts

    @contextmanager
    def statement(self) -> Iterator[None]:
        """Inside, elements are read before any is written: what a part was before says nothing, nor what it is now
        afterwards."""
        outer, self.parts = self.parts, ChainMap()
        yield
        self.parts = outer

    @contextmanager
    def bound(self, var: str, value: Value, largest: int) -> Iterator[None]:
        """A variable in [0, largest] has `value` inside."""
        self.variables[var], self.ranges[var] = value, (0, largest)
        with self.scope():
            yield
        del self.variables[var], self.ranges[var]

    def block(self, name: str) -> Value:
        """A new block of the function, after all others."""
        return self.function.append_basic_block(name)

    @contextmanager
    def branch(self, cond: Value, name: str) -> Iterator[None]:
        """What is written inside happens where `cond` holds."""
        then, after = self.block(name), self.block("after")
        self.builder.cbranch(cond, then, after)
        self.builder.position_at_end(then)
        with self.scope():
            yield
        self.builder.branch(after)
        self.builder.position_at_end(after)

    def choose(self, cond: Value, a: Callable[[], Value], b: Callable[[], Value]) -> Value:
        """The value of the side that is taken; the other one is not run."""
        taken = (self.block("then"), self.block("else"))
        after = self.block("after")
        self.builder.cbranch(cond, *taken)
        results = []
        for block, side in zip(taken, (a, b), strict=True):
            self.builder.position_at_end(block)
            with self.scope():
                results.append((side(), self.builder.block))
            self.builder.branch(after)
        self.builder.position_at_end(after)
        phi = self.builder.phi(results[0][0].type)
        for value, block in results:
            phi.add_incoming(value, block)
        return phi

    def on_stack(self, kind: Type, name: str) -> Value:
        """The address of room in the function's stack frame."""
        builder = llvm.IRBuilder()
        builder.position_before(self.function.entry_basic_block.terminator)
        room = builder.alloca(kind, name=name)
        room.align, room.type = ALIGN, POINTER
        return room


def begin(function: Value) -> Value:
    """A builder at the start of a new function, behind a block for the stack frame."""
    entry, start = function.append_basic_block("entry"), function.append_basic_block("start")
    llvm.IRBuilder(entry).branch(start)
    return llvm.IRBuilder(start)


def lane_numbers(count: int, kind: Type) -> Value:
    """The vector 0, 1, 2, ..."""
    return llvm.Constant(llvm.VectorType(kind, count), list(range(count)))
