"""One step of an intrinsic, as its `lower` sees it: operands are vectors, whatever buffers they lie in.

An entry is one vector of all its elements, row-major, in the register types of `types.py`: int4 is i8, bfloat16 the i16
of its bits, bool i1. Everything is written at `builder`, where a lowering puts its own instructions too.
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
from vdla.compiler.codegen.llvm.addresses import place_of, pointer
from vdla.compiler.codegen.llvm.expressions import literal
from vdla.compiler.codegen.llvm.function_builder import Frame
from vdla.compiler.codegen.llvm.types import I1, Value, constant, lane_order, undefined, value_type
from vdla.compiler.target import Target
from vdla.compiler.tensorize.intrinsic import CONDITION, IMMEDIATE, MEMORY, IntrinsicError

if TYPE_CHECKING:
    from vdla.compiler.ir import Match


@dataclass(frozen=True, slots=True)
class NativeStep:
    """The operands of one step, by the names of the intrinsic's placeholders and output."""

    frame: Frame
    match: Match

    @property
    def builder(self) -> Value:
        """Where instructions go: an llvmlite IRBuilder."""
        return self.frame.builder

    @property
    def target(self) -> Target:
        """The CPU that is compiled for."""
        return self.frame.kernel.target

    def load(self, operand: str) -> Value:
        """The entry of an operand as one vector."""
        self._check("load", operand, MEMORY)
        name, length = self.match.buffers[operand], self._run(operand)
        parts = [memory.load_run(self.frame, name, place, length) for place in self._places(operand)]
        return joined(self.builder, parts)

    def store(self, operand: str, value: Value) -> None:
        """Write the entry of the output; `value` is one vector, of just its elements."""
        self._check_output(operand, value)
        name, length = self.match.buffers[operand], self._run(operand)
        for number, place in enumerate(self._places(operand)):
            part = value if length == value.type.count else self._part(value, number * length, length)
            memory.store_run(self.frame, name, place, part)

    def pointer(self, operand: str) -> Value:
        """The address of the first element of an operand's entry."""
        self._check("pointer", operand, MEMORY)
        return pointer(self.frame, self.match.buffers[operand], self._start(operand), sure=True)

    def immediate(self, operand: str) -> Value:
        """A constant of the program, in a register."""
        self._check("immediate", operand, IMMEDIATE)
        dtype = self.match.intrinsic.behaviour.buffers[operand].dtype
        return literal(self.frame, self.match.immediates[operand], dtype)

    def condition(self, operand: str) -> Value:
        """Whether a condition holds: an i1."""
        self._check("condition", operand, CONDITION)
        cond = self.match.conditions.get(operand)
        return constant(I1, 1) if cond is None else self.frame.value(self.frame, cond, None)

    # --- what a lowering may ask for

    def _check(self, method: str, operand: str, scope: str) -> None:
        """Refuse an operand that is none, or of another scope."""
        known = [name for name, place in self.match.intrinsic.scopes.items() if place == scope]
        if operand not in known:
            rule = f"operand of {method} must be one of scope {scope} ({', '.join(known) or 'there is none'})"
            raise IntrinsicError(f"intrinsic {self.match.intrinsic.name}: {rule}, got {operand!r}")

    def _check_output(self, operand: str, value: Value) -> None:
        """Refuse to write what is no output, and a value that is not just its entry."""
        intrinsic = self.match.intrinsic
        where, output = f"intrinsic {intrinsic.name}", intrinsic.output
        if operand != output.name:
            raise IntrinsicError(f"{where}: operand of store must be the output, {output.name}, got {operand!r}")
        wanted = llvm.VectorType(value_type(output.dtype, self.target), prod(self._shape(operand)))
        if not isinstance(value, llvm.Value) or value.type != wanted:
            got = value.type if isinstance(value, llvm.Value) else repr(value)
            raise IntrinsicError(f"{where}: value of {operand} must be {wanted}, got {got}")

    # --- where entries lie

    def _shape(self, operand: str) -> tuple[int, ...]:
        return self.match.intrinsic.behaviour.buffers[operand].dims

    def _start(self, operand: str) -> Linear:
        return self._place(operand, (0,) * len(self._shape(operand)))

    def _place(self, operand: str, inside: tuple[int, ...]) -> Linear:
        """Where an element of an entry lies; a window's first index begins at its start."""
        buffer, entry = self.match.buffers[operand], self.match.entries[operand]
        rest = inside[len(entry) + len(inside) - len(self.frame.kernel.fn.buffers[buffer].shape) :]
        if len(rest) < len(inside):
            entry = (*entry[:-1], ir.Binary("add", entry[-1], ir.Const(inside[0])))
        return place_of(self.frame, buffer, (*entry, *map(ir.Const, rest)))

    def _inner(self, operand: str) -> int:
        """How many of an entry's last dimensions lie without gaps in its buffer."""
        shape = self._shape(operand)
        outer = self.frame.kernel.fn.buffers[self.match.buffers[operand]].shape[-len(shape) :]
        count = 1
        while count < len(shape) and shape[-count] == outer[-count]:
            count += 1
        return count

    def _run(self, operand: str) -> int:
        """The elements of an entry that lie without gaps."""
        return prod(self._shape(operand)[-self._inner(operand) :])

    def _places(self, operand: str) -> list[Linear]:
        """Where the runs of an entry begin."""
        shape, inner = self._shape(operand), self._inner(operand)
        rows = product(*(range(extent) for extent in shape[:-inner]))
        return [self._place(operand, row + (0,) * inner) for row in rows]

    def _part(self, value: Value, start: int, length: int) -> Value:
        order = lane_order(tuple(range(start, start + length)))
        return self.builder.shuffle_vector(value, undefined(value.type), order)


def joined(builder: Value, parts: list[Value]) -> Value:
    """Vectors of one type, one behind the other."""
    while len(parts) > 1:
        rest = parts[len(parts) // 2 * 2 :]
        pairs = zip(parts[::2], parts[1::2], strict=False)
        parts = [pair(builder, a, b) for a, b in pairs] + rest
    return parts[0]


def pair(builder: Value, a: Value, b: Value) -> Value:
    """Two vectors as one; the second may be shorter."""
    length, total = a.type.count, a.type.count + b.type.count
    if b.type.count < length:
        order = lane_order(tuple(min(lane, b.type.count - 1) for lane in range(length)))
        b = builder.shuffle_vector(b, undefined(b.type), order)
    return builder.shuffle_vector(a, b, lane_order(tuple(range(total))))
