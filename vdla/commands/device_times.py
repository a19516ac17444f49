# SPDX-License-Identifier: Apache-2.0
"""What runs of a network took, by device; a board has no other tables than these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from vdla.runtime.executor.artifact import Artifact
    from vdla.runtime.executor.executor import NetworkResult
    from vdla.runtime.executor.model import Model

Array = NDArray[Any]
DEVICE_COLUMNS = ("device", "steps", "cycles", "time a run")


def device_names(artifact: Artifact) -> dict[str, str]:
    """What the devices are called in tables."""
    machine = artifact.config.name if artifact.config else "none"
    names = {"vdla": f"vdla ({machine})", "cpu": f"cpu ({artifact.cpu.name})", "numpy": "cpu, in NumPy"}
    gpu = artifact.grid.device if artifact.grid else "none"
    return names | {"gpu": f"gpu ({gpu})", "handover": "handover", "copy": "copies to and from it"}


def milliseconds(seconds: float) -> str:
    """A time as text."""
    return f"{1e3 * seconds:,.3f} ms"


def joined(outputs: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """The outputs of several runs, one behind the other in their first dimension."""
    if len(outputs) == 1:
        return dict(outputs[0])
    return {name: np.concatenate([np.atleast_1d(item[name]) for item in outputs]) for name in outputs[0]}


def title_of(model: Model, results: Sequence[NetworkResult]) -> str:
    """The network, and how often it ran."""
    runs = len(results)
    return f"{model.name}, {runs} run{'' if runs == 1 else 's'}"


def device_rows(model: Model, results: Sequence[NetworkResult]) -> list[tuple[str, ...]]:
    """Steps, cycles and time of each device, a run."""
    return [
        (device, str(steps), f"{cycles:,}" if cycles else "-", milliseconds(seconds))
        for device, (steps, cycles, seconds) in _by_device(model, results).items()
    ]


def _by_device(model: Model, results: Sequence[NetworkResult]) -> dict[str, tuple[int, int, float]]:
    """Steps, cycles and seconds of a run on each device; the accelerator's at its clock."""
    totals: dict[str, tuple[int, int, float]] = {}
    names = device_names(model.artifact)
    for result in results:
        for run in result.steps:
            on = run.step.placement.device
            device = names["cpu" if on == "numpy" else on]
            cycles = run.statistics.total_cycles if run.statistics else 0
            seconds = run.statistics.seconds if run.statistics else run.seconds
            before = totals.get(device, (0, 0, 0.0))
            totals[device] = (before[0] + 1, before[1] + cycles, before[2] + seconds)
    runs = len(results)
    return {device: (steps // runs, cycles // runs, time / runs) for device, (steps, cycles, time) in totals.items()}


def model_document(model: Model, results: Sequence[NetworkResult]) -> dict[str, Any]:
    """The runs as JSON-compatible values."""
    devices = {
        device: {"steps": steps, "cycles": cycles, "seconds": seconds}
        for device, (steps, cycles, seconds) in _by_device(model, results).items()
    }
    return {"model": model.name, "runs": len(results), "cycles": results[0].cycles, "devices": devices}
