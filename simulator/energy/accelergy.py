# SPDX-License-Identifier: Apache-2.0
"""Estimates in the form of Accelergy's files (version 0.3): counts of actions, the reference table
of energies, and what both make.

Parts of the machine are components below it; widths are arguments of their actions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from vdla.simulator.energy.event import MachineEvent

VERSION = 0.3


@dataclass(frozen=True, slots=True)
class PricedEvent:
    """How often an event happens, and the picojoules of one."""

    event: MachineEvent
    count: int
    picojoules: float


def accelergy_document(machine: str, priced: Iterable[PricedEvent], parts: Mapping[str, float]) -> dict[str, Any]:
    """Tables and lists with `action_counts`, `ERT` and `energy_estimation`, each with the content
    of one of Accelergy's files; `parts` has the picojoules of all events of a part.
    """
    by_part: dict[str, list[PricedEvent]] = {}
    for item in priced:
        by_part.setdefault(item.event.part, []).append(item)
    local = [
        {"name": part, "action_counts": [{**_action(item.event), "counts": item.count} for item in items]}
        for part, items in by_part.items()
    ]
    tables = [
        {
            "name": f"{machine}.{part}",
            "actions": [{**_action(item.event), "energy": item.picojoules} for item in items],
        }
        for part, items in by_part.items()
    ]
    components = [{"name": f"{machine}.{part}", "energy": energy} for part, energy in parts.items()]
    return {
        "action_counts": {"version": VERSION, "subtree": [{"name": machine, "local": local}]},
        "ERT": {"version": VERSION, "tables": tables},
        "energy_estimation": {"version": VERSION, "components": components},
    }


def _action(event: MachineEvent) -> dict[str, Any]:
    """The name of an action, and its widths."""
    widths = {"width": event.bits, "other_width": event.other_bits}
    return {"name": event.action.value, "arguments": {name: bits for name, bits in widths.items() if bits}}


def yaml_lines(value: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """The lines of a table: of numbers, texts that need no quotes, tables, and lists of tables."""
    for name, item in value.items():
        match item:
            case dict():
                yield f"{indent}{name}:"
                yield from yaml_lines(item, f"{indent}  ")
            case list():
                yield f"{indent}{name}:"
                for entry in item:
                    first, *others = yaml_lines(entry, f"{indent}    ")
                    yield f"{indent}  - {first.strip()}"
                    yield from others
            case _:
                yield f"{indent}{name}: {item}"
