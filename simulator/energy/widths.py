# SPDX-License-Identifier: Apache-2.0
"""The widths of the memories of the buffers, in bits: of a word, which a read is of, and of what
writes change.

They are those of `vdla_*_buffer.sv` and `vdla_accumulator.sv`.
"""

from __future__ import annotations

from functools import lru_cache

from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa.formats import uop_layout


def entry_bits(config: Config, buffer: Buffer) -> int:
    """Bits of an entry in its memory."""
    return 8 * config.entry_bytes[buffer]


def word_bits(config: Config, buffer: Buffer) -> int:
    """Bits of a read: of a group of entries that an operand can be, or of a slot of sums."""
    entry = entry_bits(config, buffer)
    if buffer is Buffer.OUT:
        return 8 * config.acc_entry_bytes
    if buffer is Buffer.INP:
        return max(entry * _group(config, buffer), 8 * config.out_entry_bytes)
    return entry * _group(config, buffer) if buffer is Buffer.WGT else entry


@lru_cache(maxsize=64)
def uop_beats(config: Config) -> tuple[int, ...]:
    """The bits of each beat of a micro-op that are stored, each in a memory of its own."""
    used = sum(slot.width for slot in uop_layout(config))
    beat = 8 * config.axi_bytes
    return tuple(min(beat, used - low) for low in range(0, used, beat))


def _group(config: Config, buffer: Buffer) -> int:
    """The entries of the largest operand of a step."""
    ports = (port for plug_in in config.extensions for _, port in plug_in.ports.indexed)
    return max([1, *(port.entries for port in ports if port.buffer is buffer)])
