# SPDX-License-Identifier: Apache-2.0
"""The state of a random program under construction: what was written so far.

Invariant: an instruction is admitted only if it stays inside its buffers and tensors and reads only
written entries and beats, so that every prefix is a well-defined program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from vdla.compiler.codegen.vdla import Touch, UnitOp
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import (
    COL,
    EXTENSION,
    Footprints,
    Instruction,
    Load,
    Opcode,
    PlugInState,
    Store,
    Unit,
    UopOffsets,
    instruction_columns,
    unit_of,
)
from vdla.support.arrays import Bools, Ints

Mask = Bools
Interval = tuple[int, int]

PLACE_ATTEMPTS = 8
MOST_PLACED = 1 << 15
"""The most iterations of an instruction whose loop factors may be non-zero."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """An instruction without tokens, and the tensor to which its `dram` field is relative."""

    instruction: Instruction
    tensor: str | None = None


@dataclass
class RandomState:
    """`sizes`: beats of each tensor; `stored`: masks of the written beats of output tensors."""

    config: Config
    rng: np.random.Generator
    sizes: dict[str, int]
    table: Ints
    stored: dict[str, Mask] = field(default_factory=dict)
    drawn: list[Drawn] = field(default_factory=list)
    steps: list[UnitOp] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.footprints = Footprints(self.config)
        self.written = {buffer: np.zeros(depth, np.bool_) for buffer, depth in enumerate(self.config.depths)}
        self.uops = np.zeros((self.config.uop_depth, 5), np.int64)
        self.held: dict[PlugInState, Mask] = {}  # the written rows of private states
        self._kernels: dict[bytes, UopOffsets] = {}

    # --- drawing

    def one(self, choices: Sequence[int]) -> int:
        """One of the choices, at random."""
        return int(choices[int(self.rng.integers(len(choices)))])

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return bool(self.rng.random() < probability)

    def below(self, count: int) -> int:
        """0, the last or any of `count` values."""
        return self.one((0, count - 1, int(self.rng.integers(count))))

    def interval(self, mask: Mask, least: int = 1) -> Interval | None:
        """A random run of at least `least` true entries, or None."""
        result = [run for run in intervals(mask) if run[1] - run[0] >= least]
        return result[int(self.rng.integers(len(result)))] if result else None

    def place(
        self, offsets: Ints, loops: tuple[int, int], limit: int, high: int, allowed: Mask | None
    ) -> tuple[int, int, int] | None:
        """(base, factors) of an index below `limit` on `allowed` entries; None if no draw fits."""
        last = int(offsets.max())
        for _ in range(PLACE_ATTEMPTS):
            factors = [self._factor(loop, limit, high, len(offsets) * loops[0] * loops[1]) for loop in loops]
            if last + sum((loop - 1) * factor for loop, factor in zip(loops, factors, strict=True)) >= limit:
                continue
            base = self._base(_reach(offsets, loops, factors), limit, allowed)
            if base is not None:
                return base, factors[0], factors[1]
        return None

    def _factor(self, loop: int, limit: int, high: int, iterations: int) -> int:
        if loop == 1:
            return self.one((0, 1, high, int(self.rng.integers(high + 1))))
        most = (limit - 1) // (loop - 1) if iterations <= MOST_PLACED else 0
        return min(self.one((0, 0, 1, 1, 2, 3, 4, most)), most)

    def _base(self, reach: Ints, limit: int, allowed: Mask | None) -> int | None:
        room = limit - int(reach[-1])
        if allowed is None:
            return self.below(room)
        run = self.interval(allowed)
        if run is None:
            return None
        first, last = run[0] - int(reach[0]), min(run[1], limit) - 1 - int(reach[-1])
        candidates = [first, last, int(self.rng.integers(min(first, last), max(first, last) + 1))]
        fitting = [base for base in candidates if 0 <= base < room and bool(allowed[base + reach].all())]
        return self.one(fitting) if fitting else None

    # --- admission

    def admit(self, drawn: Drawn) -> bool:
        """Appends the instruction if it is valid at this point; returns whether it was."""
        row = self._row(drawn)
        touches = self._touches(row, drawn)
        if touches is None:
            return False
        for access in self.footprints.state_accesses(row, self._kernel(row)):
            if access.writes:
                self.rows(access.state)[access.where] = True
        for touch in touches:
            if touch.writes:
                self._mask(touch)[touch.where] = True
        self._load_uops(drawn)
        self.drawn.append(drawn)
        self.steps.append(UnitOp(Unit(unit_of(drawn.instruction)), tuple(touches)))
        return True

    def admissible(self, drawn: Drawn, row: list[int]) -> bool:
        """Whether an instruction is valid at this point; `row` has its columns."""
        return self._touches(row, drawn) is not None

    def _row(self, drawn: Drawn) -> list[int]:
        row: list[int] = instruction_columns(self.config, [drawn.instruction])[0].tolist()
        return row

    def _touches(self, row: list[int], drawn: Drawn) -> list[Touch] | None:
        """What an instruction touches; None if it is not valid at this point."""
        if row[COL["uop_end"]] > self.config.uop_depth:
            return None
        kernel = self._kernel(row)
        if kernel is None and row[COL["opcode"]] in (Opcode.GEMM, Opcode.VECTOR, EXTENSION):
            return None
        if self.footprints.excess(row, kernel) or self._leaves_dram(row, drawn):
            return None
        accesses = self.footprints.accesses(row, kernel)
        touches = [
            Touch(access.buffer, access.where, access.writes) for access in accesses if access.buffer is not None
        ]
        touches += self._in_dram(row, drawn)
        if not all(touch.writes or self._mask(touch)[touch.where].all() for touch in touches):
            return None
        return touches if self._reads_written_rows(row, kernel) else None

    def unwritten(self, drawn: Drawn) -> dict[Buffer, Mask]:
        """The entries of each buffer that an instruction reads and nothing has written."""
        row = self._row(drawn)
        masks: dict[Buffer, Mask] = {}
        for access in self.footprints.accesses(row, self._kernel(row)):
            if access.buffer is not None and not access.writes:
                mask = masks.setdefault(access.buffer, np.zeros_like(self.written[access.buffer]))
                mask[access.where] = ~self.written[access.buffer][access.where]
        return masks

    def rows(self, held: PlugInState) -> Mask:
        """The rows of a private state that were written."""
        return self.held.setdefault(held, np.zeros(held.rows, np.bool_))

    def _reads_written_rows(self, row: Sequence[int], kernel: UopOffsets | None) -> bool:
        """Whether an instruction reads rows of private states only that were written."""
        accesses = self.footprints.state_accesses(row, kernel)
        return all(access.writes or self.rows(access.state)[access.where].all() for access in accesses)

    def _mask(self, touch: Touch) -> Mask:
        return self.written[touch.space] if isinstance(touch.space, Buffer) else self.stored[str(touch.space)]

    def _kernel(self, row: Sequence[int]) -> UopOffsets | None:
        part = slice(row[COL["uop_begin"]], row[COL["uop_end"]])
        if part.stop == 0 or not self.written[Buffer.UOP][part].all():
            return None
        content = self.uops[part].copy()
        return self._kernels.setdefault(content.tobytes(), UopOffsets(content))

    def _leaves_dram(self, row: Sequence[int], drawn: Drawn) -> bool:
        if drawn.tensor is None:
            return False
        return self.footprints.dram_excess(row, self.sizes[drawn.tensor], drawn.tensor) is not None

    def _in_dram(self, row: Sequence[int], drawn: Drawn) -> list[Touch]:
        if drawn.tensor not in self.stored:
            return []
        return [Touch(drawn.tensor, self.footprints.beats(row), isinstance(drawn.instruction, Store))]

    def _load_uops(self, drawn: Drawn) -> None:
        load = drawn.instruction
        if not isinstance(load, Load) or load.buffer != Buffer.UOP:
            return
        beats = self.config.uop_entry_bytes // self.config.axi_bytes
        rows = np.add.outer(np.arange(load.z_size) * load.z_stride, np.arange(load.y_size) * load.y_stride).ravel()
        entries = np.add.outer((load.dram + rows) // beats, np.arange(load.x_size)).ravel()
        self.uops[load.sram : load.sram + len(entries)] = self.table[entries]


def intervals(mask: Mask) -> list[Interval]:
    """The runs of true entries as half-open intervals."""
    padded = np.zeros(len(mask) + 2, np.bool_)
    padded[1:-1] = mask
    edges = np.flatnonzero(padded[1:] != padded[:-1]).tolist()
    return list(zip(edges[::2], edges[1::2], strict=True))


def _reach(offsets: Ints, loops: tuple[int, int], factors: Sequence[int]) -> Ints:
    """The sorted offsets that an index reaches from its base."""
    reach = offsets
    for loop, factor in zip(loops, factors, strict=True):
        if loop > 1 and factor:
            reach = np.unique(np.add.outer(np.arange(loop, dtype=np.int64) * factor, reach))
    return np.unique(reach)
