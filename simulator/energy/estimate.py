# SPDX-License-Identifier: Apache-2.0
"""Estimates of energy: counted events times the coefficients of a table, with a range.

The bounds of all events add up, as if all coefficients were wrong in the same direction. Clock
trees, registers, control and wires are in no published table, nor in these figures.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

from vdla.hardware.config import Config
from vdla.simulator.energy.accelergy import PricedEvent, accelergy_document, yaml_lines
from vdla.simulator.energy.activity import event_dicts
from vdla.simulator.energy.coefficients import TABLES
from vdla.simulator.energy.event import EventCounts
from vdla.simulator.energy.table import EnergyError, EnergyTable, load_table
from vdla.support.suggest import did_you_mean

STATIC = "static"
TableSource = str | PathLike[str] | EnergyTable
"""How coefficients are named, as `energy_table` takes them."""
_UNITS = ((1e12, "J"), (1e9, "mJ"), (1e6, "uJ"), (1e3, "nJ"), (1.0, "pJ"))


@dataclass(frozen=True, slots=True)
class Picojoules:
    """An estimate and its bounds."""

    low: float
    middle: float
    high: float

    def __str__(self) -> str:
        return f"{self.amount} estimated ({self.bounds})"

    @property
    def amount(self) -> str:
        """The estimate with its unit, for tables whose headings say that it is one."""
        unit, name = self._unit
        return f"{_digits(self.middle / unit)} {name}"

    @property
    def bounds(self) -> str:
        """The bounds in the unit of the estimate."""
        unit, _ = self._unit
        return f"{_digits(self.low / unit)} to {_digits(self.high / unit)}"

    @property
    def _unit(self) -> tuple[float, str]:
        return next((item for item in _UNITS if self.middle >= item[0]), _UNITS[-1])

    def __add__(self, other: Picojoules) -> Picojoules:
        return Picojoules(self.low + other.low, self.middle + other.middle, self.high + other.high)

    def __mul__(self, count: float) -> Picojoules:
        return Picojoules(self.low * count, self.middle * count, self.high * count)

    def to_dict(self) -> dict[str, float]:
        """In picojoules."""
        return {"estimated_pj": self.middle, "low_pj": self.low, "high_pj": self.high}


def _digits(value: float) -> str:
    """Three digits, without an exponent."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


NOTHING = Picojoules(0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Energy:
    """The estimated energy of events by part of a machine, and the events without a price."""

    config: Config = field(repr=False)
    table: EnergyTable
    parts: Mapping[str, Picojoules]
    counts: EventCounts = field(repr=False)
    unpriced: EventCounts = field(repr=False)

    @property
    def total(self) -> Picojoules:
        """Of all parts."""
        return sum(self.parts.values(), NOTHING)

    def __str__(self) -> str:
        return f"{self.total} by {self.table.name}"

    def to_dict(self) -> dict[str, Any]:
        """As JSON-compatible values, with the counts and the name of the coefficients."""
        return {
            "coefficients": self.table.name,
            "source": self.table.source,
            **self.total.to_dict(),
            "parts": {part: energy.to_dict() for part, energy in self.parts.items()},
            "events": event_dicts(self.counts),
            "without_coefficient": sorted({str(event) for event in self.unpriced}),
        }

    def to_accelergy(self) -> str:
        """The counts, the picojoules of each event and of each part as YAML in the form of
        Accelergy's files, with comments on the source and the error; events without a price are in
        a comment alone.
        """
        lines = [
            f"# estimated: {self}",
            f"# {self.table.source}; picojoules, those on the chip within a factor of {self.table.error:g}",
        ]
        if self.unpriced:
            lines.append(f"# without a coefficient, in no table: {', '.join(sorted(map(str, self.unpriced)))}")
        parts = {part: energy.middle for part, energy in self.parts.items()}
        document = accelergy_document(self.config.name, self._priced(), parts)
        return "\n".join([*lines, *yaml_lines(document)]) + "\n"

    def _priced(self) -> Iterator[PricedEvent]:
        """The events that have a price, in order."""
        for event, count in sorted(self.counts.items(), key=lambda item: (item[0].part, str(item[0]))):
            price = self.table.picojoules(event, self.config)
            if price is not None:
                yield PricedEvent(event, count, price[1])


def energy_of(counts: EventCounts, config: Config, table: EnergyTable, cycles: float = 0) -> Energy:
    """The estimate of counted events of a machine, and of its static power over `cycles`."""
    parts: dict[str, Picojoules] = {}
    unpriced: EventCounts = {}
    for event, count in counts.items():
        price = table.picojoules(event, config)
        if price is None:
            unpriced[event] = count
        else:
            parts[event.part] = parts.get(event.part, NOTHING) + Picojoules(*price) * count
    if table.static_mw and cycles:
        energy = 1000 * table.static_mw * cycles / config.clock_mhz  # 1 mW for 1 us is 1000 pJ
        parts[STATIC] = Picojoules(energy / table.error, energy, energy * table.error)
    return Energy(config, table, dict(sorted(parts.items())), dict(counts), unpriced)


def summed_energy(energies: Iterable[Energy]) -> Energy:
    """Of at least one estimate of a machine by one table."""
    given = list(energies)
    parts: dict[str, Picojoules] = {}
    counts: EventCounts = {}
    unpriced: EventCounts = {}
    for energy in given:
        for part, one in energy.parts.items():
            parts[part] = parts.get(part, NOTHING) + one
        for total, some in ((counts, energy.counts), (unpriced, energy.unpriced)):
            for event, count in some.items():
                total[event] = total.get(event, 0) + count
    return Energy(given[0].config, given[0].table, parts, counts, unpriced)


def energy_table(given: TableSource) -> EnergyTable:
    """A table by its name, or in a JSON file; EnergyError where it is neither."""
    if isinstance(given, EnergyTable):
        return given
    name = str(given)
    if name in TABLES:
        return TABLES[name]
    if not name.endswith(".json"):
        known = ", ".join(TABLES)
        raise EnergyError(
            f"energy: coefficients must be one of {known} or a .json file, got {name}{did_you_mean(name, TABLES)}"
        )
    return load_table(name)
