# SPDX-License-Identifier: Apache-2.0
"""The throughput of a network on its device: runs and images a second, and where time goes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.runtime.executor.errors import ModelError
from vdla.runtime.executor.executor import NetworkResult
from vdla.runtime.executor.plan import PlannedValue, numpy_dtype

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Throughput:
    """What `runs` runs took, after one that is not counted.

    `images` is the first extent of the first input. `accelerator_s` is that of a run at the clock
    that the device says, 0 without programs.
    """

    runs: int
    images: int
    seconds: float
    cycles: int
    accelerator_s: float
    clock_mhz: float | None

    @property
    def images_per_second(self) -> float:
        """Images of all runs over their time."""
        return self.images * self.runs / self.seconds

    def to_dict(self) -> dict[str, Any]:
        """As JSON-compatible values."""
        return {**asdict(self), "images_per_second": self.images_per_second}


def measure_throughput(
    name: str, values: Mapping[str, PlannedValue], run: Callable[[Mapping[str, Array]], NetworkResult], runs: int
) -> Throughput:
    """The throughput of network `name` on zeros: the time of a run does not depend on its data."""
    if isinstance(runs, bool) or not isinstance(runs, int) or runs < 1:
        raise ModelError(f"model {name}: runs must be an integer from 1, got {runs!r}")
    inputs = {key: _zeros(name, key, value) for key, value in values.items()}
    result = run(inputs)
    start = time.perf_counter()
    for _ in range(runs):
        result = run(inputs)
    seconds = time.perf_counter() - start
    programs = [step.statistics for step in result.steps if step.statistics is not None]
    shape = next(iter(inputs.values())).shape if inputs else ()
    return Throughput(
        runs=runs,
        images=shape[0] if shape else 1,
        seconds=seconds,
        cycles=sum(statistics.total_cycles for statistics in programs),
        accelerator_s=sum(statistics.seconds for statistics in programs),
        clock_mhz=programs[0].config.clock_mhz if programs else None,
    )


def _zeros(name: str, key: str, value: PlannedValue) -> Array:
    if value.shape is None:
        raise ModelError(f"model {name}: {key} must have a known shape for this test, got any shape")
    return np.zeros(value.shape, numpy_dtype(value.dtype))
