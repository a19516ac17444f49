# SPDX-License-Identifier: Apache-2.0
"""The memory of the arena: where each value lies and while what runs; memory without a value
overwritten, so that a read of it shows in the results.

Floats become NaN and integers large. A value that a plan places over a live one is found as well:
the end of one overwrites the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from vdla.runtime.executor.grid_executor import DeviceArrays, GridExecutor
from vdla.runtime.executor.plan import DeviceValue, Plan, PlannedValue, size_bytes


@dataclass(frozen=True, slots=True)
class ArenaBlock:
    """The bytes `start..end` of the arena hold `name` from step `first` to step `last`."""

    name: str
    start: int
    end: int
    first: int
    last: int


def arena_blocks(plan: Plan, kind: type[PlannedValue] = PlannedValue) -> Iterator[ArenaBlock]:
    """The values with bytes of their own; inputs live from step -1, outputs to the end.

    Those of the host's arena, or with the kind DeviceValue, those of the GPU's.
    """
    source = {name: value.alias_of or name for name, value in plan.values.items()}
    first = {source.get(name, name): -1 for name in plan.inputs}
    last = {source.get(name, name): len(plan.steps) for name in plan.outputs}
    for index, step in enumerate(plan.steps):
        for name in filter(None, step.outputs):
            first.setdefault(source.get(name, name), index)
        for name in filter(None, (*step.inputs, *step.outputs)):
            root = source.get(name, name)
            last[root] = max(last.get(root, index), index)
    for name, value in plan.values.items():
        if (
            type(value) is kind
            and value.alias_of is None
            and value.offset is not None
            and value.shape is not None
            and name in first
        ):
            end = value.offset + size_bytes(value.dtype, value.shape)
            yield ArenaBlock(name, value.offset, end, first[name], last.get(name, first[name]))


_NAN, _LARGE = 0xFF, 0x7F  # bytes that are a NaN of every width, and a large integer of every width

Overwrite = Callable[[], object]


class Poison:
    """What overwrites the values of a plan, by the last step at which they are live."""

    def __init__(
        self, plan: Plan, arena: npt.NDArray[np.uint8], on_device: DeviceArrays, grid: GridExecutor | None
    ) -> None:
        self._plan, self._arena, self._on_device, self._grid = plan, arena, on_device, grid
        self._by_last: dict[int, list[Overwrite]] = {}
        for kind in (PlannedValue, DeviceValue):
            for block in arena_blocks(plan, kind):
                self._by_last.setdefault(block.last, []).append(self._overwrite(block))

    def _overwrite(self, block: ArenaBlock) -> Overwrite:
        value = self._plan.values[block.name]
        byte = _NAN if "float" in value.dtype or "complex" in value.dtype else _LARGE
        if not isinstance(value, DeviceValue):
            return partial(self._arena[block.start : block.end].fill, byte)
        assert self._grid is not None
        content = np.full(block.end - block.start, byte, np.uint8)
        return partial(self._grid.stream.upload, content, self._on_device[block.name])

    def clear(self) -> None:
        """Overwrite everything, before a run."""
        self._arena.fill(_NAN)
        for overwrites in self._by_last.values():
            _call_all(overwrites)

    def between(self, calls: Sequence[Callable[[], object]]) -> list[Callable[[], object]]:
        """The calls of the steps, each after what the step before has read or written last."""
        return [partial(_called_after, self._by_last.get(index - 1, []), call) for index, call in enumerate(calls)]


def _called_after(overwrites: Sequence[Overwrite], call: Callable[[], object]) -> object:
    _call_all(overwrites)
    return call()


def _call_all(overwrites: Sequence[Overwrite]) -> None:
    for overwrite in overwrites:
        overwrite()
