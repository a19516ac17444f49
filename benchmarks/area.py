"""FPGA resources of machines on the parts of their boards, and the longest paths in their periods.

From synthesis with Yosys: the first run takes minutes for each machine; later runs read the cached
result while the RTL is unchanged. `--long` has every preset. A row is a machine; `share` is what
the longest path takes of the period, at the clock where that is more: the machine's, or the
multipliers' if that is another. Then `fast_ns` is the longest path with an end there, else 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vdla.benchmarks.harness import BenchmarkResult, Progress, receipt, silent
from vdla.hardware.config import PRESETS, Config
from vdla.hardware.fpga.area import Area, area
from vdla.hardware.fpga.parts import part_of_preset

MACHINES = ("pynq_z1", "pynq_z1_512")
"""The machines of the short form: with one clock, and with two."""

FIGURES = ("lut", "ff", "dsp", "bram36", "path_ns", "share")
"""Columns of a row that are figures of the benchmark as well, behind the machine's name."""


def run(progress: Progress = silent, seed: int = 0, preset: str | None = None, long: bool = False) -> BenchmarkResult:
    """The area of a preset, of MACHINES, or of all; `fits` is 1 if every one fits its part."""
    names = (preset,) if preset else tuple(PRESETS) if long else MACHINES
    configs = [Config.preset(name) for name in names]
    results = []
    for index, config in enumerate(configs):
        progress(config.name, index, len(configs))
        show = _Stages(progress, config.name, index, len(configs))
        results.append(area(config, part_of_preset(config.name), show))
    progress("done", len(configs), len(configs))
    rows = [row(result) for result in results]
    figures = {f"{each['machine']}_{name}": each[name] for each in rows for name in FIGURES}
    figures["fits"] = int(all(result.fits for result in results))
    form = f" --preset {preset}" if preset else " --long" if long else ""
    about = {
        **receipt(configs[0], [], seed, f"vdla bench area{form} --json -"),
        "configs": {config.name: config.fingerprint for config in configs},
        "yosys": results[0].yosys,
    }
    return BenchmarkResult("area", figures, rows, about)


@dataclass(frozen=True, slots=True)
class _Stages:
    """Shows the stages of a machine's synthesis within the progress of all machines."""

    progress: Progress
    name: str
    index: int
    machines: int

    def __call__(self, what: str, done: int, total: int) -> None:
        """One stage, `done` of `total`."""
        self.progress(f"{self.name}: {what}", self.index * total + done, self.machines * total)


def row(result: Area) -> Mapping[str, Any]:
    """The row of one machine."""
    total, fast = result.total, result.fast_longest
    path_ns, fast_ns = result.longest.estimate_ns, fast.estimate_ns if fast is not None else 0.0
    period_ns = 1000 / result.config.clock_mhz
    return {
        "machine": result.config.name,
        "part": result.part.name,
        "fits": int(result.fits),
        "lut": total.lut,
        "lut_share": round(total.lut / result.part.lut, 3),
        "lut_per_mac": round(result.lut_per_mac, 2),
        "ff": total.ff,
        "dsp": total.dsp,
        "bram36": total.bram36,
        "uram": total.uram,
        "period_ns": round(period_ns, 2),
        "levels": result.longest.levels,
        "path_ns": path_ns,
        "fast_ns": fast_ns,
        "share": round(max(path_ns, fast_ns * result.config.array_rate) / period_ns, 3),
    }
