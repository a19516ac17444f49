# SPDX-License-Identifier: Apache-2.0
"""The contents of storage that buffers share, checked after a function is lowered.

Only buffers computed in place share storage. An operation in place is valid only if its operand has
been computed since the last one; any other reader, only if its operand has not been overwritten.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from vdla.compiler.codegen.vdla.foldable import FoldableNest
from vdla.compiler.codegen.vdla.macro_op import BufferTile, Offset
from vdla.compiler.codegen.vdla.nest import EntryAccess, Loop, TensorizedNest
from vdla.compiler.codegen.vdla.tiles import LoweringError, TilePlan
from vdla.hardware import isa

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class StorageStep:
    """An access of a block to shared storage.

    A write makes the entries hold `buffer`; a read needs them to hold it. `entries` are sorted and
    relative to a base; `repeated` says that a read that may read each entry only once reads one
    twice.
    """

    block: str
    buffer: str
    tile: BufferTile
    writes: bool
    entries: Ints
    repeated: bool = False


class SharedStorage:
    """The buffer whose result each entry of the shared tiles holds."""

    def __init__(self, function: str, plans: Mapping[str, TilePlan]) -> None:
        self.function = function
        sharers = Counter(plan.owner for plan in plans.values())
        self._shared = [name for name in plans if sharers[plans[name].owner] > 1]

    def steps(self, foldable: FoldableNest, nest: TensorizedNest) -> Iterator[tuple[StorageStep, Offset]]:
        """The accesses of a nest and its epilogue to shared storage, each with its base."""
        if not self._shared:
            return
        yield from self._accesses(foldable, nest.access, nest.loops)
        if foldable.epilogue is not None and nest.epilogue is not None:
            spatial = tuple(loop for loop in nest.loops if not loop.reduce)
            yield from self._accesses(foldable.epilogue, nest.epilogue.access, spatial)

    def check(self, steps: Sequence[StorageStep], step: Ints, base: Ints) -> None:
        """Check the accesses in program order: row `i` is `steps[step[i]]` at `base[i]`.

        Raises:
            LoweringError: an operand has been overwritten, or is overwritten more than once.
        """
        repeated = np.array([s.repeated for s in steps], np.bool_)[step]
        bad = [np.flatnonzero(repeated)]
        tiles = [s.tile for s in steps]
        for tile in dict.fromkeys(tiles):
            rows = np.flatnonzero(np.array([t == tile for t in tiles], np.bool_)[step])
            bad.append(rows[self._overwritten(steps, step[rows], base[rows])])
        for row in np.unique(np.concatenate(bad))[:1]:
            first = steps[step[row]]
            raise LoweringError(
                f"{self.function}: block {first.block} must read each part of {first.buffer} before it is "
                "overwritten in place, got a part that is overwritten already; compute both at one loop"
            )

    def _accesses(
        self, foldable: FoldableNest, accesses: Mapping[str, EntryAccess], loops: tuple[Loop, ...]
    ) -> Iterator[tuple[StorageStep, Offset]]:
        """The reads, then the write."""
        intrinsic = foldable.block.match.intrinsic
        output = intrinsic.output.name
        for operand in sorted(accesses, key=lambda operand: operand == output):
            buffer, access = foldable.block.match.buffers[operand], accesses[operand]
            if buffer not in self._shared:
                continue
            assert isinstance(access.place, BufferTile)
            entries = _relative(access, loops)
            unique = np.unique(entries)
            yield (
                StorageStep(
                    block=foldable.block.name,
                    buffer=buffer,
                    tile=access.place,
                    writes=operand == output,
                    entries=unique,
                    repeated=operand == intrinsic.in_place and len(unique) < len(entries),
                ),
                access.base,
            )

    def _overwritten(self, steps: Sequence[StorageStep], step: Ints, base: Ints) -> Ints:
        """The reads of entries of one tile that do not hold the buffer that they need."""
        places, which = isa.Places.distinct([s.entries for s in steps], step, base)
        row, _, first = isa.partition(places).histories(which)
        holds = np.array([self._shared.index(s.buffer) for s in steps])[step[row]]
        writes = np.array([s.writes for s in steps])[step[row]]
        at = np.where(writes, np.arange(len(row)), -1)
        last = np.maximum.accumulate(at)
        previous = np.where(last >= first, holds[last], -1)
        return np.unique(row[~writes & (previous != holds)])


def _relative(access: EntryAccess, loops: tuple[Loop, ...]) -> Ints:
    """The entries that the loops access, from the base."""
    shape = tuple(loop.extent for loop in loops)
    grid = np.indices(shape).reshape(len(shape), prod(shape))
    point = {loop.var: grid[position] for position, loop in enumerate(loops)}
    return np.broadcast_to(access.relative(point), prod(shape))
