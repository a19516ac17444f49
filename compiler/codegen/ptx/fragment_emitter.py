# SPDX-License-Identifier: Apache-2.0
"""`PtxFragmentEmitter`: passed to the `lower` of a tensor-core intrinsic to emit a step of a warp.

Operands in shared memory come into registers by one ldmatrix where each of its rows of 16 bytes is
aligned to as many, else element by element. All lanes of the warp run the code together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llvmlite import ir as llvm

from vdla.compiler import ir
from vdla.compiler.arith import Linear
from vdla.compiler.codegen.llvm import memory
from vdla.compiler.codegen.llvm.addresses import alignment, element_pointer, offset_of
from vdla.compiler.codegen.llvm.function_builder import FunctionBuilder
from vdla.compiler.codegen.llvm.types import I32, Value, call_intrinsic
from vdla.compiler.ir import THREAD_AXES, Match
from vdla.compiler.tensorize import LANES, Fragment

_ROW_BYTES = 16  # of ldmatrix
_SHARED_POINTER = llvm.PointerType(addrspace=3)
_REGISTER_BITS = 32


@dataclass(frozen=True, slots=True)
class PtxFragmentEmitter:
    """The operands of one call of a tensor-core intrinsic, by their names."""

    fb: FunctionBuilder
    match: Match

    @property
    def builder(self) -> Value:
        """The insertion point: an llvmlite IRBuilder."""
        return self.fb.builder

    def load(self, operand: str) -> list[Value]:
        """The registers of this lane: i32 each for operands in shared memory, else as stored."""
        name, fragment = self.match.buffers[operand], self._fragment(operand)
        if self.fb.buffers[name].scope == "local":
            return [memory.load(self.fb, name, self._register(operand, place)) for place in range(fragment.size)]
        if fragment.matrices and self._row_is_aligned(operand):
            return self._load_matrices(operand)
        elements = [
            memory.load(self.fb, name, self._at(operand, fragment.element(_lane(), n))) for n in range(fragment.size)
        ]
        count = fragment.per_register
        return [self._packed(elements[first : first + count]) for first in range(0, fragment.size, count)]

    def store(self, operand: str, values: list[Value]) -> None:
        """Puts registers back to an operand in the lane's registers."""
        for place, value in enumerate(values):
            memory.store(self.fb, self.match.buffers[operand], self._register(operand, place), value)

    # --- places

    def _fragment(self, operand: str) -> Fragment:
        result: Fragment = self.match.intrinsic.fragments[operand]
        return result

    def _register(self, operand: str, place: int) -> tuple[ir.Expr, ...]:
        """The indices of an element that the lane holds in its registers."""
        *lead, _ = self.match.entries[operand]
        return (*lead, ir.Const(place))

    def _at(self, operand: str, inside: tuple[ir.Expr, ir.Expr]) -> tuple[ir.Expr, ...]:
        """The indices of an element of the tile."""
        *lead, row, column = self.match.entries[operand]
        return (*lead, *(ir.Binary("add", start, offset) for start, offset in zip((row, column), inside, strict=True)))

    def _row(self, operand: str) -> Linear:
        """The offset of the row whose address this lane gives to ldmatrix."""
        indices = self._at(operand, self._fragment(operand).matrix_row(_lane()))
        return offset_of(self.fb, self.match.buffers[operand], indices)

    def _row_is_aligned(self, operand: str) -> bool:
        return alignment(self.fb, self.match.buffers[operand], self._row(operand)) % _ROW_BYTES == 0

    # --- registers

    def _load_matrices(self, operand: str) -> list[Value]:
        """The registers by one ldmatrix."""
        fragment = self._fragment(operand)
        generic = element_pointer(self.fb, self.match.buffers[operand], self._row(operand), in_bounds=True)
        address = self.builder.addrspacecast(generic, _SHARED_POINTER)
        form = f"x{fragment.matrices}{'.trans' if fragment.transposed else ''}.b16.p3"
        kind = llvm.LiteralStructType([I32] * fragment.matrices)
        matrices = call_intrinsic(self.builder, f"llvm.nvvm.ldmatrix.sync.aligned.m8n8.{form}", kind, address)
        return [self.builder.extract_value(matrices, number) for number in range(fragment.matrices)]

    def _packed(self, elements: Sequence[Value]) -> Value:
        """Elements in one register, the first in the low bits."""
        width = _REGISTER_BITS // len(elements)
        result = None
        for number, element in enumerate(elements):
            bits = self.builder.zext(self.builder.bitcast(element, llvm.IntType(width)), I32)
            shifted = self.builder.shl(bits, I32(width * number)) if number else bits
            result = shifted if result is None else self.builder.or_(result, shifted)
        return result


def _lane() -> ir.Expr:
    """The number of the lane: warps are consecutive threads along the first axis."""
    return ir.binary("mod", THREAD_AXES[0], LANES)
