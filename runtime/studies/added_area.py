# SPDX-License-Identifier: Apache-2.0
"""The area that an extension adds: the difference between the machines with and without it.

Synthesis takes about a minute for each machine, so it is done only on request; results are cached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields

from vdla.hardware.config import Config
from vdla.hardware.fpga.area import LIMITED, Usage, area, cached_area
from vdla.hardware.fpga.parts import FpgaPart
from vdla.hardware.isa import PlugIn, PlugInStage
from vdla.support.errors import Error

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class AddedArea:
    """What is added on a part, or None and why it is not known. `excess` lists the resources that
    the part has too few of for the machine with the extension.
    """

    usage: Usage | None
    reason: str = ""
    excess: tuple[str, ...] = ()


def added_area(
    before: Config,
    after: Config,
    added: tuple[PlugIn | PlugInStage, ...],
    part: FpgaPart,
    progress: Progress | None = None,
) -> AddedArea:
    """The difference of two machines, synthesised where `progress` is given and it is not known."""
    missing = [part.name for part in added if part.datapath is None]
    if missing:
        return AddedArea(None, f"a what-if without a datapath of {', '.join(missing)}")
    try:
        if progress is None:
            areas = [cached_area(config, part) for config in (before, after)]
        else:
            areas = [area(config, part, progress) for config in (before, after)]
    except Error as error:
        return AddedArea(None, str(error))
    if areas[0] is None or areas[1] is None:
        return AddedArea(None, "not synthesised yet (--area)")
    return AddedArea(_less(areas[1].total, areas[0].total), excess=tuple(_excess(areas[1].total, part)))


def _excess(usage: Usage, part: FpgaPart) -> Iterator[str]:
    for resource in LIMITED:
        used, available = getattr(usage, resource), getattr(part, resource)
        if used > available:
            yield f"{used:,g} of {available:,} {resource}"


def _less(one: Usage, other: Usage) -> Usage:
    return Usage(*(getattr(one, field.name) - getattr(other, field.name) for field in fields(Usage)))
