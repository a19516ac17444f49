"""What programs of one form with different tiles share; it is computed once, when it is needed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

from vdla.compiler import ir, te
from vdla.compiler.map.packed_expression import packed_tensors
from vdla.compiler.map.packed_form import PackedForm
from vdla.compiler.map.packed_operand import PackedOperand
from vdla.compiler.map.tile_facts import tiling_problem
from vdla.compiler.operators.vdla.tiling_problem import TilingProblem


@dataclass(frozen=True, eq=False)
class UntiledForm:
    """A form with its packed expression and what tiles cut up."""

    form: PackedForm

    @cached_property
    def tensors(self) -> list[te.Tensor]:
        """[each operand, (scale,) output] of the program."""
        return packed_tensors(self.form)

    @cached_property
    def problem(self) -> TilingProblem:
        """What tiles cut up.

        Raises:
            MapError: the epilogue does not fit the mapping.
        """
        return tiling_problem(self.form)

    @cached_property
    def extra_bytes(self) -> int:
        """Bytes that the host writes beyond those of the plain operands."""
        return sum(max(0, _packed_bytes(operand) - _plain_bytes(operand)) for operand in self.form.operands.values())


def _packed_bytes(operand: PackedOperand) -> int:
    return _nbytes(operand.shape(lambda window: operand.source.shape[window.dimension]), operand.source.dtype)


def _plain_bytes(operand: PackedOperand) -> int:
    return _nbytes(operand.source.shape, operand.source.dtype)


def _nbytes(shape: tuple[int, ...], dtype: str) -> int:
    return prod(shape) * ir.INTEGER_BITS[dtype] // 8
