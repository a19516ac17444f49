# SPDX-License-Identifier: Apache-2.0
"""ResNet-18's convolutions: cycles against the machine's bound, with and without virtual threads.

Every result is compared with a plain NumPy reference. C1, with 3 input channels, is not part of the
sums; the time and memory for its patches are reported beside its cycles. A frame has every layer as
often as ResNet-18 has it, 19 in all, without C3.
"""

from __future__ import annotations

from collections import Counter

from vdla.benchmarks.chain import STAGES
from vdla.benchmarks.harness import BenchmarkResult, Figures, Row, receipt, total
from vdla.compiler.operators.workload_bound import bound
from vdla.compiler.operators.workloads import Workload, resnet18_layers, workload
from vdla.hardware.config import Config
from vdla.runtime.diagnosis.layers import LayerRun, layer_operator, measure
from vdla.support.progress import Progress, silent, steps

PRESET = "pynq_z1"
FIRST = "C1"  # its channels do not fill a block


def frame() -> Counter[str]:
    """How often each of C2 to C12 is in ResNet-18."""
    counts: Counter[str] = Counter()
    for _, _, first, other, projection in STAGES:
        counts.update([first, other, other, other, *([projection] if projection else [])])
    return counts


def row(layer: Workload, config: Config, two: LayerRun, one: LayerRun) -> Row:
    """The row of one layer in the report."""
    limit = bound(layer, config)
    return {
        "layer": layer.name,
        "in_frame": frame()[layer.name],
        "cycles": two.stats.total_cycles,
        "bound_cycles": limit.cycles,
        "bound_by": limit.limited_by,
        "over_bound": round(two.stats.total_cycles / limit.cycles, 4),
        "cycles_one_thread": one.stats.total_cycles,
        "utilisation": round(two.stats.utilisation, 4),
        "exact": int(two.exact and one.exact),
    }


def run(progress: Progress = silent, seed: int = 0, preset: str = PRESET) -> BenchmarkResult:
    """C1 to C12; the sums are over C2 to C12."""
    config = Config.preset(preset)
    layers = [*resnet18_layers(), workload(FIRST)]
    rows, runs = [], []
    for layer in steps(progress, layers):
        two, one = (measure(layer, layer_operator(layer, config, threads), seed) for threads in (2, 1))
        rows.append(row(layer, config, two, one))
        runs.append(two)
    figures = sums(rows[:-1]) | _first_layer(runs[-1], rows[-1])
    figures["all_exact"] = int(all(entry["exact"] for entry in rows))
    command = f"vdla bench layers --preset {preset} --seed {seed} --json -"
    return BenchmarkResult("layers", figures, rows, receipt(config, [two.program for two in runs], seed, command))


def sums(rows: list[Row]) -> Figures:
    """The figures over C2 to C12."""
    limit = total(rows, "bound_cycles")
    return {
        "cycles_over_bound": round(total(rows, "cycles") / limit, 5),
        "cycles_over_bound_one_thread": round(total(rows, "cycles_one_thread") / limit, 5),
        "cycles": total(rows, "cycles"),
        "bound_cycles": limit,
        "frame_cycles": sum(row["cycles"] * row["in_frame"] for row in rows),
    }


def _first_layer(measured: LayerRun, entry: Row) -> Figures:
    """The figures of C1; `c1_packed_bytes` over `c1_plain_bytes` is the memory cost of patches."""
    plain = workload(FIRST)
    return {
        "c1_cycles": entry["cycles"],
        "c1_pack_seconds": round(measured.pack_seconds, 4),
        "c1_packed_bytes": measured.packed_bytes,
        "c1_plain_bytes": plain.batch * plain.in_channels * plain.height * plain.width,
    }
