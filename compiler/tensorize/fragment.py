# SPDX-License-Identifier: Apache-2.0
"""Fragments: how the 32 lanes of a warp hold a tile of a matrix in their registers.

The tile is cut into blocks of 8 by 4 groups of neighbours. Lane `l` holds, of each block, group
`l % 4` of line `l // 4`; the blocks follow each other along the lines' dimension first.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, Protocol

from vdla.compiler import ir
from vdla.compiler.ir import storage_dtype
from vdla.support.errors import Error


class IntrinsicError(Error, ValueError):
    """A declaration that contradicts itself."""


class TensorizeError(Error, ValueError):
    """A loop nest that does not match the intrinsic; the message gives the remedy."""


class AxisOutsideError(TensorizeError):
    """An axis of the entry is driven by a loop outside of the nest."""


LANES = 32
"""The threads of a warp."""
_LINES = 8  # of a block
_GROUPS = 4  # in a line of a block
_REGISTER_BYTES = 4
_LDMATRIX_BYTES = 2  # of the elements that it can transpose


class FragmentEmitter(Protocol):
    """What the `lower` of a tensor-core intrinsic emits its instruction with, in LLVM IR."""

    @property
    def builder(self) -> Any:  # noqa: ANN401  llvmlite has no types
        """The insertion point: an llvmlite IRBuilder."""

    def load(self, operand: str) -> list[Any]:
        """The registers of this lane: i32 each for operands in shared memory, else as stored."""

    def store(self, operand: str, values: list[Any]) -> None:
        """Puts registers back to an operand in the lane's registers."""


@dataclass(frozen=True, slots=True)
class Fragment:
    """A tile of `shape` elements of `dtype`, rows and columns, over the lanes of a warp.

    Each group has `neighbours` elements, beside each other in a row, or in a column if the
    fragment is `transposed`.
    """

    shape: tuple[int, int]
    dtype: str
    neighbours: int
    transposed: bool = False

    @property
    def size(self) -> int:
        """The elements that a lane holds."""
        return prod(self.shape) // LANES

    @property
    def per_register(self) -> int:
        """The elements in a register of 32 bits."""
        return _REGISTER_BYTES // storage_dtype(self.dtype).itemsize

    @property
    def registers(self) -> int:
        """The registers of a lane."""
        return self.size // self.per_register

    @property
    def matrices(self) -> int:
        """The matrices of 8 rows of 16 bytes that ldmatrix loads at once; 0 if it cannot."""
        if self.neighbours != self.per_register or self.per_register == 1:
            return 0
        whole = not self.transposed or storage_dtype(self.dtype).itemsize == _LDMATRIX_BYTES
        return self.size // self.neighbours if whole else 0

    @property
    def blocks(self) -> tuple[int, int]:
        """The number of blocks along the dimension of lines, and across."""
        lines, across = self.shape[::-1] if self.transposed else self.shape
        return lines // _LINES, across // (_GROUPS * self.neighbours)

    def position(self, lane: ir.Expr, block: ir.Expr, part: ir.Expr, index: ir.Expr) -> tuple[ir.Expr, ir.Expr]:
        """The row and the column of neighbour `index` of a lane in a block.

        The block is number `block` along the lines and `part` across.
        """
        line = _plus(_scaled(block, _LINES), _divided(lane, _GROUPS))
        group = _scaled(_remainder(lane, _GROUPS), self.neighbours)
        across = _plus(_scaled(part, _GROUPS * self.neighbours), _plus(group, index))
        return (across, line) if self.transposed else (line, across)

    def element(self, lane: ir.Expr, number: int) -> tuple[ir.Expr, ir.Expr]:
        """The row and the column of the element in place `number` of a lane."""
        place, element = divmod(number, self.neighbours)
        part, block = divmod(place, self.blocks[0])
        return self.position(lane, ir.Const(block), ir.Const(part), ir.Const(element))

    def matrix_row(self, lane: ir.Expr) -> tuple[ir.Expr, ir.Expr]:
        """The row and the column at which the 16 bytes begin whose address a lane gives to
        ldmatrix."""
        matrix = _remainder(_divided(lane, _LINES), self.matrices)
        line = _scaled(_remainder(matrix, self.blocks[0]), _LINES)
        column = _scaled(_divided(matrix, self.blocks[0]), _GROUPS * self.neighbours)
        row_in_line = _remainder(lane, _LINES)
        return (_plus(column, row_in_line), line) if self.transposed else (_plus(line, row_in_line), column)

    def owner(self, row: ir.Expr, column: ir.Expr) -> tuple[ir.Expr, ir.Expr]:
        """The lane that holds an element, and the place of the element in it."""
        line, across = (column, row) if self.transposed else (row, column)
        width = _GROUPS * self.neighbours
        lane = _plus(_scaled(_remainder(line, _LINES), _GROUPS), _divided(_remainder(across, width), self.neighbours))
        block = _plus(_scaled(_divided(across, width), self.blocks[0]), _divided(line, _LINES))
        return lane, _plus(_scaled(block, self.neighbours), _remainder(across, self.neighbours))


def _plus(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    return ir.Binary("add", a, b)


def _scaled(a: ir.Expr, factor: int) -> ir.Expr:
    return ir.binary("mul", a, factor) if factor != 1 else a


def _divided(a: ir.Expr, divisor: int) -> ir.Expr:
    return ir.binary("floordiv", a, divisor) if divisor != 1 else a


def _remainder(a: ir.Expr, divisor: int) -> ir.Expr:
    return ir.binary("mod", a, divisor) if divisor != 1 else ir.Const(0)
