# SPDX-License-Identifier: Apache-2.0
"""The array of multipliers for a datapath that uses it: which columns share operands, and its time.

A slice of the array multiplies the weights of several columns by one element of inputs; at twice
the clock two such groups of columns take turns. So columns share operands of inputs, alike at
either rate, as hardware/rtl/vdla_gemm_pkg.sv packs them.
"""

from __future__ import annotations

from dataclasses import dataclass

from vdla.hardware.config import Config

_SLICE_BITS = 25
_MOST_FIELDS = 8
_MOST_DEPTH = 4
_STAGES = 4  # registers of operands and of the multipliers; the adder tree has one a level


@dataclass(frozen=True, slots=True)
class ArrayPort:
    """The multiplier array of a machine, as a datapath uses it.

    `shares` are the operands of inputs of a batch row, each common to `columns` columns: those `o`
    with one `share(o)`, in ascending order. Sums come `latency` cycles after their operands.
    """

    shares: int
    columns: int
    latency: int
    fields: int

    def share(self, column: int) -> int:
        """The operand of inputs of a column."""
        return column // self.fields % self.shares


def array_port(config: Config) -> ArrayPort:
    """The array of a machine as a datapath that uses it sees it."""
    fields = _packed_weights(config)
    shares = max(1, config.block_out // fields // 2)
    return ArrayPort(shares, config.block_out // shares, _STAGES + (config.block_in - 1).bit_length(), fields)


def _packed_weights(config: Config) -> int:
    """The weights that share the product of a slice: as many as fit, in chains of up to four."""
    deep = _fields_that_fit(config, min(config.block_in, _MOST_DEPTH))
    return max(_fields_that_fit(config, 1), deep)


def _fields_that_fit(config: Config, depth: int) -> int:
    spacing = config.inp_bits + config.wgt_bits - 1 + (depth - 1).bit_length()
    fields = min(config.block_out, _MOST_FIELDS)
    while fields > 1 and (fields - 1) * spacing + config.wgt_bits > _SLICE_BITS:
        fields //= 2
    return fields
