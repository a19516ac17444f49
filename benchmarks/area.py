"""FPGA resources of a machine on the part of its board, by unit, from synthesis with Yosys.

The first run takes minutes; later runs read the cached result while the RTL is unchanged.
"""

from __future__ import annotations

from dataclasses import asdict

from vdla.benchmarks.harness import BenchmarkResult, Progress, receipt, silent
from vdla.hardware.config import Config
from vdla.hardware.fpga.area import area
from vdla.hardware.fpga.parts import part_of_preset

PRESET = "pynq_z1"


def run(progress: Progress = silent, seed: int = 0, preset: str = PRESET) -> BenchmarkResult:
    """The area of a preset; `fits` is 1 if no resource of the part is exceeded."""
    config = Config.preset(preset)
    part = part_of_preset(preset)
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
    if result.fast_longest is not None:
        figures["fast_path_ns"] = result.fast_longest.estimate_ns
    rows = [{"unit": unit.path, "module": unit.module, **asdict(unit.usage)} for unit in result.units]
    command = f"vdla bench area --preset {preset} --json -"
    about = {**receipt(config, [], seed, command), "part": part.name, "yosys": result.yosys}
    return BenchmarkResult("area", figures, rows, about)
