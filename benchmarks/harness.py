"""The result of a benchmark, and the receipt from which it can be run again.

A benchmark is a module of this package with `run(progress, seed=0) -> BenchmarkResult`; the
first line of its docstring is its description in `vdla bench --list`. Its receipt names everything
the figures depend on but the speed of the machine.
"""

from __future__ import annotations

import importlib.metadata
import json
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vdla.hardware.config import Config
from vdla.hardware.program import Program
from vdla.support.processor import cpu_model

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class BenchmarkResult:
    """`figures`: name -> number; `rows`: one a layer or program; `receipt`: how to run it again."""

    name: str
    figures: Mapping[str, float]
    rows: Sequence[Row]
    receipt: Mapping[str, Any]

    def json(self) -> str:
        """The result as indented JSON text with a final newline."""
        document = {
            "benchmark": self.name,
            "figures": dict(self.figures),
            "rows": [dict(row) for row in self.rows],
            "receipt": dict(self.receipt),
        }
        return json.dumps(document, indent=2) + "\n"


def receipt(config: Config, programs: Iterable[Program], seed: int, command: str) -> dict[str, Any]:
    """Configuration, program hashes, versions, machine, seed and command."""
    return {
        "config": config.name,
        "config_fingerprint": config.fingerprint,
        "programs": {program.name: program.hash for program in programs},
        "versions": versions(),
        "cpu": cpu_model(),
        "seed": seed,
        "command": command,
    }


def versions() -> dict[str, str]:
    """The versions of vdla, of Python and of the libraries that the figures depend on."""
    libraries = {name: installed_version(name) or "absent" for name in ("vdla", "numpy", "numba")}
    return {**libraries, "python": platform.python_version()}


def installed_version(distribution: str) -> str | None:
    """The version of an installed distribution, or None."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def seconds_of(work: Callable[[], object], repeats: int) -> list[float]:
    """Wall times of `repeats` runs of `work`, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return times


def median_seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """The median wall time of `repeats` runs of `work`, in seconds."""
    return statistics.median(seconds_of(work, repeats))
