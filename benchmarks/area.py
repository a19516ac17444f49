# SPDX-License-Identifier: Apache-2.0
"""FPGA resources of machines on the parts of their boards, and the longest paths in their periods.

From synthesis with Yosys: the first run takes minutes for each machine; later runs read the cached
result while the RTL is unchanged. `--long` has every preset. A row is a machine. `share` is the
share of the period that the longest path takes; if the multipliers have a clock of their own, that
of the clock with the greater share, and `fast_ns` is the longest path that starts or ends at the
multipliers' clock, else 0. `fits`: the part has enough of every resource and, for the preset of a
board, no path takes longer than the period of the board's clock. A preset without a board has no
period to meet.
"""

from __future__ import annotations

from dataclasses import dataclass

from vdla.benchmarks.harness import BenchmarkResult, Row, receipt
from vdla.boards.board import Board, boards_by_preset
from vdla.hardware.config import PRESETS, Config
from vdla.hardware.fpga.area import CLOCK, FAST_CLOCK, Area, area
from vdla.hardware.fpga.parts import PARTS, FpgaPart, part_of_preset
from vdla.support.progress import Progress, silent

MACHINES = ("pynq_z1", "pynq_z1_512")
"""The machines of the short form: with one clock, and with two."""

FIGURES = ("lut", "ff", "dsp", "bram36", "path_ns", "share")
"""Columns of a row that are figures of the benchmark as well, behind the machine's name."""


def run(progress: Progress = silent, seed: int = 0, preset: str | None = None, long: bool = False) -> BenchmarkResult:
    """The area of a preset, of MACHINES, or of all; `fits` is 1 if every one fits."""
    names = (preset,) if preset else tuple(PRESETS) if long else MACHINES
    configs = [Config.preset(name) for name in names]
    boards = boards_by_preset()
    results = []
    for index, config in enumerate(configs):
        progress(config.name, index, len(configs))
        show = _Stages(progress, config.name, index, len(configs))
        results.append(area(config, _part(config.name, boards.get(config.name)), show))
    progress("done", len(configs), len(configs))
    rows = [row(result, boards.get(result.config.name)) for result in results]
    figures = {f"{item['machine']}_{name}": item[name] for item in rows for name in FIGURES}
    figures["fits"] = int(all(item["fits"] for item in rows))
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


def _part(preset: str, board: Board | None) -> FpgaPart:
    return part_of_preset(preset) if board is None else PARTS[board.fpga]


def meets_timing(result: Area, clock_mhz: float) -> bool:
    """Whether no path and no block takes longer than the period of its clock."""
    period_ns = 1000 / clock_mhz
    fast_ns = period_ns / result.config.array_rate
    fast = result.fast_longest
    return (
        result.longest.estimate_ns <= period_ns
        and (fast is None or fast.estimate_ns <= fast_ns)
        and result.paths.period_ns.get(CLOCK, 0.0) <= period_ns
        and result.paths.period_ns.get(FAST_CLOCK, 0.0) <= fast_ns
    )


def row(result: Area, board: Board | None) -> Row:
    """The row of one machine, and of the board that offers it."""
    total, fast = result.total, result.fast_longest
    path_ns, fast_ns = result.longest.estimate_ns, fast.estimate_ns if fast is not None else 0.0
    period_ns = 1000 / result.config.clock_mhz
    return {
        "machine": result.config.name,
        "board": board.name if board is not None else "-",
        "part": result.part.name,
        "fits": int(result.fits and (board is None or meets_timing(result, board.clock_mhz))),
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
