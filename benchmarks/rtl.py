# SPDX-License-Identifier: Apache-2.0
"""Speed of the RTL under Verilator on one core: simulated cycles of pynq_z1 a second.

The workload is a layer of ResNet-18; times, counters and outputs of every round are compared with
the simulator. The model is single-threaded. `cycles_per_s` is the median over the rounds by wall
clock, `cycles_per_cpu_s` by CPU time, which a busy machine distorts less.
"""

from __future__ import annotations

import statistics
import time
from contextlib import ExitStack
from typing import Any

import numpy as np

from vdla.benchmarks.harness import BenchmarkResult, Row, receipt
from vdla.compiler.operators.workloads import workload
from vdla.hardware.config import Config
from vdla.hardware.program import Program
from vdla.runtime.devices.rtl import RtlDevice
from vdla.runtime.devices.run import upload
from vdla.runtime.diagnosis.comparison import memory_bytes
from vdla.runtime.diagnosis.layers import layer_operator, pack, random_data
from vdla.simulator.simulate import simulate
from vdla.support.progress import Progress, numbered, silent

PRESET = "pynq_z1"
LAYER = "C2"
ROUNDS = 3
THREADS = 2


def run(progress: Progress = silent, seed: int = 0) -> BenchmarkResult:
    """Builds the model if it is not cached, then times the rounds."""
    config, layer = Config.preset(PRESET), workload(LAYER)
    operator = layer_operator(layer, config, THREADS)
    arrays = pack(operator, random_data(layer, config, seed))
    step = numbered(progress, ROUNDS + 1)
    step("build the RTL")
    rows = []
    with RtlDevice(config, memory_bytes(operator.program)) as device:
        for number in range(ROUNDS):
            step(f"round {number + 1}")
            rows.append(_round(operator.program, arrays, device))
    step("done")
    figures = {name: statistics.median(row[name] for row in rows) for name in ("cycles_per_s", "cycles_per_cpu_s")}
    figures |= {"cycles": rows[0]["cycles"], "all_exact": int(all(row["exact"] for row in rows))}
    command = f"vdla bench rtl --seed {seed} --json -"
    return BenchmarkResult("rtl", figures, rows, receipt(config, [operator.program], seed, command))


def _round(program: Program, arrays: dict[str, Any], device: RtlDevice) -> Row:
    expected = simulate(program, arrays)
    with ExitStack() as stack:
        addresses = upload(program, arrays, device, stack)
        start_s, start_cpu_s = time.perf_counter(), time.process_time()
        stats = device.run(program, addresses)
        seconds, cpu_seconds = time.perf_counter() - start_s, time.process_time() - start_cpu_s
        exact = not stats.differences(expected.statistics) and _same(program, expected.outputs, device, addresses)
    cycles = stats.total_cycles
    return {
        "cycles": cycles,
        "cycles_per_s": cycles / seconds,
        "cycles_per_cpu_s": cycles / cpu_seconds,
        "exact": exact,
    }


def _same(program: Program, outputs: dict[str, Any], device: RtlDevice, addresses: dict[str, int]) -> bool:
    from vdla.hardware.program import from_bytes

    tensors = [program.tensor(name) for name in outputs]
    got = {t.name: from_bytes(t, device.read(addresses[t.name], t.nbytes)) for t in tensors}
    return all(np.array_equal(got[name], array) for name, array in outputs.items())
