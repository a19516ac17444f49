"""The self-test of `vdla doctor`: a small convolution on four machines, compared with NumPy."""

from __future__ import annotations

import time
from dataclasses import dataclass

PRESETS = ("pynq_z1", "tiny", "int4", "batch4")


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """One line of the report: the subject, its state, and advice where it is not healthy."""

    what: str
    state: str
    healthy: bool = True
    advice: str = ""


def self_test() -> list[DoctorFinding]:
    """One finding a machine."""
    return [_convolution(preset) for preset in PRESETS]


def _convolution(preset: str) -> DoctorFinding:
    from vdla.compiler.operators.workloads import SELF_TEST
    from vdla.hardware.config import Config
    from vdla.runtime.diagnosis.layers import layer_operator, measure

    start_s = time.perf_counter()
    measured = measure(SELF_TEST, layer_operator(SELF_TEST, Config.preset(preset), 2), seed=0)
    took = f"{measured.stats.total_cycles:,} cycles, {time.perf_counter() - start_s:.1f} s"
    state = f"exact, {took}" if measured.exact else f"results differ from numpy, {took}"
    advice = "" if measured.exact else "please report it with the output of vdla doctor"
    return DoctorFinding(f"convolution on {preset}", state, measured.exact, advice)
