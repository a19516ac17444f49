# SPDX-License-Identifier: Apache-2.0
"""Statements of a kernel in OpenCL C.

The arrays of a thread are variables of the kernel; loops left to unroll keep their form, under a
pragma.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial, reduce

from vdla.compiler import ir
from vdla.compiler.arith import conjuncts, last_value
from vdla.compiler.codegen.opencl.expressions import ExpressionWriter
from vdla.compiler.codegen.opencl.indices import elements
from vdla.compiler.codegen.opencl.source_text import PRIMARY, OpenClError, SourceText, infix
from vdla.compiler.codegen.opencl.types import c_type, memory_type
from vdla.compiler.codegen.opencl.vectors import vector_store

_INDENT = "    "
PRIVATE_BYTES = 64 * 1024
"""The largest array of one thread."""


@dataclass(slots=True)
class StatementWriter:
    """Writes the statements of one kernel of the function `where`."""

    where: str
    expressions: ExpressionWriter

    def lines(self, stmt: ir.Stmt, depth: int) -> Iterator[str]:
        """The lines of a statement, indented by `depth`."""
        indent = _INDENT * depth
        match stmt:
            case ir.Seq(stmts=stmts):
                for inner in stmts:
                    yield from self.lines(inner, depth)
            case ir.Store():
                yield from self.stores((stmt,), depth)
            case ir.MultiStore(stores=stores):
                yield from self.stores(stores, depth)
            case ir.If(cond=cond, body=body):
                self.expressions.forget()
                yield f"{indent}if ({self.condition(cond).text}) {{"
                yield from self.lines(body, depth + 1)
                yield f"{indent}}}"
            case ir.For():
                yield from self.loop(stmt, depth)
            case ir.Alloc(buffers=buffers, body=body):
                yield from (f"{indent}{self.array(self.expressions.buffers[name])}" for name in buffers)
                yield from self.lines(body, depth)
            case ir.IntrinsicCall(body=body):
                yield from self.lines(body, depth)
            case ir.Prefetch():
                return
            case ir.Atomic(body=ir.Store(value=ir.Binary() as value) as store):
                yield f"{indent}{self.update(store, value)}"
            case ir.Barrier(scope=ir.BarrierScope.WARP):
                raise OpenClError(f"{self.where}: barriers must be of a block in OpenCL C, got one of a warp")
            case ir.Barrier():
                yield f"{indent}barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);"
            case _:
                raise OpenClError(f"{self.where}: function must be lowered first, got {type(stmt).__name__}")

    def condition(self, cond: ir.Expr) -> SourceText:
        """The condition of a statement as one branch: `&` needs none between comparisons.

        They come before loads, which may only be done where they hold.
        """
        parts = conjuncts(cond)
        plain = [part for part in parts if not ir.reads_memory(part)]
        reading = [self.expressions.value(part) for part in parts if part not in plain]
        joined = [reduce(partial(infix, "&"), map(self.expressions.value, plain))] if plain else []
        return reduce(partial(infix, "&&"), joined + reading)

    # --- loops

    def loop(self, loop: ir.For, depth: int) -> Iterator[str]:
        """A loop, with the bounds of its variable known inside."""
        outside = dict(self.expressions.ranges)
        self.expressions.ranges = {**outside, loop.var: (0, last_value(loop.extent, outside))}
        yield from self.counted(loop, depth)
        self.expressions.ranges = outside

    def counted(self, loop: ir.For, depth: int) -> Iterator[str]:
        """All iterations, in one statement or one by one."""
        indent, name = _INDENT * depth, self.expressions.names[loop.var]
        if (vector := self.vector(loop)) is not None:
            yield f"{indent}{vector}"
            return
        if loop.kind in (ir.LoopKind.UNROLL, ir.LoopKind.VECTORIZE):
            yield f"{indent}#pragma unroll"
        self.expressions.forget()
        extent = SourceText(str(loop.extent)) if isinstance(loop.extent, int) else self.expressions.index(loop.extent)
        yield f"{indent}for (int {name} = 0; {name} < {extent.at(PRIMARY)}; ++{name}) {{"
        yield from self.lines(loop.body, depth + 1)
        yield f"{indent}}}"

    def vector(self, loop: ir.For) -> str | None:
        """A vectorized loop as one statement, if there is one."""
        if loop.kind is not ir.LoopKind.VECTORIZE or not isinstance(loop.body, ir.Store):
            return None
        self.expressions.forget()
        return vector_store(self.expressions, loop, loop.body)

    # --- stores and arrays

    def stores(self, stores: tuple[ir.Store, ...], depth: int) -> Iterator[str]:
        """Simultaneous stores: all values are computed before the first is written."""
        indent, writer = _INDENT * depth, self.expressions
        kept = writer.shared(store.value for store in stores)
        inner = indent + _INDENT if kept or len(stores) > 1 else indent
        if inner != indent:
            yield f"{indent}{{"
        yield from (f"{inner}{line}" for line in kept)
        values = [writer.value(store.value) for store in stores]
        if len(stores) > 1:
            for number, (store, value) in enumerate(zip(stores, values, strict=True), len(kept) + 1):
                yield f"{inner}const {c_type(writer.dtype(store.value))} t{number} = {value.text};"
            values = [SourceText(f"t{number}") for number in range(len(kept) + 1, len(kept) + 1 + len(stores))]
        for store, value in zip(stores, values, strict=True):
            yield f"{inner}{writer.element(store.buffer, store.indices).text} = {value.text};"
        if inner != indent:
            yield f"{indent}}}"
        writer.forget()

    def update(self, store: ir.Store, value: ir.Binary) -> str:
        """A store `element = element op term` that no other thread interrupts."""
        old = ir.Load(store.buffer, store.indices)
        self.expressions.forget()
        term = self.expressions.value(value.b if value.a == old else value.a)
        element = self.expressions.element(store.buffer, store.indices)
        self.expressions.forget()
        return f"atomic_{value.op}(&{element.text}, {term.text});"

    def array(self, buffer: ir.Buffer) -> str:
        """The declaration of an array of one thread."""
        count = elements(buffer)
        if count is None:
            raise OpenClError(f"{self.where}: an array of one thread must have a constant size, got {buffer.name}")
        kind = memory_type(buffer.dtype)
        size = count * ir.storage_dtype(buffer.dtype).itemsize
        if size > PRIVATE_BYTES:
            rule = f"an array of one thread must have at most {PRIVATE_BYTES} bytes"
            raise OpenClError(f"{self.where}: {rule}, got {size} of {buffer.name}")
        size_text = f"[{count}]" if count != 1 else ""
        return f"{kind} {self.expressions.names[buffer.name]}{size_text};"
