"""What limits a layer: the steps that its loop nest needs, or the bytes that it reads or writes.

Each is a number of cycles below which no program can be that moves as many bytes; the largest is
the bound.
"""

from __future__ import annotations

from dataclasses import dataclass

from vdla.hardware.config import Config
from vdla.runtime.verdict.measure import LayerCost
from vdla.runtime.verdict.verdict import ExtensionVerdict


@dataclass(frozen=True, slots=True)
class Bound:
    """The bound in cycles and what sets it: compute, reads or writes."""

    cycles: float
    by: str


@dataclass(frozen=True, slots=True)
class Point:
    """A layer or a network on a machine, as a roofline shows it; a step is two operations."""

    steps: float
    cycles: float
    bytes_read: float
    bytes_written: float

    @property
    def intensity(self) -> float:
        """Operations a byte of the busier direction: reads and writes have a channel each."""
        return 2 * self.steps / max(1.0, self.bytes_read, self.bytes_written)

    def gops(self, config: Config) -> float:
        """Operations a second, in 1e9."""
        return 2 * self.steps / self.cycles * config.clock_mhz / 1000

    def bandwidth(self) -> float:
        """Bytes a cycle, of both directions."""
        return (self.bytes_read + self.bytes_written) / self.cycles

    def bound(self, steps_a_cycle: float, config: Config) -> Bound:
        """The bound on a machine of so many steps a cycle."""
        limits = {
            "compute": self.steps / steps_a_cycle,
            "reads": self.bytes_read / config.peak_bytes_per_cycle,
            "writes": self.bytes_written / config.peak_bytes_per_cycle,
        }
        by = max(limits, key=limits.__getitem__)
        return Bound(limits[by], by)


def point_of(steps: float, measurement: LayerCost) -> Point:
    """The point of a layer."""
    return Point(steps, measurement.cycles, measurement.bytes_read, measurement.bytes_written)


def network_point(verdict: ExtensionVerdict, after: bool) -> Point | None:
    """The point of all layers that both machines run; None where there is none."""
    if not verdict.compared:
        return None
    return Point(
        steps=sum(layer.count * (layer.chosen_steps if after else layer.steps_before) for layer in verdict.compared),
        cycles=verdict.total(lambda one: one.cycles, after),
        bytes_read=verdict.total(lambda one: one.bytes_read, after),
        bytes_written=verdict.total(lambda one: one.bytes_written, after),
    )
