"""A part of the benchmark of extensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vdla.benchmarks.harness import Row


@dataclass(frozen=True, slots=True)
class BenchmarkPart:
    """The figures and rows of a part, and what its receipt has besides."""

    figures: Mapping[str, float]
    rows: Sequence[Row] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
