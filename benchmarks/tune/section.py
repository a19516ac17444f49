# SPDX-License-Identifier: Apache-2.0
"""What a section of the benchmark is given."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from vdla.support.progress import ReportStep


@dataclass(frozen=True, slots=True)
class SectionRequest:
    """`picture` is where a section that draws writes its picture, if anywhere."""

    seed: int
    report: ReportStep
    picture: Path | None = None
