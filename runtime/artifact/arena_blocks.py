"""Where and while each value of a plan lies in the arena."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from vdla.runtime.artifact.dtypes import size_bytes
from vdla.runtime.artifact.plan import Plan, PlannedValue


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
