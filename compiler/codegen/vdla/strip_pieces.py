# SPDX-License-Identifier: Apache-2.0
"""The strips of one computation: parts of it, each with the part of its window and of its results.

A part is a range of the computation's outer loop, so the order of its sums is unchanged. A transfer
is cut between lines of its box on the chip, so that its parts are transfers too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.codegen.vdla.macro_op import Base, MacroOp, field_unit
from vdla.compiler.codegen.vdla.padding_pieces import Looped, indices
from vdla.hardware.config import Config
from vdla.hardware.isa import Buffer, Load, Store

_Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Strip:
    """A part of a computation: what is loaded just before it, what is stored just after."""

    loads: tuple[MacroOp, ...]
    compute: MacroOp
    stores: tuple[MacroOp, ...]


def strips_of(config: Config, count: int, compute: MacroOp, load: MacroOp | None, store: MacroOp | None) -> list[Strip]:
    """At most `count` strips of a computation, the first reader of what `load` fills and the last
    writer of what `store` copies; one strip where it has a single iteration.
    """
    parts = list(_parts(compute, count))
    loads = [()] * len(parts) if load is None else _loads(config, load, parts)
    stores = [()] * len(parts) if store is None else _stores(config, store, parts)
    return [Strip(*strip) for strip in zip(loads, parts, stores, strict=True)]


def can_be_cut(load: MacroOp) -> bool:
    """Whether a LOAD moves data; one of padding alone has no address in DRAM."""
    return load.tensor is not None


def _parts(op: MacroOp, count: int) -> list[MacroOp]:
    """Ranges of the outer loop that iterates, of equal size except for the last."""
    instruction = cast("Looped", op.instruction)
    loop = 0 if instruction.loop0 > 1 else 1
    extent = (instruction.loop0, instruction.loop1)[loop]
    size = -(-extent // count)
    result = []
    for first in range(0, extent, size):
        extents: dict[str, Any] = {f"loop{loop}": min(size, extent - first)}
        part = replace(instruction, **extents)
        bases: dict[str, Base] = {}
        for name, (tile, offset) in op.bases.items():
            index = "acc" if name == "out" else name  # results move as their sums do
            bases[name] = tile, offset + first * getattr(instruction, f"{index}{loop}")
        result.append(replace(op, instruction=part, bases=bases))
    return result


def _entries(config: Config, op: MacroOp, name: str) -> _Ints:
    """The buffer entries that a computation reads at `src`, or emits at `out`."""
    instruction = cast("Looped", op.instruction)
    index = "acc" if name == "out" else name
    used = [getattr(uop, index) for uop in op.uops if uop.last or name != "out"]
    at = indices(instruction, index, used) + op.bases[name][1]
    unit = field_unit(config, op.instruction, name)
    return np.asarray((at.reshape(-1, 1) * unit.numerator + np.arange(unit.numerator)) // unit.denominator)


# --- transfers ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Box:
    """A transfer's entries on the chip: `blocks` of `lines` of `width` entries.

    Lines are along `axis` of the instruction, `stride` beats apart in DRAM; those from `first` to
    before `end` have data, the others padding.
    """

    op: MacroOp
    axis: str
    blocks: int
    lines: int
    width: int
    first: int
    end: int
    stride: int

    @staticmethod
    def of(config: Config, op: MacroOp) -> _Box:
        """The rows of a transfer, or the entries of a single row."""
        fields = op.instruction
        assert isinstance(fields, Load | Store)
        extents = []
        for axis in "yx":
            first = getattr(fields, f"{axis}_before", 0)
            end = first + getattr(fields, f"{axis}_size")
            extents.append((axis, first, end, end + getattr(fields, f"{axis}_after", 0)))
        (*rows, high), (*entries, wide) = extents
        buffer = fields.buffer if isinstance(fields, Load) else Buffer.OUT
        axis, first, end = rows if high > 1 else entries
        return _Box(
            op=op,
            axis=axis,
            blocks=fields.z_size,
            lines=high if high > 1 else wide,
            width=wide if high > 1 else 1,
            first=first,
            end=end,
            stride=fields.y_stride if high > 1 else config.entry_bytes[buffer] // config.axi_bytes,
        )

    def of_lines(self, entries: _Ints, values: _Ints, start: int) -> _Ints:
        """[block, line, entry]: the values of entries of the tile, `start` for all others."""
        result = np.full(self.blocks * self.lines * self.width, start, np.int64)
        at = entries - self.op.bases["sram"][1]
        inside = (at >= 0) & (at < len(result))
        result[at[inside]] = values[inside]
        return result.reshape(self.blocks, self.lines, self.width)

    def pieces(self, part: _Ints, count: int) -> list[tuple[MacroOp, ...]]:
        """The transfers of each of `count` parts; `part[block, line]` grows along the lines."""
        ends = (part[:, :, None] <= np.arange(count)).sum(axis=1)
        starts = np.pad(ends, ((0, 0), (1, 0)))[:, :-1]
        result = []
        for item in range(count):
            bounds = enumerate(zip(starts[:, item].tolist(), ends[:, item].tolist(), strict=True))
            result.append(tuple(self._piece(block, low, high) for block, (low, high) in bounds if low < high))
        return result

    def _piece(self, block: int, low: int, high: int) -> MacroOp:
        """The transfer of some lines of a block, with data among them."""
        fields = self.op.instruction
        assert isinstance(fields, Load | Store)
        changed: dict[str, Any] = {
            "z_size": 1,
            "z_stride": 0,
            f"{self.axis}_size": min(high, self.end) - max(low, self.first),
            "dram": fields.dram + block * fields.z_stride + max(0, low - self.first) * self.stride,
        }
        if isinstance(fields, Load):
            changed |= {f"{self.axis}_before": max(0, self.first - low), f"{self.axis}_after": max(0, high - self.end)}
        tile, offset = self.op.bases["sram"]
        bases: dict[str, Base] = {"sram": (tile, offset + (block * self.lines + low) * self.width)}
        return replace(self.op, instruction=_plain(replace(fields, **changed)), bases=bases)


def _plain(fields: Load | Store) -> Load | Store:
    """`fields` with a padding value of 0 if the transfer has no padding, so that equal transfers
    compare equal.
    """
    if isinstance(fields, Store) or any((fields.y_before, fields.y_after, fields.x_before, fields.x_after)):
        return fields
    return replace(fields, pad_value=0)


def _loads(config: Config, load: MacroOp, parts: Sequence[MacroOp]) -> list[tuple[MacroOp, ...]]:
    """The lines that each part is the first to need; the last part loads those that none needs."""
    box, last = _Box.of(config, load), len(parts) - 1
    entries = [_entries(config, part, "src").ravel() for part in reversed(parts)]  # the first part writes last
    numbers = np.repeat(np.arange(last, -1, -1), [len(entry) for entry in entries])
    needed = box.of_lines(np.concatenate(entries), numbers, last).min(axis=2)
    needed = np.minimum.accumulate(needed[:, ::-1], axis=1)[:, ::-1].copy()
    # Padding goes with the data beside it: a LOAD of padding alone would have no address.
    needed[:, : box.first + 1] = needed[:, :1]
    needed[:, box.end - 1 :] = needed[:, box.end - 1 : box.end]
    return box.pieces(needed, len(parts))


def _stores(config: Config, store: MacroOp, parts: Sequence[MacroOp]) -> list[tuple[MacroOp, ...]]:
    """The lines that are complete after each part; what none of them emits was emitted before."""
    box = _Box.of(config, store)
    entries = [_entries(config, part, "out").ravel() for part in parts]
    numbers = np.repeat(np.arange(len(parts)), [len(entry) for entry in entries])
    complete = box.of_lines(np.concatenate(entries), numbers, 0).max(axis=2)
    return box.pieces(np.maximum.accumulate(complete, axis=1), len(parts))
