# SPDX-License-Identifier: Apache-2.0
"""`IntrinsicEmitter`: passed to the `lower` of a CPU intrinsic to emit one call.

An entry is one vector of all its elements, row-major, in the register types of `types.py`: int4 is
i8, bfloat16 is i16, bool is i1. All code goes to `builder`, where a lowering adds its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from llvmlite import ir as llvm

from vdla.compiler import ir
from vdla.compiler.arith import Linear
from vdla.compiler.codegen.llvm import memory
from vdla.compiler.codegen.llvm.addresses import element_pointer, offset_of
from vdla.compiler.codegen.llvm.expressions import literal
from vdla.compiler.codegen.llvm.function_builder import FunctionBuilder
from vdla.compiler.codegen.llvm.types import (
    I1,
    Type,
    Value,
    call_intrinsic,
    constant,
    poison,
    shuffle_mask,
    value_type,
)
from vdla.compiler.target import Target
from vdla.compiler.tensorize import CONDITION, IMMEDIATE, MEMORY, IntrinsicError

if TYPE_CHECKING:
    from vdla.compiler.ir import Match


@dataclass(frozen=True, slots=True)
class IntrinsicEmitter:
    """The operands of one intrinsic call, by the names of its placeholders and output."""

    fb: FunctionBuilder
    match: Match

    @property
    def builder(self) -> Value:
        """The insertion point: an llvmlite IRBuilder."""
        return self.fb.builder

    @property
    def target(self) -> Target:
        """The CPU to compile for."""
        return self.fb.target

    def load(self, operand: str) -> Value:
        """The entry of an operand as one vector."""
        self._check("load", operand, MEMORY)
        name, length = self.match.buffers[operand], self._run_length(operand)
        runs = [memory.load_contiguous(self.fb, name, offset, length) for offset in self._run_offsets(operand)]
        return _concatenate(self.builder, runs)

    def store(self, operand: str, value: Value) -> None:
        """Store the entry of the output; `value` is one vector of its elements."""
        self._check_output(operand, value)
        name, length = self.match.buffers[operand], self._run_length(operand)
        for number, offset in enumerate(self._run_offsets(operand)):
            run = value if length == value.type.count else self._slice(value, number * length, length)
            memory.store_contiguous(self.fb, name, offset, run)

    def pointer(self, operand: str) -> Value:
        """The address of the first element of an operand's entry."""
        self._check("pointer", operand, MEMORY)
        first = self._offset(operand, (0,) * len(self._shape(operand)))
        return element_pointer(self.fb, self.match.buffers[operand], first, in_bounds=True)

    def immediate(self, operand: str) -> Value:
        """An immediate operand as a constant."""
        self._check("immediate", operand, IMMEDIATE)
        dtype = self.match.intrinsic.behaviour.buffers[operand].dtype
        return literal(self.fb, self.match.immediates[operand], dtype)

    def condition(self, operand: str) -> Value:
        """Whether a condition holds: an i1."""
        self._check("condition", operand, CONDITION)
        cond = self.match.conditions.get(operand)
        return constant(I1, 1) if cond is None else self.fb.evaluate(self.fb, cond, None)

    def call(self, name: str, result: Type, *arguments: Value) -> Value:
        """Call an LLVM intrinsic by its full name, such as `llvm.uadd.sat.v16i8`."""
        return call_intrinsic(self.builder, name, result, *arguments)

    # --- checks

    def _check(self, method: str, operand: str, scope: str) -> None:
        """Refuse an unknown operand, or one of another scope."""
        known = [name for name, place in self.match.intrinsic.scopes.items() if place == scope]
        if operand not in known:
            rule = f"operand of {method} must be one of scope {scope} ({', '.join(known) or 'none'})"
            raise IntrinsicError(f"intrinsic {self.match.intrinsic.name}: {rule}, got {operand!r}")

    def _check_output(self, operand: str, value: Value) -> None:
        """Refuse a store to anything but the output, and a value of another type than its entry."""
        intrinsic = self.match.intrinsic
        where, output = f"intrinsic {intrinsic.name}", intrinsic.output
        if operand != output.name:
            raise IntrinsicError(f"{where}: operand of store must be the output, {output.name}, got {operand!r}")
        wanted = llvm.VectorType(value_type(output.dtype, self.target), prod(self._shape(operand)))
        if not isinstance(value, llvm.Value) or value.type != wanted:
            got = value.type if isinstance(value, llvm.Value) else repr(value)
            raise IntrinsicError(f"{where}: value of {operand} must be {wanted}, got {got}")

    # --- offsets of entries

    def _shape(self, operand: str) -> tuple[int, ...]:
        return self.match.intrinsic.behaviour.buffers[operand].dims

    def _offset(self, operand: str, inside: tuple[int, ...]) -> Linear:
        """The offset of an element of an entry; a window's first index is relative to its start."""
        buffer, entry = self.match.buffers[operand], self.match.entries[operand]
        rest = inside[len(entry) + len(inside) - len(self.fb.buffers[buffer].shape) :]
        if len(rest) < len(inside):
            entry = (*entry[:-1], ir.binary("add", entry[-1], inside[0]))
        return offset_of(self.fb, buffer, (*entry, *map(ir.Const, rest)))

    def _contiguous_dims(self, operand: str) -> int:
        """How many of an entry's last dimensions are contiguous in its buffer."""
        shape = self._shape(operand)
        outer = self.fb.buffers[self.match.buffers[operand]].shape[-len(shape) :]
        count = 1
        while count < len(shape) and shape[-count] == outer[-count]:
            count += 1
        return count

    def _run_length(self, operand: str) -> int:
        """The elements of an entry that are contiguous in its buffer."""
        return prod(self._shape(operand)[-self._contiguous_dims(operand) :])

    def _run_offsets(self, operand: str) -> list[Linear]:
        """The offsets of the contiguous runs of an entry."""
        shape, inner = self._shape(operand), self._contiguous_dims(operand)
        rows = product(*(range(extent) for extent in shape[:-inner]))
        return [self._offset(operand, row + (0,) * inner) for row in rows]

    def _slice(self, value: Value, start: int, length: int) -> Value:
        lanes = shuffle_mask(tuple(range(start, start + length)))
        return self.builder.shuffle_vector(value, poison(value.type), lanes)


def _concatenate(builder: Value, vectors: list[Value]) -> Value:
    """Vectors of one type as one vector, concatenated pairwise."""
    while len(vectors) > 1:
        odd = vectors[len(vectors) // 2 * 2 :]
        pairs = zip(vectors[::2], vectors[1::2], strict=False)
        vectors = [_concatenate_pair(builder, a, b) for a, b in pairs] + odd
    return vectors[0]


def _concatenate_pair(builder: Value, a: Value, b: Value) -> Value:
    """Two vectors as one; the second may be shorter."""
    length, total = a.type.count, a.type.count + b.type.count
    if b.type.count < length:
        padded = shuffle_mask(tuple(min(lane, b.type.count - 1) for lane in range(length)))
        b = builder.shuffle_vector(b, poison(b.type), padded)
    return builder.shuffle_vector(a, b, shuffle_mask(tuple(range(total))))
