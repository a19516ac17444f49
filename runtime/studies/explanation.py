# SPDX-License-Identifier: Apache-2.0
"""Where every operator of a compiled network runs, why, and what would move it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import ClassVar

from vdla.runtime.executor.artifact import Artifact
from vdla.runtime.executor.model import Model
from vdla.runtime.studies.layers import EvaluateError
from vdla.runtime.studies.study import Study
from vdla.support.html_repr import shown_by


@dataclass(frozen=True, slots=True)
class Explanation(Study):
    """The devices, reasons, cycles and estimated times of the operators of a compiled network."""

    artifact: Artifact

    _repr_html_ = shown_by("networks", "explanation_html")
    _makers: ClassVar[Mapping[str, str]] = {
        "document": "commands.placement_tables:document_of",
        "tables": "commands.placement_tables:tables_of",
        "notes": "commands.placement_notes:notes_of",
    }

    def __repr__(self) -> str:
        machine = "none" if self.artifact.config is None else self.artifact.config.name
        operators = sum(len(step.placement.operators) for step in self.artifact.plan.steps)
        return f"<Explanation of {self.artifact.plan.name}, machine {machine}: {operators} operators>"


def explain(model: Model | Artifact | str | PathLike[str]) -> Explanation:
    """Where the operators of a compiled network run, given as `vdla.compile` returns it, or as the
    file that it was saved in.

    Raises:
        EvaluateError: something else. ArtifactError: a file that is no compiled network.
    """
    match model:
        case Model():
            return Explanation(model.artifact)
        case Artifact():
            return Explanation(model)
        case str() | PathLike():
            return Explanation(Artifact.load(Path(model)))
    raise EvaluateError(f"explain: model must be a compiled network or its file, got {type(model).__name__}")
