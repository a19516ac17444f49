# SPDX-License-Identifier: Apache-2.0
"""Products of two activations on the accelerator.

A zero point of the second factor adds terms to each sum; one of the first factor needs the column
sums of the second, which the host computes.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from vdla.compiler import templates
from vdla.compiler.graph.machine.call import MachineNode, OperatorCall, decline, template_call
from vdla.compiler.graph.machine.factor_layout import UNIT, FactorLayout
from vdla.compiler.graph.machine.packing import Channels, InputLayout, PackedLayout, PackingNodes, RowTerms
from vdla.compiler.graph.rewriting import Replacement
from vdla.compiler.operators.vdla.roles import SCALE, SECOND
from vdla.hardware.numerics import pack_scale, scale_from_float


def matmul(at: MachineNode) -> OperatorCall:
    """[..., rows, depth] times [..., depth, columns]."""
    (a, b), config = at.node.inputs[:2], at.config
    left, right = at.shape(a), at.shape(b)
    if left[:-2] != right[:-2]:
        decline(f"have factors of the same batch dimensions, got {list(left[:-2])} and {list(right[:-2])}")
    if config.wgt_dtype != config.inp_dtype:
        decline(f"be for a machine with weights of the activations' type {config.inp_dtype}, got {config.wgt_dtype}")
    *batch, rows, depth = left
    terms = row_terms(at.node.attributes["b_zero_point"], depth)
    wide = depth + (terms.count + 1 if terms else 0)
    data = PackedLayout(Channels.MATRICES, (*batch, rows, wide), config.batch, config.block_in, conversion=terms)
    operands: dict[str, tuple[str, InputLayout]] = {
        SECOND: (b, FactorLayout(right, config.block_in, config.block_out, terms))
    }
    if at.node.attributes["a_zero_point"]:
        operands[SCALE] = b, _lanes(at, right)
    return template_call(
        at,
        templates.batched_matmul,
        (a, data),
        at.result(Channels.MATRICES),
        operands=operands,
        batch=prod(batch),
        rows=rows,
        depth=wide,
        columns=right[-1],
    )


def _lanes(at: MachineNode, shape: tuple[int, ...]) -> LanesLayout:
    """The scale with the share of the first factor's zero point."""
    first, second = at.node.attributes["a_zero_point"], at.node.attributes["b_zero_point"]
    lane = int(pack_scale(0, *scale_from_float(float(at.multiplier))))
    return LanesLayout(shape, at.config.block_out, -first, first * second * shape[-2], lane)


# --- the terms of zero points, and the scale ------------------------------------------------------


_FAR = 128  # the greatest magnitude of an element


def row_terms(zero_point: int, depth: int) -> RowTerms | None:
    """The extra terms of the first factor for a zero point of the second; none for 0."""
    if not zero_point:
        return None
    return RowTerms(-zero_point, -(-abs(zero_point) * _FAR * depth // UNIT**2))


@dataclass(frozen=True, slots=True)
class LanesLayout(InputLayout):
    """The scale lanes of the columns of [..., depth, columns].

    A bias is `factor` times the sum of the column plus `offset`; `lane` has multiplier and shift.
    """

    shape: tuple[int, ...]
    block_out: int
    factor: int
    offset: int
    lane: int
    element_bytes: ClassVar[int] = 8

    @property
    def packed_shape(self) -> tuple[int, ...]:
        """[matrices, columns / block_out, block_out]."""
        return prod(self.shape[:-2]), -(-self.shape[-1] // self.block_out), self.block_out

    @property
    def tag(self) -> str:
        """What tells most layouts of one value apart, for names."""
        return f"lanes{self.block_out}"

    def pack(self, source: str, packed: str, dtype: str) -> Replacement:
        """The nodes that make the program's tensor, `packed`, of the value `source`."""
        making, (*batch, _, columns) = PackingNodes(packed, "int64"), self.shape
        matrices, wide, block = self.packed_shape
        shape, offset = (*batch, columns), self.offset
        value = making.add("vdla.ColumnLanes", (source,), shape, factor=self.factor, offset=offset, lane=self.lane)
        value = making.reshape(value, (matrices, columns))
        value = making.pad(value, (matrices, columns), (matrices, wide * block))
        making.reshape(value, self.packed_shape, packed)
        return making.made
