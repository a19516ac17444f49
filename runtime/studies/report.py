# SPDX-License-Identifier: Apache-2.0
"""A verdict as JSON-compatible values: all figures of every layer, and those of the network.

What bounds a layer is the steps that its loop nest needs, or the bytes that it reads or writes.
Each is a number of cycles below which no program can be that moves as many bytes; the largest is
the bound. A program is limited by its own steps instead where they take longer: with an interval, a
wait for the previous result or idle lanes.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from vdla.hardware.config import Config
from vdla.runtime.studies.measure import SEARCH, LayerCost, LayerOutcome
from vdla.runtime.studies.verdict import ExtensionVerdict, LayerVerdict


@dataclass(frozen=True, slots=True)
class Bound:
    """The bound in cycles and what sets it: compute, reads or writes."""

    cycles: float
    by: str


SERIAL = "steps"
"""The steps of a program, one after the other."""
_MUCH = 1.25
"""Cycles over a bound that take another cause than the bound."""


@dataclass(frozen=True, slots=True)
class Point:
    """A layer or a network on a machine, as a roofline shows it; a step is two operations, and
    `busy_cycles` are those in which the compute unit has steps.
    """

    steps: float
    cycles: float
    bytes_read: float
    bytes_written: float
    busy_cycles: float

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
        """The bound on a machine of `steps_a_cycle`."""
        limits = {
            "compute": self.steps / steps_a_cycle,
            "reads": self.bytes_read / config.peak_bytes_per_cycle,
            "writes": self.bytes_written / config.peak_bytes_per_cycle,
        }
        by = max(limits, key=limits.__getitem__)
        return Bound(limits[by], by)

    def limited_by(self, steps_a_cycle: float, config: Config) -> str:
        """What limits the program: the bound, or its own steps, one after the other, where they
        take longer than that and than the machine's rate allows.
        """
        bound = self.bound(steps_a_cycle, config)
        serial = self.busy_cycles > max(bound.cycles, _MUCH * self.steps / steps_a_cycle)
        return SERIAL if serial else bound.by

    def in_turns(self, steps_a_cycle: float, config: Config) -> bool:
        """Whether loads, steps and stores overlap little, as neither explains the cycles alone."""
        return self.cycles > _MUCH * max(self.bound(steps_a_cycle, config).cycles, self.busy_cycles)


def point_of(steps: float, measurement: LayerCost) -> Point:
    """The point of a layer."""
    moved = measurement.bytes_read, measurement.bytes_written
    return Point(steps, measurement.cycles, *moved, measurement.busy_cycles)


def network_point(verdict: ExtensionVerdict, after: bool) -> Point | None:
    """The point of all layers that both machines run, or None."""
    if not verdict.compared:
        return None
    return Point(
        steps=sum(layer.count * (layer.chosen_steps if after else layer.steps_before) for layer in verdict.compared),
        cycles=verdict.total(lambda one: one.cycles, after),
        bytes_read=verdict.total(lambda one: one.bytes_read, after),
        bytes_written=verdict.total(lambda one: one.bytes_written, after),
        busy_cycles=verdict.total(lambda one: one.busy_cycles, after),
    )


def report_of(verdict: ExtensionVerdict) -> dict[str, Any]:
    """The document; figures that do not exist are null."""
    before, after = verdict.before, verdict.after
    document = {
        "extensions": [plug_in.label for plug_in in verdict.added],
        "machine": before.name,
        "fingerprints": {"before": before.fingerprint, "after": after.fingerprint},
        "operands": {
            "before": [verdict.types_before.inp, verdict.types_before.wgt],
            "after": [verdict.types_after.inp, verdict.types_after.wgt],
        },
        "steps_a_cycle": {"before": verdict.steps_before, "after": verdict.steps_after},
        "tuned": {"trials": verdict.trials, "search": SEARCH if verdict.trials else None},
        "speedup": verdict.speedup,
        "most_speedup": verdict.most_speedup,
        "part": verdict.part.name,
        "area": {"reason": verdict.area.reason} if verdict.area.usage is None else asdict(verdict.area.usage),
        "area_excess": list(verdict.area.excess),
        "network": {"before": _network(verdict, after=False), "after": _network(verdict, after=True)},
        "accuracy": None if verdict.network is None else asdict(verdict.network),
        "layers": [_layer(verdict, layer) for layer in verdict.layers],
    }
    return document | ({} if verdict.energy is None else {"energy": verdict.energy.to_dict()})


def _network(verdict: ExtensionVerdict, after: bool) -> dict[str, Any] | None:
    point = network_point(verdict, after)
    if point is None:
        return None
    rate = verdict.steps_after if after else verdict.steps_before
    counted = {
        "instructions": verdict.total(lambda one: one.instructions, after),
        "stream_bytes": verdict.total(lambda one: one.stream_bytes, after),
    }
    return {"cycles": point.cycles, **counted, **_figures(point, rate, verdict.after)}


def _layer(verdict: ExtensionVerdict, layer: LayerVerdict) -> dict[str, Any]:
    error = layer.accuracy
    return {
        "layer": layer.name,
        "count": layer.count,
        "steps": layer.steps,
        "least_cycles": layer.least_cycles,
        "applies": layer.applies,
        "used": layer.helps,
        "speedup": layer.speedup,
        "baseline_error": layer.baseline_error,
        "before": _outcome(layer.before, layer.steps_before, verdict.steps_before, verdict.before),
        "after": _outcome(layer.after, layer.steps, verdict.steps_after, verdict.after),
        "error": None if error is None else {"before": error.before, "after": error.after},
    }


def _outcome(outcome: LayerOutcome, steps: int, rate: float, config: Config) -> dict[str, Any]:
    cost = outcome.cost
    if cost is None:
        return {"reason": outcome.reason}
    return {**_measured(cost), **_figures(point_of(steps, cost), rate, config)}


def _measured(cost: LayerCost) -> dict[str, Any]:
    return {
        "cycles": cost.cycles,
        "host_cycles": cost.host_cycles,
        "busy_cycles": cost.busy_cycles,
        "instructions": cost.instructions,
        "stream_bytes": cost.stream_bytes,
        "mapping": cost.mapping,
    }


def _figures(point: Point, rate: float, config: Config) -> dict[str, Any]:
    bound = point.bound(rate, config)
    return {
        "bytes_read": point.bytes_read,
        "bytes_written": point.bytes_written,
        "bytes_a_cycle": point.bandwidth(),
        "utilisation": point.steps / (rate * point.cycles),
        "operations_a_byte": point.intensity,
        "gops": point.gops(config),
        "bound_cycles": bound.cycles,
        "bound_by": bound.by,
        "limited_by": point.limited_by(rate, config),
        "in_turns": point.in_turns(rate, config),
    }
