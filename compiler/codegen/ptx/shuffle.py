"""Shuffles of a warp: shfl.sync.down, a word of 32 bits at a time."""

from __future__ import annotations

from llvmlite import ir as llvm

from vdla.compiler import ir
from vdla.compiler.codegen.llvm import memory
from vdla.compiler.codegen.llvm.function_builder import FunctionBuilder
from vdla.compiler.codegen.llvm.types import I32, Value, call_intrinsic
from vdla.compiler.ir import storage_dtype
from vdla.compiler.tensorize import LANES

_ALL_LANES = -1
_WORD_BITS = 32


def emit_shuffle(fb: FunctionBuilder, store: ir.Store, source: ir.Load, distance: int) -> None:
    """A store of the element that the lane `distance` further holds; all lanes of a warp run it."""
    own = memory.load(fb, source.buffer, source.indices)
    builder, kind = fb.builder, own.type
    width = (
        kind.width if isinstance(kind, llvm.IntType) else storage_dtype(fb.buffers[source.buffer].dtype).itemsize * 8
    )
    bits = own if isinstance(kind, llvm.IntType) else builder.bitcast(own, llvm.IntType(width))
    words = [_word(builder, bits, number) for number in range(-(-width // _WORD_BITS))]
    moved = [_moved(builder, word, distance) for word in words]
    found = _joined(builder, moved, llvm.IntType(width))
    memory.store(
        fb, store.buffer, store.indices, found if isinstance(kind, llvm.IntType) else builder.bitcast(found, kind)
    )


def _moved(builder: Value, word: Value, distance: int) -> Value:
    """A word of the lane `distance` further, or of this one if there is none."""
    arguments = (I32(_ALL_LANES), word, I32(distance), I32(LANES - 1))
    return call_intrinsic(builder, "llvm.nvvm.shfl.sync.down.i32", I32, *arguments)


def _word(builder: Value, bits: Value, number: int) -> Value:
    """A word of an integer, the lowest first."""
    if bits.type.width <= _WORD_BITS:
        return builder.zext(bits, I32) if bits.type.width < _WORD_BITS else bits
    shifted = builder.lshr(bits, llvm.Constant(bits.type, number * _WORD_BITS)) if number else bits
    return builder.trunc(shifted, I32)


def _joined(builder: Value, words: list[Value], kind: llvm.IntType) -> Value:
    """An integer of words, the lowest first."""
    if kind.width <= _WORD_BITS:
        return builder.trunc(words[0], kind) if kind.width < _WORD_BITS else words[0]
    result = builder.zext(words[0], kind)
    for number, word in enumerate(words[1:], 1):
        result = builder.or_(result, builder.shl(builder.zext(word, kind), llvm.Constant(kind, number * _WORD_BITS)))
    return result
