"""Where an intrinsic of any target applies: which axes of an expression can be its axes.

Whether tensors then lie as its operands need is a matter of packing, and of the schedule.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from vdla.compiler import te
from vdla.compiler.map.computation import Computation, contractions
from vdla.compiler.map.cores import Core
from vdla.compiler.map.element_wise import element_wise
from vdla.compiler.map.errors import MapError
from vdla.compiler.map.expression_parts import sums_of, viewed
from vdla.compiler.map.mapping import Groups, Mapping, intrinsic_extents, signature_groups, subsets
from vdla.compiler.tensorize import Intrinsic


@dataclass(frozen=True, slots=True)
class Applications:
    """The ways to apply an intrinsic, that which uses most of its lanes first; where there are
    none, `reason` is the first thing that differs.
    """

    found: tuple[Mapping, ...]
    reason: str | None = None

    def __bool__(self) -> bool:
        return bool(self.found)


def applications(output: te.Tensor, intrinsic: Intrinsic) -> Applications:
    """How `intrinsic` can compute a plain expression, or its sums where it has an epilogue."""
    core = Core(intrinsic, intrinsic)
    sums = sums_of(viewed(output)[0])
    try:
        computations = list(contractions(sums, core)) if core.is_only_step else [element_wise(sums, [core])[1]]
    except MapError as error:
        return Applications((), str(error))
    found = [Mapping(each, groups) for each in computations for groups in _groups(each, core)]
    return Applications(tuple(sorted(found, key=lambda mapping: -mapping.used)))


def _groups(computation: Computation, core: Core) -> Iterator[Groups]:
    """The axes that can become each axis of the intrinsic; of lanes alone, the last one has any."""
    if core.is_only_step:
        yield from signature_groups(computation, core)
        return
    *others, lanes = intrinsic_extents(core.pattern)
    for chosen in subsets([axis for axis, extent in computation.spatial.items() if extent > 1]):
        yield {**dict.fromkeys(others, ()), lanes: chosen}
