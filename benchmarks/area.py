"""FPGA resources of pynq_z1 on the part of its board, by unit, from synthesis with Yosys.

The first run takes minutes; later runs read the cached result while the RTL is unchanged.
"""

from __future__ import annotations

from dataclasses import asdict

from vdla.benchmarks.harness import BenchmarkResult, Progress, receipt, silent
from vdla.hardware.config import Config
from vdla.hardware.fpga.area import area
from vdla.hardware.fpga.parts import part_of_preset

PRESET = "pynq_z1"


def run(progress: Progress = silent, seed: int = 0) -> BenchmarkResult:
    """The area of the default configuration; `fits` is 1 if no resource of the part is exceeded."""
    config = Config.preset(PRESET)
    part = part_of_preset(PRESET)
    result = area(config, part, progress)
    total = result.total
    figures = {
        "fits": int(result.fits),
        "lut": total.lut,
        "lut_share": round(total.lut / part.lut, 3),
        "ff": total.ff,
        "dsp": total.dsp,
        "bram36": total.bram36,
        "lut_per_mac": round(result.lut_per_mac, 2),
        "levels": result.longest.levels,
        "path_ns": result.longest.estimate_ns,
    }
    rows = [{"unit": unit.path, "module": unit.module, **asdict(unit.usage)} for unit in result.units]
    about = {**receipt(config, [], seed, "vdla bench area --json -"), "part": part.name, "yosys": result.yosys}
    return BenchmarkResult("area", figures, rows, about)
