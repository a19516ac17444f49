# SPDX-License-Identifier: Apache-2.0
"""`FunctionBuilder`: one LLVM function while it is being emitted, and the values its code may use.

Invariant: every cached value dominates the current insertion point. `scope` drops the values that
were emitted inside a loop or branch. `KernelModule` is shared by all functions of one module.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import Any, Protocol

from llvmlite import ir as llvm

from vdla.compiler import ir
from vdla.compiler.abi import element_bytes
from vdla.compiler.arith import Linear, Range
from vdla.compiler.codegen.llvm.arithmetic import Arithmetic
from vdla.compiler.codegen.llvm.lanes import AccessPattern, VectorLanes
from vdla.compiler.codegen.llvm.objects import LlvmTarget
from vdla.compiler.codegen.llvm.types import POINTER, Type, Value, index_type
from vdla.compiler.target import Target, TargetError

ALIGN = 64  # bytes; of temporaries: a cache line, and the widest vector


@dataclass(frozen=True, slots=True)
class BaseAddress:
    """The pointer to the first element of a buffer, and its alignment in bytes."""

    pointer: Value
    align: int


Hint = Sequence[object]
"""A property of a loop for LLVM: its name, then its values."""


class ProcessorRules(Protocol):
    """What a processor does otherwise than others."""

    def emit(self, fb: FunctionBuilder, stmt: ir.Stmt) -> bool:
        """Emit a statement that only this processor emits so; False if it is like any other."""

    def loop_hints(self, fb: FunctionBuilder, loop: ir.For, blocks: Sequence[Value]) -> list[Hint]:
        """What LLVM must know of a loop whose code is in `blocks`."""


@dataclass(frozen=True, slots=True)
class KernelModule:
    """The LLVM module of one lowered function.

    `forms`, `offsets` and `patterns` have what is known of expressions, indices and offsets by
    their identity, and these: statements share them.
    """

    fn: ir.Function
    target: Target
    contract: bool
    module: Value
    rules: ProcessorRules
    index_type: Type = field(init=False)
    forms: dict[int, tuple[ir.Expr, Linear]] = field(init=False, default_factory=dict)
    offsets: dict[tuple[str | int, ...], tuple[tuple[ir.Expr, ...], Linear]] = field(init=False, default_factory=dict)
    patterns: dict[tuple[int, str, int], tuple[Linear, AccessPattern]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "index_type", index_type(self.target))

    def nbytes(self, buffer: ir.Buffer) -> int:
        """The bytes of a buffer, with symbolic extents taken as 1.

        Raises:
            TargetError: indices of the target cannot address that many bytes.
        """
        size, limit = element_bytes(buffer.dtype), (1 << (self.index_type.width - 1)) - 1
        size *= prod(extent for extent in buffer.shape if isinstance(extent, int))
        if size > limit:
            rule = f"{buffer.name} must have at most {limit} bytes on {self.target.name}"
            raise TargetError(f"{self.fn.name}: {rule}, got {size}")
        return size

    def add_function(self, name: str, result: Type, parameters: Sequence[Type], *attributes: str) -> Value:
        """A new function for the target, with `attributes` in LLVM's assembly language."""
        function = llvm.Function(self.module, llvm.FunctionType(result, parameters), name)
        function.attributes = _Attributes(self.target, attributes)
        return function


