# SPDX-License-Identifier: Apache-2.0
"""Figures 7 and 19: cooperative fetching, and networks, on an OpenCL device."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from vdla.benchmarks.harness import Row, geomean, times_in_turns
from vdla.benchmarks.network_cpu import network_of, rivals
from vdla.benchmarks.paper.figure import PaperClaim, PaperMeasurement, bars
from vdla.benchmarks.paper.processors import PHONE
from vdla.compiler import te
from vdla.compiler.operators import matmul
from vdla.compiler.schedule import Schedule
from vdla.networks.registry import NETWORKS
from vdla.runtime.compile import compile
from vdla.runtime.grid.opencl_devices import open_opencl
from vdla.support.progress import Progress, steps

_SIZES = (512, 1024)
_RUNS = 5
_TILE = 16


def cooperative_fetching(progress: Progress, seed: int, small: bool) -> PaperMeasurement:
    """Products whose threads fetch tiles together, against threads that fetch for themselves."""
    device, rows = open_opencl(), []
    for size in steps(progress, (128,) if small else _SIZES):
        rng = np.random.default_rng(seed)
        a, b = (rng.uniform(-1, 1, (size, size)).astype(np.float32) for _ in range(2))
        kernels = {"cooperative_ms": _product(size), "alone_ms": _by_threads_alone(size)}
        compiled = {name: compile(what, "opencl") for name, what in kernels.items()}
        for kernel in compiled.values():
            kernel(a, b)
        milliseconds: dict[str, list[float]] = {name: [] for name in compiled}
        for _ in range(_RUNS):
            for name, kernel in compiled.items():
                kernel(a, b)
                milliseconds[name].append(1e3 * kernel.seconds)
        best = {name: min(values) for name, values in milliseconds.items()}
        ratio = best["alone_ms"] / best["cooperative_ms"]
        rows.append(Row(product=f"{size} cubed", **best, ratio=ratio))
    claims = (PaperClaim("speedup by cooperative fetching", "> 1", geomean(row["ratio"] for row in rows), 1.0),)
    sides = {"cooperative_ms": "together", "alone_ms": "alone"}
    picture = bars(f"products on {device.name}", "ms", rows, "product", sides)
    return PaperMeasurement(rows, claims, picture, {"device": f"{device.name} of {device.platform}"})


def _product(size: int) -> Any:  # noqa: ANN401  a function
    left, right = (te.placeholder((size, size), "float32", name) for name in ("a", "b"))
    return te.create_function([left, right], [matmul(left, right, name="c")], "product")


def _by_threads_alone(size: int) -> Schedule:
    """An element of the result for each thread, with operands from global memory."""
    s = Schedule(_product(size))
    y, x = s.loops("c")[:2]
    for loop, axis in ((y, "y"), (x, "x")):
        group, thread = s.split(loop, factor=_TILE)
        s.bind(group, f"blockIdx.{axis}")
        s.bind(thread, f"threadIdx.{axis}")
    return s


def networks(progress: Progress, seed: int, small: bool) -> PaperMeasurement:
    """Networks on the device, against ONNX Runtime on this CPU."""
    device, rows = open_opencl(), list[Row]()
    for name in steps(progress, PHONE[-1:] if small else PHONE):
        model, data = network_of(name, seed, **(NETWORKS[name].small if small else {}))
        text = model.SerializeToString()
        with compile(text, "opencl") as ours:
            theirs, _ = rivals(text, data)["onnxruntime"]
            seconds = times_in_turns([partial(ours, data), theirs], _RUNS, 0.02, warm=True)
        ours_ms, theirs_ms = (round(1e3 * second, 3) for second in seconds)
        rows.append({"network": name, "ours_ms": ours_ms, "onnxruntime_ms": theirs_ms, "ratio": theirs_ms / ours_ms})
    claims = (PaperClaim("speedup, geometric mean", "1.2 to 1.6", geomean(row["ratio"] for row in rows), 1.2),)
    sides = {"ours_ms": device.name, "onnxruntime_ms": "ONNX Runtime, CPU"}
    picture = bars(f"networks on {device.name}", "ms", rows, "network", sides)
    return PaperMeasurement(rows, claims, picture, {"device": f"{device.name} of {device.platform}"})
