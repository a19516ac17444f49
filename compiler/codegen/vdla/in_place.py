"""What shared storage holds while a function is lowered: each entry the last result computed there.

Only buffers that are computed in place share storage. An operation in place is right only where its operand has been
computed since the last one, and a reader only where nothing has been computed on top of what it wants.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import prod

import numpy as np
import numpy.typing as npt

from vdla.compiler.codegen.vdla.errors import LoweringError
from vdla.compiler.codegen.vdla.foldable import Leaf
from vdla.compiler.codegen.vdla.macro_op import Tile
from vdla.compiler.codegen.vdla.nest import Access, Loop, Nest
from vdla.compiler.codegen.vdla.tiles import TilePlan


class Contents:
    """The buffers whose results are in the entries of shared tiles."""

    def __init__(self, function: str, plans: Mapping[str, TilePlan]) -> None:
        self.function = function
        sharers = Counter(plan.owner for plan in plans.values())
        self._shared = {name: number for number, name in enumerate(plans) if sharers[plans[name].owner] > 1}
        self._held: dict[Tile, npt.NDArray[np.int64]] = {}

    def run(self, leaf: Leaf, nest: Nest) -> None:
        """Check what a nest and its epilogue read, and note what it writes.

        Raises:
            LoweringError: an operand in place has been overwritten, or would be more than once.
        """
        if not self._shared:
            return
        self._step(leaf, nest.access, nest.loops)
        if leaf.epilogue is not None and nest.epilogue is not None:
            kept = tuple(loop for loop in nest.loops if not loop.reduce)
            self._step(leaf.epilogue, nest.epilogue.access, kept)

    def _step(self, leaf: Leaf, accesses: Mapping[str, Access], loops: tuple[Loop, ...]) -> None:
        output, in_place = leaf.site.match.intrinsic.output.name, leaf.site.match.intrinsic.in_place
        for operand, access in accesses.items():
            if operand != output:
                self._read(leaf, operand, access, loops, operand == in_place)
        if output in accesses and leaf.site.output in self._shared:
            held, entries = self._entries(accesses[output], loops)
            held[entries] = self._shared[leaf.site.output]

    def _read(self, leaf: Leaf, operand: str, access: Access, loops: tuple[Loop, ...], once: bool) -> None:
        buffer = leaf.site.match.buffers[operand]
        if buffer not in self._shared:
            return
        held, entries = self._entries(access, loops)
        if (held[entries] != self._shared[buffer]).any() or (once and len(np.unique(entries)) < len(entries)):
            raise LoweringError(
                f"{self.function}: block {leaf.site.block.name} must read each part of {buffer} before it is "
                "overwritten in place, got a part that is overwritten already; compute both at one loop"
            )

    def _entries(self, access: Access, loops: tuple[Loop, ...]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """What the tile holds, and the entries that the loops reach."""
        assert isinstance(access.place, Tile)
        held = self._held.setdefault(access.place, np.full(access.place.entries, -1))
        shape = tuple(loop.extent for loop in loops)
        grid = np.indices(shape).reshape(len(shape), prod(shape))
        point = {loop.var: grid[position] for position, loop in enumerate(loops)}
        return held, np.broadcast_to(access.at(point), prod(shape))
