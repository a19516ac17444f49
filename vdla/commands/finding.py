"""A line of what `vdla doctor` reports."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """What was looked at, how it is, and where that is not healthy, what to do."""

    what: str
    state: str
    healthy: bool = True
    advice: str = ""
