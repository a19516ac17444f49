# SPDX-License-Identifier: Apache-2.0
"""How long a run takes by the models of a machine and of the CPU beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vdla.runtime.executor.artifact import Artifact
    from vdla.runtime.executor.plan import PlacedOperator, Placement


@dataclass(frozen=True, slots=True)
class RunTimes:
    """Seconds of a run on an accelerator, on the CPU, and to hand tensors over between them.

    `handovers` counts the steps that pack or unpack tensors.
    """

    accelerator: float
    cpu: float
    handover: float
    handovers: int

    @property
    def total(self) -> float:
        """All of them."""
        return self.accelerator + self.cpu + self.handover


def run_times(artifact: Artifact) -> RunTimes | None:
    """The times of a run; None without an accelerator, or where an operator has no estimate."""
    seconds = {"accelerator": 0.0, "cpu": 0.0, "handover": 0.0}
    handovers = 0
    for step in artifact.plan.steps:
        handovers += any(is_handover(artifact, step.placement, operator) for operator in step.placement.operators)
        for operator in step.placement.operators:
            if operator.seconds is None:
                return None
            is_packing = is_handover(artifact, step.placement, operator)
            device = "accelerator" if step.placement.device == "vdla" else "handover" if is_packing else "cpu"
            seconds[device] += operator.seconds
    return RunTimes(**seconds, handovers=handovers) if artifact.programs else None


def is_handover(artifact: Artifact, placement: Placement, operator: PlacedOperator) -> bool:
    """Whether an operator only packs or unpacks tensors for the accelerator."""
    return bool(artifact.programs) and placement.device in ("cpu", "numpy") and not operator.reason
