# SPDX-License-Identifier: Apache-2.0
"""Whole networks on a device against the direct run on the simulator, bit for bit.

The device is an open device, or a name for `open_device`: the virtual board, a remote
device, a board. Networks have random weights and are quantised on random images, as in the
benchmark `network`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vdla.benchmarks.harness import Figures
from vdla.hardware.config import Config
from vdla.networks.registry import network
from vdla.runtime.devices import Device, open_device
from vdla.runtime.executor.artifact import Artifact
from vdla.runtime.executor.model import Model
from vdla.runtime.network.compile_network import compile_network
from vdla.runtime.network.quantise import quantise
from vdla.support.progress import Progress, silent, steps

NETWORKS = ("resnet18", "digits")
SMALL = ("digits",)
"""A network that runs on the RTL in seconds."""
_CALIBRATION = 2


def network_equal(
    device: str | Device,
    preset: str = "pynq_z1",
    names: Sequence[str] = NETWORKS,
    *,
    seed: int = 0,
    small: bool = False,
    options: Mapping[str, Any] | None = None,
    progress: Progress = silent,
) -> Figures:
    """`network_equal`, 1 if all networks gave the same bits, and for each: whether it did, entries
    that differ, cycles of its programs, seconds of a run on the device.

    A device given by name is opened with `options`. `small` takes the variants for tests.
    """
    figures: Figures = {}
    for name in steps(progress, names):
        artifact, inputs = compiled(name, preset, seed, small)
        with Model(artifact, "sim") as model:
            wanted = model.run(inputs).outputs
        outcome = _on_device(artifact, inputs, device, options or {}, wanted)
        figures |= {f"{name}_{figure}": value for figure, value in outcome.items()}
    equal = int(all(figures[f"{name}_equal"] for name in names))
    return {"network_equal": equal, **figures}


def compiled(name: str, preset: str, seed: int, small: bool, cpu: str | None = None) -> tuple[Artifact, dict[str, Any]]:
    """A quantised network for a preset, by default with the CPU of this machine, and an input."""
    subject = network(name)
    model = subject.build(seed=seed, **(subject.small if small else {}))
    data = [subject.inputs(model, seed=seed + number) for number in range(_CALIBRATION)]
    quantised = quantise(model, calibration=data, method="minmax").graph
    return compile_network(quantised, preset, cpu=cpu).artifact, data[0]


def _on_device(
    artifact: Artifact,
    inputs: Mapping[str, Any],
    device: str | Device,
    options: Mapping[str, Any],
    wanted: Mapping[str, Any],
) -> Figures:
    """The figures of one network."""
    if isinstance(device, str):
        config = artifact.config or Config.preset("pynq_z1")
        with open_device(device, config, **options) as opened:
            return _on_device(artifact, inputs, opened, options, wanted)
    with Model(artifact, device) as model:
        model.run(inputs)  # constants are written, kernels loaded
        start = time.perf_counter()
        result = model.run(inputs)
        seconds = time.perf_counter() - start
    differing = sum(_differing(array, result.outputs[name]) for name, array in wanted.items())
    return {
        "equal": int(not differing),
        "entries": sum(array.size for array in wanted.values()),
        "differing": differing,
        "programs": len(artifact.programs),
        "cycles": result.cycles,
        "seconds": round(seconds, 3),
    }


def _differing(ours: Any, theirs: Any) -> int:  # noqa: ANN401  arrays
    """Entries whose bits differ."""
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return int(ours.size)
    width = ours.dtype.itemsize
    bits = [np.ascontiguousarray(item).reshape(-1).view(np.uint8).reshape(-1, width) for item in (ours, theirs)]
    return int((bits[0] != bits[1]).any(axis=1).sum())