@dataclass(slots=True)
class FunctionBuilder:
    """Emits one LLVM function of a kernel.

    `return_error` ends the function after a failed allocation. `evaluate` emits an expression; it
    is a field because indices and values need each other. `variables` are loop variables and
    scalars of index type, outermost first; `allocations` are heap pointers to free before leaving.
    """

    kernel: KernelModule
    function: Value
    builder: Value
    return_error: Callable[[FunctionBuilder], None]
    evaluate: Callable[[FunctionBuilder, ir.Expr, VectorLanes | None], Value]
    variables: dict[str, Value] = field(default_factory=dict)
    ranges: dict[str, Range] = field(default_factory=dict)
    bases: dict[str, BaseAddress] = field(default_factory=dict)
    allocations: list[Value] = field(default_factory=list)
    cache: ChainMap[Any, Value] = field(default_factory=ChainMap)
    statement_cache: ChainMap[Any, Any] = field(default_factory=ChainMap)

    @property
    def target(self) -> Target:
        """The CPU to compile for."""
        return self.kernel.target

    @property
    def buffers(self) -> Mapping[str, ir.Buffer]:
        """The buffers of the lowered function."""
        return self.kernel.fn.buffers

    @property
    def arithmetic(self) -> Arithmetic:
        """The operators on elements, emitted at the insertion point."""
        return Arithmetic(self.builder, self.kernel.target, self.kernel.contract)

    @property
    def index_type(self) -> Type:
        """The integer type of indices."""
        return self.kernel.index_type

    def index(self, number: int) -> Value:
        """A constant index."""
        return self.kernel.index_type(number)

    def once(self, key: object, emit: Callable[[], Value]) -> Value:
        """The value cached for `key`; emitted on the first request."""
        for known in self.cache.maps:
            if key in known:
                return known[key]
        value = self.cache[key] = emit()
        return value

    def once_per_statement(self, expr: ir.Expr, mask: Value | None, emit: Callable[[], Value]) -> Value:
        """The value of this very expression in the lanes of `mask`, emitted once per statement."""
        key = (id(expr), id(mask))
        for known in self.statement_cache.maps:
            if key in known:
                return known[key][0]
        value = emit()
        self.statement_cache[key] = (value, expr, mask)  # a reference keeps the id valid
        return value

    @contextmanager
    def scope(self) -> Iterator[None]:
        """On exit, drops the values cached since entry."""
        outer, in_statement = self.cache, self.statement_cache
        self.cache, self.statement_cache = outer.new_child(), in_statement.new_child()
        yield
        self.cache, self.statement_cache = outer, in_statement

    @contextmanager
    def statement(self) -> Iterator[None]:
        """Shares subexpressions within one statement, which reads all elements before it writes.

        Other statements may write these elements, so nothing is shared between statements.
        """
        outer, self.statement_cache = self.statement_cache, ChainMap()
        yield
        self.statement_cache = outer

    @contextmanager
    def variable(self, name: str, value: Value, largest: int) -> Iterator[None]:
        """Binds a variable in [0, largest] to `value`."""
        self.variables[name], self.ranges[name] = value, (0, largest)
        with self.scope():
            yield
        del self.variables[name], self.ranges[name]

    def block(self, name: str) -> Value:
        """A new basic block at the end of the function."""
        return self.function.append_basic_block(name)

    @contextmanager
    def branch(self, cond: Value, name: str) -> Iterator[None]:
        """Code emitted inside runs only if `cond` holds."""
        then, after = self.block(name), self.block("after")
        self.builder.cbranch(cond, then, after)
        self.builder.position_at_end(then)
        with self.scope():
            yield
        self.builder.branch(after)
        self.builder.position_at_end(after)

    def choose(self, cond: Value, a: Callable[[], Value], b: Callable[[], Value]) -> Value:
        """The value of `a` if `cond` holds, else of `b`; only that one is executed."""
        sides = (self.block("then"), self.block("else"))
        after = self.block("after")
        self.builder.cbranch(cond, *sides)
        results = []
        for block, emit in zip(sides, (a, b), strict=True):
            self.builder.position_at_end(block)
            with self.scope():
                results.append((emit(), self.builder.block))
            self.builder.branch(after)
        self.builder.position_at_end(after)
        phi = self.builder.phi(results[0][0].type)
        for value, block in results:
            phi.add_incoming(value, block)
        return phi

    def stack_slot(self, kind: Type, name: str) -> Value:
        """The address of a slot of type `kind` in the function's stack frame."""
        builder = llvm.IRBuilder()
        builder.position_before(self.function.entry_basic_block.terminator)
        slot = builder.alloca(kind, name=name)
        slot.align, slot.type = ALIGN, POINTER
        return slot


def start(function: Value) -> Value:
    """A builder at the start of a new function, after an entry block for stack slots."""
    entry, body = function.append_basic_block("entry"), function.append_basic_block("start")
    llvm.IRBuilder(entry).branch(body)
    return llvm.IRBuilder(body)


def lane_numbers(count: int, kind: Type) -> Value:
    """The constant vector 0, 1, 2, ..."""
    return llvm.Constant(llvm.VectorType(kind, count), list(range(count)))


def set_buffer_attributes(pointer: Value, align: int) -> None:
    """Marks a parameter as the base of a buffer that no other pointer aliases."""
    pointer.attributes.add("noalias")
    pointer.attributes.add("nonnull")
    pointer.attributes.align = align


class _Attributes(llvm.FunctionAttributes):  # type: ignore[misc]  # llvmlite is untyped
    """The attributes of every function: the CPU, its features, its vector width."""

    def __init__(self, target: Target, others: Sequence[str]) -> None:
        words = [f'"target-cpu"="{target.cpu}"', f'"prefer-vector-width"="{8 * target.vector_bytes}"']
        words += [f'"target-features"="{LlvmTarget.of(target).features}"', *others]
        self._known = frozenset([*super()._known, *words])
        super().__init__(["nounwind", *words])
