"""Functional coverage: which bins of fields, forms, hazards and queue states a set of programs has reached.

A bin that no verified program can reach is in UNREACHABLE with its reason; all others are goals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product

from vdla.benchmarks import coverage_fields, coverage_forms, coverage_runs
from vdla.hardware.isa import Operand, VectorOp
from vdla.hardware.program import Program
from vdla.simulator.stats import RunStats

GROUPS: Mapping[str, tuple[str, ...]] = {
    "fields": coverage_fields.BINS,
    "forms": coverage_forms.BINS,
    "runs": coverage_runs.BINS,
}

_MEMORY = "needs a tensor of 2**32 beats"
_UNREAD = "source must be ACC unless src is read"
UNREACHABLE: Mapping[str, str] = {
    "LOAD.dram max": _MEMORY,
    "STORE.dram max": _MEMORY,
    **{
        f"VECTOR {op.name} {operand.name} INP": _UNREAD
        for op, operand in product(VectorOp, Operand)
        if op != VectorOp.MAC and operand != Operand.SRC
    },
}


@dataclass
class Coverage:
    """How often each bin was reached; `add` one program after another, `merge` what others counted."""

    counts: Counter[str] = field(default_factory=Counter)

    def add(self, program: Program, stats: RunStats) -> None:
        """Count a program and one run of it."""
        for counted in (
            coverage_fields.count(program),
            coverage_forms.count(program),
            coverage_runs.count(program, stats),
        ):
            self.counts += counted

    def merge(self, other: Coverage) -> None:
        """Add what another has counted."""
        self.counts += other.counts

    def missing(self) -> list[str]:
        """The goals that were not reached, in order."""
        return [name for name in goals() if not self.counts[name]]

    def rows(self) -> list[dict[str, object]]:
        """One row a group: goals, how many of them were reached, how many bins are unreachable."""
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
        """A table of all bins: how often each was reached, or why it cannot be."""
        lines = []
        for group, names in GROUPS.items():
            lines.append(f"{group}:")
            lines += [f"  {self._line(name)}" for name in names]
        return "\n".join(lines) + "\n"

    def _line(self, name: str) -> str:
        what = f"unreachable: {UNREACHABLE[name]}" if name in UNREACHABLE else self.counts[name] or "MISSING"
        return f"{what!s:>10}  {name}"


def goals() -> list[str]:
    """Every bin that a verified program can reach."""
    return [name for names in GROUPS.values() for name in names if name not in UNREACHABLE]
