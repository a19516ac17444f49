# SPDX-License-Identifier: Apache-2.0
"""Tables of coefficients: what an event costs, between the widths and sizes that a source gives.

Energies of operations follow a power of the width, those of memories a power of the size, through
the given points; beyond the outermost by the slope of the nearest two. A memory costs by bit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vdla.hardware.config import Buffer, Config
from vdla.simulator.energy.event import Action, MachineEvent
from vdla.support.errors import Error
from vdla.support.json_file import read_table

MEMORY_BITS = 64
"""The bits of the accesses that `memory` and `dram` are of."""

_SLOPES = {"add": 1.0, "multiply": 2.0, "memory": 0.0}
"""The powers where a table has one point only."""


class EnergyError(Error, ValueError):
    """A table of coefficients that cannot be used."""


@dataclass(frozen=True, slots=True)
class Coefficients:
    """Picojoules: `add` and `multiply` by bits, `memory` of 64 bits by KiB, `dram` of 64 bits as
    least, middle and most.
    """

    add: Mapping[int, float]
    multiply: Mapping[int, float]
    memory: Mapping[int, float]
    dram: tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class EnergyTable:
    """Coefficients with their source. What is on the chip is off by up to a factor of `error`;
    `static_mw` is the power of a machine that does nothing.
    """

    name: str
    source: str
    coefficients: Coefficients
    error: float
    static_mw: float = 0.0

    def __repr__(self) -> str:
        return f"<EnergyTable {self.name}: {self.source}>"

    def picojoules(self, event: MachineEvent, config: Config) -> tuple[float, float, float] | None:
        """Least, middle and most of one event; None where no coefficient covers it."""
        given = self.coefficients
        if event.part == "dram":
            return _scaled(given.dram, event.bits / MEMORY_BITS)
        middle: float
        match event.action:
            case Action.ADD:
                middle = _at(given.add, event.bits, _SLOPES["add"])
            case Action.MULTIPLY:
                middle = _at(given.multiply, math.sqrt(event.bits * event.other_bits), _SLOPES["multiply"])
            case Action.READ | Action.WRITE:
                kib = config.buffer_bytes[Buffer[event.part.upper()]] / 1024
                middle = _at(given.memory, kib, _SLOPES["memory"]) * event.bits / MEMORY_BITS
            case _:
                return None
        return middle / self.error, middle, middle * self.error


def _scaled(values: tuple[float, float, float], factor: float) -> tuple[float, float, float]:
    low, middle, high = (value * factor for value in values)
    return low, middle, high


def _at(points: Mapping[int, float], where: float, slope: float) -> float:
    """The value at a place between points, or beyond them, on lines in both logarithms."""
    places = sorted(points)
    if len(places) == 1:
        return float(points[places[0]] * (where / places[0]) ** slope)
    above = next((n for n, place in enumerate(places[1:-1], 1) if where <= place), len(places) - 1)
    low, high = places[above - 1], places[above]
    power = math.log(points[high] / points[low]) / math.log(high / low)
    return float(points[low] * (where / low) ** power)


# --- files ----------------------------------------------------------------------------------------

_NUMBERS = ("add", "multiply", "memory")
_FIELDS = ("name", "source", *_NUMBERS, "dram", "error", "static_mw")


def load_table(path: str | Path) -> EnergyTable:
    """The table in a JSON file; EnergyError where it is none.

    Its fields are `name`, `source`, `add`, `multiply` and `memory` (tables of pJ by bits or KiB),
    `dram` (least, middle and most pJ), `error` and, where it is known, `static_mw`.
    """
    return table_of(read_table(path, EnergyError), str(path))


def table_of(document: Mapping[str, Any], where: str = "table") -> EnergyTable:
    """The table of a document; EnergyError where a field is missing, unknown or out of range."""
    unknown = [name for name in document if name not in _FIELDS]
    missing = [name for name in _FIELDS[:-1] if name not in document]
    for what, names in (("known", unknown), ("given", missing)):
        if names:
            raise EnergyError(f"energy {where}: fields must be {', '.join(_FIELDS)}, {names[0]} is not {what}")
    for name in ("name", "source"):
        if not isinstance(document[name], str) or not document[name]:
            raise EnergyError(f"energy {where}: {name} must be a text, got {document[name]!r}")
    add, multiply, memory = (_points(where, name, document[name]) for name in _NUMBERS)
    dram = document["dram"]
    if not isinstance(dram, list) or len(dram) != 3 or not all(_is_positive(value) for value in dram):
        raise EnergyError(f"energy {where}: dram must be the least, middle and most pJ of 64 bits, got {dram!r}")
    error, static = document["error"], document.get("static_mw", 0.0)
    if not _is_positive(error) or error < 1:
        raise EnergyError(f"energy {where}: error must be a factor of at least 1, got {error!r}")
    if static != 0 and not _is_positive(static):
        raise EnergyError(f"energy {where}: static_mw must be a power from 0, got {static!r}")
    low, middle, high = sorted(map(float, dram))
    return EnergyTable(
        name=document["name"],
        source=document["source"],
        coefficients=Coefficients(add=add, multiply=multiply, memory=memory, dram=(low, middle, high)),
        error=float(error),
        static_mw=float(static),
    )


def _points(where: str, name: str, value: object) -> dict[int, float]:
    if isinstance(value, dict) and value and all(key.isdecimal() and int(key) for key in value):
        points = {int(key): number for key, number in value.items() if _is_positive(number)}
        if len(points) == len(value):
            return {key: float(number) for key, number in points.items()}
    unit = "KiB" if name == "memory" else "bits"
    raise EnergyError(f"energy {where}: {name} must be a table of pJ by {unit}, got {value!r}")


def _is_positive(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < math.inf
