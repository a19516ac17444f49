# SPDX-License-Identifier: Apache-2.0
"""Coverage of programs: bins for fields, forms, hazards and queue states, and what hits them.

What an instruction computes counts only if a comparison sees it (verification/coverage/liveness).
What happens in time always counts, since every cycle is compared. Bins that no verified program can
hit are listed in UNREACHABLE with a reason; all others are goals. The ends of fields count for each
machine (verification/coverage/extremes), all others for all machines together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from vdla.hardware.config import Config
from vdla.hardware.isa import Operand, VectorOp, columns
from vdla.hardware.program import Program, place
from vdla.simulator.stats import RunStats
from vdla.verification.coverage import extremes, fields, forms, plug_ins, runs
from vdla.verification.coverage.liveness import compared_data

GROUPS: Mapping[str, tuple[str, ...]] = {
    "fields": fields.BINS,
    "forms": forms.BINS,
    "runs": runs.BINS,
}

_UNREAD = "source must be ACC unless src is read"
_FEWER = "a VECTOR starts ISSUE_DELAY + 1 cycles after another, so that fewer are in flight"
UNREACHABLE: Mapping[str, str] = {
    f"VECTOR {op.name} {operand.name} INP": _UNREAD
    for op, operand in product(VectorOp, Operand)
    if op != VectorOp.MAC and operand != Operand.SRC
} | dict.fromkeys((f"{runs.LIMITS['VECTOR']} VECTOR in flight", "VECTOR held by the limit in flight"), _FEWER)


@dataclass
class Coverage:
    """Hits of each bin; `add` counts a program, `merge` adds the counts of another process."""

    counts: Counter[str] = field(default_factory=Counter)

    def add(self, program: Program, stats: RunStats, places: Mapping[str, int] | None = None) -> None:
        """Counts a verified program and one run of it, at `places` or at the default addresses."""
        compared = compared_data(program)
        linked = columns(program.config, program.link(place(program)[0] if places is None else places))
        for counted in (
            fields.count(program, linked, compared),
            forms.count(program, linked, compared),
            runs.count(program, stats, compared),
            plug_ins.count(program, stats, compared),
            extremes.count(program, linked, compared),
        ):
            self.counts += counted

    def add_extremes(self, program: Program, places: Mapping[str, int] | None = None) -> None:
        """Counts the ends of fields of a program that was given, at `places` or at the defaults."""
        linked = columns(program.config, program.link(place(program)[0] if places is None else places))
        self.counts += extremes.count(program, linked, compared_data(program))

    def merge(self, other: Coverage) -> None:
        """Adds the counts of another."""
        self.counts += other.counts

    def missing(self, machines: Iterable[Config] = ()) -> list[str]:
        """The goals without a hit, in order; those of the extensions of `machines` among them."""
        return [name for name in goals(machines) if not self.counts[name]]

    def missing_extremes(self, machines: Iterable[Config]) -> list[str]:
        """The ends of fields that no program of these machines had."""
        return [name for machine in machines for name in extremes.bins(machine) if not self.counts[name]]

    def rows(self) -> list[dict[str, Any]]:
        """One row a group: goals, goals hit, unreachable bins."""
        return [
            {
                "group": group,
                "bins": len(names),
                "unreachable": sum(name in UNREACHABLE for name in names),
                "covered": sum(name not in UNREACHABLE and self.counts[name] > 0 for name in names),
                "missing": sum(name not in UNREACHABLE and not self.counts[name] for name in names),
            }
            for group, names in GROUPS.items()
        ]

    def report(self) -> str:
        """All bins as a table: hits, or the reason why a bin is unreachable."""
        lines = []
        for group, names in GROUPS.items():
            lines.append(f"{group}:")
            lines += [f"  {self._line(name)}" for name in names]
        return "\n".join(lines) + "\n"

    def _line(self, name: str) -> str:
        what = f"unreachable: {UNREACHABLE[name]}" if name in UNREACHABLE else self.counts[name] or "MISSING"
        return f"{what!s:>10}  {name}"


def goals(machines: Iterable[Config] = ()) -> list[str]:
    """Every bin that a verified program can hit, and those of the extensions of `machines`."""
    goal_names = [name for names in GROUPS.values() for name in names if name not in UNREACHABLE]
    return list(dict.fromkeys([*goal_names, *(name for machine in machines for name in plug_ins.bins(machine))]))
