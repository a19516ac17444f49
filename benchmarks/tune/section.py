"""What a section of the benchmark returns, and what it is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ReportStep = Callable[[str], None]
"""Called with the name of the next step."""


@dataclass(frozen=True, slots=True)
class SectionRequest:
    """`picture` is where a section that draws writes its picture, if anywhere."""

    seed: int
    report: ReportStep
    picture: Path | None = None


@dataclass(frozen=True, slots=True)
class TuneSection:
    """Figures by name, and rows, with the same columns in all."""

    figures: Mapping[str, float]
    rows: Sequence[Mapping[str, Any]]
