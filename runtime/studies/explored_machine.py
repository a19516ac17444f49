# SPDX-License-Identifier: Apache-2.0
"""A machine of a sweep: its point, what it takes of a part, its clock, the cycles of all layers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from vdla.compiler.tune import Point
from vdla.hardware.config import Config
from vdla.hardware.fpga.area import LIMITED, Usage, area, cached_area
from vdla.hardware.fpga.area_model import estimated_usage
from vdla.hardware.fpga.clock import estimated_clock_mhz
from vdla.hardware.fpga.parts import FpgaPart
from vdla.support.errors import Error
from vdla.support.progress import Progress

if TYPE_CHECKING:
    from vdla.simulator.energy import Picojoules

GIVEN, ESTIMATED = CLOCKS = ("given", "estimated")
"""Which clock a machine gets: that of its preset, or less where a known path is longer; or that of
its longest path.
"""


@dataclass(frozen=True, slots=True)
class MachineArea:
    """What a machine takes of a part: synthesised, or by the model. It is not `complete` without
    what the machine's extensions add, which the model does not know. `clock_mhz` is estimated from
    the longest path, or that of the preset.
    """

    usage: Usage
    synthesised: bool
    clock_mhz: float
    complete: bool = True
    clock_estimated: bool = False


@dataclass(frozen=True, slots=True)
class ExploredMachine:
    """A machine of a sweep; one with a reason was rejected, one without cycles was not measured.

    `energy` is that of a frame, where coefficients were given.
    """

    point: Point
    area: MachineArea | None
    cycles: float | None = None
    reason: str = ""
    energy: Picojoules | None = None

    @property
    def frames_per_second(self) -> float:
        """Runs of all layers a second, at the clock that the machine is estimated to hold."""
        return 0.0 if self.area is None or not self.cycles else self.area.clock_mhz * 1e6 / self.cycles

    def to_dict(self) -> dict[str, Any]:
        """As JSON-compatible values; what it does not have is null."""
        area = self.area
        return {
            "point": dict(self.point),
            "cycles": self.cycles,
            "frames_per_second": self.frames_per_second or None,
            "usage": None if area is None else asdict(area.usage),
            "synthesised": area is not None and area.synthesised,
            "complete": area is not None and area.complete,
            "clock_mhz": None if area is None else area.clock_mhz,
            "clock_estimated": area is not None and area.clock_estimated,
            "rejected": self.reason or None,
        }


def area_on(config: Config, part: FpgaPart, clock: str = GIVEN, progress: Progress | None = None) -> MachineArea:
    """Known from synthesis, with a clock by its longest path; else by the model, with that of the
    preset. With `progress`, a machine that is not known is synthesised.
    """
    try:
        known = cached_area(config, part) if progress is None else area(config, part, progress)
    except Error:  # no Yosys, or an extension without a datapath
        known = None
    if known is None:
        complete = not config.extensions and config.stage is None
        return MachineArea(estimated_usage(config, part), False, config.clock_mhz, complete)
    most = estimated_clock_mhz(known)
    return MachineArea(
        usage=known.total,
        synthesised=True,
        clock_mhz=most if clock == ESTIMATED else min(config.clock_mhz, most),
        clock_estimated=clock == ESTIMATED or most < config.clock_mhz,
    )


def excess(usage: Usage, part: FpgaPart) -> Iterator[str]:
    """Which resources a part has too few of."""
    for resource in LIMITED:
        used, available = getattr(usage, resource), getattr(part, resource)
        if used > available:
            yield f"{part.name} has {available:,} {resource}, needed are {used:,g}"
