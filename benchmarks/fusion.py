# SPDX-License-Identifier: Apache-2.0
"""Fused kernels against one kernel an operator, on one thread of this CPU.

The workloads of figure 4 of TVM's paper (Chen et al., OSDI 2018): a 1x1 and a depthwise convolution
with batch normalisation and ReLU, and an LSTM cell. Both sides compute the same expressions with
the default schedule and take turns. `..._error` is the greatest difference over the greatest
result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator, default_rng
from numpy.typing import NDArray

from vdla.benchmarks.harness import BenchmarkResult, Row, host_receipt, paired_times
from vdla.compiler import operators, te
from vdla.compiler.operators.cpu import default_schedule
from vdla.compiler.target import host
from vdla.runtime.native import BoundCall, build, set_threads
from vdla.support.progress import Progress, silent, steps

Array = NDArray[np.float32]
Arrays = dict[str, Array]
Stage = tuple[Callable[..., te.Tensor], Sequence[str], str]  # operator, names of its operands, of its result
Workload = tuple[list[Stage], Arrays, list[str]]  # stages, what they read, names of the results
_HIDDEN = 128


def run(progress: Progress = silent, seed: int = 0) -> BenchmarkResult:
    """Measure every workload."""
    rng = default_rng(seed)
    workloads = {"conv": _conv, "depthwise": _depthwise, "lstm": _lstm}
    set_threads(1)
    try:
        rows = [{"workload": name, **measure(*workloads[name](rng))} for name in steps(progress, list(workloads))]
    finally:
        set_threads(0)
    figures = {f"{row['workload']}_speedup": row["speedup"] for row in rows}
    figures |= {f"{row['workload']}_error": row["error"] for row in rows}
    command = f"vdla bench fusion --seed {seed} --json -"
    return BenchmarkResult("fusion", figures, rows, host_receipt(seed, command, ["llvmlite"], threads=1))


def measure(stages: Sequence[Stage], arrays: Arrays, results: Sequence[str]) -> Row:
    """The stages as one kernel against a kernel for each."""
    fused = _kernel(stages, arrays, results)
    separate, held = [], dict(arrays)
    for stage in stages:
        separate.append(_kernel([stage], held, [stage[2]]))
        held[stage[2]] = separate[-1].outputs[0]

    def all_stages() -> None:
        for kernel in separate:
            kernel()

    fused()
    all_stages()
    errors = [
        float(np.abs(got - held[name]).max() / np.abs(held[name]).max())
        for got, name in zip(fused.outputs, results, strict=True)
    ]
    times = paired_times(fused, all_stages)
    return {
        "kernels": len(separate),
        "fused_us": round(times.ours * 1e6, 2),
        "separate_us": round(times.theirs * 1e6, 2),
        "speedup": round(times.ratio, 4),
        "error": max(errors),
    }


def _kernel(stages: Sequence[Stage], arrays: Arrays, results: Sequence[str]) -> BoundCall:
    """One kernel of stages, bound to the arrays that they read."""
    made = {stage[2] for stage in stages}
    read = [name for name in arrays if name not in made and any(name in stage[1] for stage in stages)]
    tensors = {name: te.placeholder(arrays[name].shape, "float32", name) for name in read}
    inputs = list(tensors.values())
    for operator, operands, result in stages:
        tensors[result] = operator(*(tensors[name] for name in operands), name=result)
    fn = te.create_function(inputs, [tensors[name] for name in results], "kernel")
    return build(default_schedule(fn).fn).bind(*(arrays[name] for name in read))


# --- workloads ------------------------------------------------------------------------------------


def _conv(rng: Generator) -> Workload:
    """28x28, 128 to 256 channels."""
    lanes = host().lanes(4)
    weight = rng.standard_normal((256, 128, 1, 1), np.float32)
    arrays = {"x": _image(rng, 128, 28, lanes), "w": operators.pack_conv2d(weight)}
    layouts = {"layout": f"NCHW{lanes}c", "weight_layout": f"OIHW{lanes}o"}

    def conv(x: te.Tensor, w: te.Tensor, name: str) -> te.Tensor:
        return operators.conv2d(x, w, **layouts, name=name)  # type: ignore[arg-type]

    return _with_batch_norm(rng, (conv, ("x", "w"), "y"), arrays, 256, lanes)


def _depthwise(rng: Generator) -> Workload:
    """3x3 windows, 14x14, 512 channels."""
    lanes = host().lanes(4)
    packed = operators.pack_depthwise_conv2d(rng.standard_normal((512, 1, 3, 3), np.float32), lanes)
    arrays = {"x": _image(rng, 512, 14, lanes), "w": packed}

    def conv(x: te.Tensor, w: te.Tensor, name: str) -> te.Tensor:
        return operators.depthwise_conv2d(x, w, pads=1, layout=f"NCHW{lanes}c", name=name)

    return _with_batch_norm(rng, (conv, ("x", "w"), "y"), arrays, 512, lanes)


def _image(rng: Generator, channels: int, size: int, lanes: int) -> Array:
    """An image in blocks of channels."""
    return rng.standard_normal((1, channels // lanes, size, size, lanes), np.float32)


def _with_batch_norm(rng: Generator, conv: Stage, arrays: Arrays, channels: int, lanes: int) -> Workload:
    """A convolution, batch normalisation (a product and a sum, as there), and ReLU."""
    for name in ("factor", "shift"):
        arrays[name] = rng.uniform(0.5, 1.5, (channels // lanes, 1, 1, lanes)).astype(np.float32)

    epilogue: list[Stage] = [
        (operators.multiply, ("y", "factor"), "scaled"),
        (operators.add, ("scaled", "shift"), "normal"),
        (operators.relu, ("normal",), "z"),
    ]
    return [conv, *epilogue], arrays, ["z"]


def _lstm(rng: Generator) -> Workload:
    """A cell of 128 hidden units at batch 1, one kernel for each ONNX operator."""
    lanes = host().lanes(4)
    arrays = {name: rng.standard_normal((1, _HIDDEN), np.float32) for name in ("x", "h", "c")}
    for name in ("w", "r"):
        arrays[name] = operators.pack_dense(rng.normal(0, 0.1, (4 * _HIDDEN, _HIDDEN)).astype(np.float32))
    arrays["b"] = rng.standard_normal((1, 4 * _HIDDEN), np.float32)

    def dense(x: te.Tensor, w: te.Tensor, name: str) -> te.Tensor:
        return operators.dense(x, w, weight_layout=f"OI{lanes}o", name=name)

    def part(number: int) -> Callable[..., te.Tensor]:
        start = number * _HIDDEN
        return lambda gates, name: operators.slice(gates, [start], [start + _HIDDEN], [1], name=name)

    gates: list[Stage] = [
        (dense, ("x", "w"), "from_x"),
        (dense, ("h", "r"), "from_h"),
        (operators.add, ("from_x", "from_h"), "both"),
        (operators.add, ("both", "b"), "gates"),
    ]
    functions: list[tuple[str, Any]] = [
        ("i", operators.sigmoid),
        ("o", operators.sigmoid),
        ("f", operators.sigmoid),
        ("g", operators.tanh),
    ]
    for number, (name, function) in enumerate(functions):
        gates += [(part(number), ("gates",), f"{name}_gate"), (function, (f"{name}_gate",), name)]
    state: list[Stage] = [
        (operators.multiply, ("f", "c"), "kept"),
        (operators.multiply, ("i", "g"), "new"),
        (operators.add, ("kept", "new"), "cell"),
        (operators.tanh, ("cell",), "squashed"),
        (operators.multiply, ("o", "squashed"), "hidden"),
    ]
    return [*gates, *state], arrays, ["cell", "hidden"]
