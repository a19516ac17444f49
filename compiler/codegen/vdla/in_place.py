"""The contents of storage that buffers share, checked while a function is lowered.

Only buffers computed in place share storage. An operation in place is valid only if its operand has
been computed since the last one; any other reader, only if its operand has not been overwritten.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import prod

import numpy as np
import numpy.typing as npt

from vdla.compiler.codegen.vdla.errors import LoweringError
from vdla.compiler.codegen.vdla.foldable import FoldableNest
from vdla.compiler.codegen.vdla.macro_op import BufferTile
from vdla.compiler.codegen.vdla.nest import EntryAccess, Loop, TensorizedNest
from vdla.compiler.codegen.vdla.tiles import TilePlan


class SharedStorage:
    """The buffer whose result each entry of the shared tiles holds."""

    def __init__(self, function: str, plans: Mapping[str, TilePlan]) -> None:
        self.function = function
        sharers = Counter(plan.owner for plan in plans.values())
        self._shared = {name: number for number, name in enumerate(plans) if sharers[plans[name].owner] > 1}
        self._contents: dict[BufferTile, npt.NDArray[np.int64]] = {}

    def run(self, foldable: FoldableNest, nest: TensorizedNest) -> None:
        """Check the reads of a nest and its epilogue, and record their writes.

        Raises:
            LoweringError: an operand has been overwritten, or is overwritten more than once.
        """
        if not self._shared:
            return
        self._step(foldable, nest.access, nest.loops)
        if foldable.epilogue is not None and nest.epilogue is not None:
            spatial = tuple(loop for loop in nest.loops if not loop.reduce)
            self._step(foldable.epilogue, nest.epilogue.access, spatial)

    def _step(self, foldable: FoldableNest, accesses: Mapping[str, EntryAccess], loops: tuple[Loop, ...]) -> None:
        block, intrinsic = foldable.block, foldable.block.match.intrinsic
        output = intrinsic.output.name
        for operand, access in accesses.items():
            if operand != output:
                self._read(foldable, operand, access, loops, operand == intrinsic.in_place)
        if output in accesses and block.output in self._shared:
            contents, entries = self._entries(accesses[output], loops)
            contents[entries] = self._shared[block.output]

    def _read(
        self, foldable: FoldableNest, operand: str, access: EntryAccess, loops: tuple[Loop, ...], once: bool
    ) -> None:
        buffer = foldable.block.match.buffers[operand]
        if buffer not in self._shared:
            return
        contents, entries = self._entries(access, loops)
        if (contents[entries] != self._shared[buffer]).any() or (once and len(np.unique(entries)) < len(entries)):
            raise LoweringError(
                f"{self.function}: block {foldable.block.name} must read each part of {buffer} before it is "
                "overwritten in place, got a part that is overwritten already; compute both at one loop"
            )

    def _entries(
        self, access: EntryAccess, loops: tuple[Loop, ...]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The contents of the tile, and the entries that the loops access."""
        assert isinstance(access.place, BufferTile)
        contents = self._contents.setdefault(access.place, np.full(access.place.entries, -1))
        shape = tuple(loop.extent for loop in loops)
        grid = np.indices(shape).reshape(len(shape), prod(shape))
        point = {loop.var: grid[position] for position, loop in enumerate(loops)}
        return contents, np.broadcast_to(access.at(point), prod(shape))
