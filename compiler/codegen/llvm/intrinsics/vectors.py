"""What the lowerings of CPU intrinsics share: values of LLVM IR in the lanes of vectors.

Nothing here depends on a target; a function of LLVM's own is declared in the module of the builder when it is first
called.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

Builder = Any  # llvmlite.ir.IRBuilder; llvmlite has no types
Val = Any  # llvmlite.ir.Value


def vector(bits: int, lanes: int) -> ir.VectorType:
    """The type of `lanes` integers."""
    return ir.VectorType(ir.IntType(bits), lanes)


def splat(builder: Builder, value: Val, lanes: int) -> Val:
    """`value` in each of `lanes` lanes."""
    one = ir.VectorType(value.type, 1)
    first = builder.insert_element(ir.Constant(one, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
    return permuted(builder, first, [0] * lanes)


def permuted(builder: Builder, value: Val, lanes: list[int]) -> Val:
    """The lanes of `value` at the given places."""
    mask = ir.Constant(vector(32, len(lanes)), lanes)
    return builder.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), mask)


def repeated(builder: Builder, value: Val, lanes: int) -> Val:
    """A whole short vector as one integer in each of `lanes` lanes: how groups of bytes are broadcast."""
    bits = value.type.count * value.type.element.width
    return splat(builder, builder.bitcast(value, ir.IntType(bits)), lanes)


def call(builder: Builder, name: str, result: ir.Type, *arguments: Val) -> Val:
    """The result of one of LLVM's own functions."""
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    known = builder.module.globals.get(name)
    return builder.call(known or ir.Function(builder.module, kind, name), list(arguments))


def part(builder: Builder, value: Val, start: int, lanes: int) -> Val:
    """`lanes` neighbouring lanes of a longer vector."""
    return permuted(builder, value, list(range(start, start + lanes)))
