"""What `vdla doctor` tries: a small convolution through the whole of vdla, against plain numpy."""

from __future__ import annotations

import time

from vdla.commands.finding import Finding

PRESETS = ("pynq_z1", "tiny", "int4", "batch4")


def kernel_name() -> str:
    """Which of its kernels the simulator uses for matrix products on pynq_z1."""
    from vdla.hardware.config import Config
    from vdla.simulator.function import kernels_vnni, vnni

    config = Config.preset("pynq_z1")
    fast = vnni.available() and kernels_vnni.fits(config.block_in, config.block_out)
    return "vector dot products (AVX-512 VNNI)" if fast else "portable, several times slower than with AVX-512 VNNI"


def self_test() -> list[Finding]:
    """One finding a machine."""
    return [_convolution(preset) for preset in PRESETS]


def _convolution(preset: str) -> Finding:
    from vdla.compiler.operators.workloads import Workload
    from vdla.hardware.config import Config
    from vdla.runtime.layers import layer_operator, measure

    layer = Workload("self_test", "conv2d", 1, 8, 8, 20, 12, 3, 1, 1, "")
    start_s = time.perf_counter()
    measured = measure(layer, layer_operator(layer, Config.preset(preset), 2), seed=0)
    took = f"{measured.stats.total_cycles:,} cycles, {time.perf_counter() - start_s:.1f} s"
    state = f"exact, {took}" if measured.exact else f"results differ from numpy, {took}"
    advice = "" if measured.exact else "please report it with the output of vdla doctor"
    return Finding(f"convolution on {preset}", state, measured.exact, advice)
