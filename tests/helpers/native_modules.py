# SPDX-License-Identifier: Apache-2.0
"""Hand-written kernel bodies: test the C entry, objects and the pool without the code generator.

All compute c = a * 2 + b on float32, elementwise.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from vdla.compiler.abi import Argument, Signature
from vdla.compiler.codegen.llvm.module import body_symbol

I32, I64, F32, POINTER = ir.IntType(32), ir.IntType(64), ir.FloatType(), ir.PointerType()

STATIC = Signature("axpy", tuple(Argument(name, "float32", (6, 4), name == "c") for name in "abc"))
SYMBOLIC = Signature(
    "grow",
    (
        Argument("a", "float32", ("n", 4), False),
        Argument("b", "float32", ("n", 4), False),
        Argument("c", "float32", (("add", "n", 1), 4), True),
    ),
    ("n",),
)


def expected(a: Any, b: Any) -> Any:
    """The result of the kernels, by NumPy."""
    return (a * np.float32(2) + b).astype(np.float32)


def module(signature: Signature, parallel: bool = False, result: int = 0, work: int = 1) -> ir.Module:
    """A module with a kernel body that repeats the work for each element `work` times."""
    made, body, builder = _begin(signature)
    pointers, scalars = body.args[: len(signature.arguments)], body.args[len(signature.arguments) :]
    extent: Any = I64(1)
    for size in signature.arguments[0].shape:
        extent = builder.mul(extent, scalars[0] if isinstance(size, str) else I64(size))
    if parallel:
        _parallel(made, builder, pointers, extent, work)
    else:
        _loop(builder, pointers, I64(0), extent)
    builder.ret(I32(result))
    return made


def _loop(builder: ir.IRBuilder, pointers: Any, begin: Any, end: Any, work: int = 1) -> None:
    function = builder.function
    before, head = builder.block, function.append_basic_block("head")
    inside, done = function.append_basic_block("inside"), function.append_basic_block("done")
    builder.branch(head)
    builder.position_at_end(head)
    i = builder.phi(I64)
    i.add_incoming(begin, before)
    builder.cbranch(builder.icmp_signed("<", i, end), inside, done)
    builder.position_at_end(inside)
    a, b, c = (builder.gep(pointer, [i], source_etype=F32) for pointer in pointers)
    twice = builder.fmul(builder.load(a, typ=F32), F32(2.0))
    total = builder.fadd(twice, builder.load(b, typ=F32))
    if work > 1:
        total = _repeated(builder, total, work)
    builder.store(total, c)
    i.add_incoming(builder.add(i, I64(1)), builder.block)
    builder.branch(head)
    builder.position_at_end(done)


def _repeated(builder: ir.IRBuilder, start: Any, work: int) -> Any:
    """A value after a chain of `work` dependent products that leave it unchanged."""
    before, again, done = builder.block, builder.append_basic_block("again"), builder.append_basic_block("ready")
    one = builder.fsub(start, start)
    one = builder.fadd(one, F32(1.0))
    builder.branch(again)
    builder.position_at_end(again)
    count, total = builder.phi(I64), builder.phi(F32)
    count.add_incoming(I64(0), before)
    total.add_incoming(start, before)
    following = builder.fmul(total, one)
    more = builder.add(count, I64(1))
    count.add_incoming(more, again)
    total.add_incoming(following, again)
    builder.cbranch(builder.icmp_signed("<", more, I64(work)), again, done)
    builder.position_at_end(done)
    return following


def _parallel(made: ir.Module, builder: ir.IRBuilder, pointers: Any, extent: Any, work: int) -> None:
    kind = ir.FunctionType(ir.VoidType(), (POINTER, I64, I64))
    piece = ir.Function(made, kind, "piece")
    piece.linkage = "internal"
    closure_kind = ir.LiteralStructType([POINTER] * 3)
    inner = ir.IRBuilder(piece.append_basic_block("entry"))
    closure, begin, end = piece.args
    held = [inner.load(inner.gep(closure, [I32(0), I32(k)], source_etype=closure_kind), typ=POINTER) for k in range(3)]
    _loop(inner, held, begin, end, work)
    inner.ret_void()
    pool = ir.Function(made, ir.FunctionType(I32, (POINTER, POINTER, I64)), "vdla_parallel")
    place = builder.inttoptr(builder.ptrtoint(builder.alloca(closure_kind), I64), POINTER)
    for k, pointer in enumerate(pointers):
        builder.store(pointer, builder.gep(place, [I32(0), I32(k)], source_etype=closure_kind))
    builder.call(pool, [piece, place, extent])


def nothing(signature: Signature, result: int = 0) -> ir.Module:
    """A module with an empty body."""
    made, _, builder = _begin(signature)
    builder.ret(I32(result))
    return made


def _begin(signature: Signature) -> tuple[ir.Module, ir.Function, ir.IRBuilder]:
    made = ir.Module(signature.name)
    kinds = [POINTER] * len(signature.arguments) + [I64] * len(signature.scalars)
    body = ir.Function(made, ir.FunctionType(I32, kinds), body_symbol(signature.name))
    body.linkage = "internal"
    return made, body, ir.IRBuilder(body.append_basic_block("entry"))
