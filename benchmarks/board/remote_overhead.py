# SPDX-License-Identifier: Apache-2.0
"""What a remote run takes beyond the server's device: `remote_overhead_ms`, on loopback.

A run is `vdla.run` on an open device: allocate, write, run, read, free. The overhead is its time
less that of the device's `run` in the server, which is a process of its own. Inputs change from run
to run; the weights stay.
"""

from __future__ import annotations

import statistics
import time

from vdla.benchmarks.board.served import served
from vdla.benchmarks.harness import Row
from vdla.hardware.config import Config
from vdla.runtime.devices import open_device
from vdla.runtime.devices.run import run
from vdla.runtime.remote.remote_device import RemoteDevice
from vdla.verification.programs.gemm_program import GemmTiling, gemm_program
from vdla.verification.programs.random_data import random_arrays

SHORT, LONG = 20, 200
"""Runs of the short and the long form, after the first."""
_INPUTS = 8
_TILING = (512, 256, 192, 32, 2)  # about 1 ms at 100 MHz


def remote_overhead(calls: int = LONG, preset: str = "pynq_z1", seed: int = 0) -> Row:
    """The median overhead of `calls` runs after the first, in milliseconds."""
    config = Config.preset(preset)
    program = gemm_program(GemmTiling(config, *_TILING))
    weights = random_arrays(program, seed)
    inputs = [{**weights, "inp": random_arrays(program, seed + number)["inp"]} for number in range(_INPUTS)]
    with open_device("sim", config) as local:
        expected = [run(program, arrays, local) for arrays in inputs]
    overheads, device_ms, wrong = [], [], 0
    with served("sim", config) as server, RemoteDevice(config, server.address) as device:
        for call in range(calls + 1):
            arrays, right = inputs[call % _INPUTS], expected[call % _INPUTS]
            start = time.perf_counter()
            result = run(program, arrays, device)
            took_s = time.perf_counter() - start
            overheads.append(1e3 * (took_s - device.device_s))
            device_ms.append(1e3 * device.device_s)
            wrong += any((result.outputs[name] != array).any() for name, array in right.outputs.items())
            wrong += bool(result.statistics.differences(right.statistics))
    later = sorted(overheads[1:])
    return {
        "remote_overhead_ms": statistics.median(later),
        "overhead_p90_ms": later[int(0.9 * (len(later) - 1))],
        "first_call_ms": overheads[0],
        "device_ms": statistics.median(device_ms[1:]),
        "accelerator_ms": 1e3 * expected[0].statistics.seconds,
        "cycles": expected[0].statistics.total_cycles,
        "bytes": sum(array.nbytes for array in (*weights.values(), *expected[0].outputs.values())),
        "calls": calls,
        "wrong": wrong,
    }
