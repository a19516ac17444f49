# SPDX-License-Identifier: Apache-2.0
"""ResNet-18 as one program on pynq_z1: cycles, share of the bound, and the time to simulate it.

Weights are random. The result equals that of the operators one after another. Offloaded cycles are
those of C2 to C12 and of the residual additions; the bound share is over all convolutions. Times to
simulate are CPU seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import numpy as np
from numpy.random import Generator, default_rng

from vdla.benchmarks.harness import BenchmarkResult, Row, receipt, total
from vdla.compiler.operators.workload_bound import bound
from vdla.compiler.operators.workloads import Workload, workload
from vdla.compiler.templates import Chain, ChainStep, Operator, conv2d, dense, pool2d, residual_add
from vdla.hardware.config import Config
from vdla.hardware.program import input_tensors
from vdla.runtime.executor.operator_cycles import operator_cycles
from vdla.simulator.simulate import simulate
from vdla.simulator.stats import RunStats
from vdla.support.arrays import Array
from vdla.support.progress import Progress, numbered, silent

PRESET = "pynq_z1"
REPEATS = 5
FACTORS = (3, 2)  # of the residual additions
# Rows, channels, first and other convolutions and projection of each stage.
STAGES = (
    (56, 64, "C2", "C2", None),
    (28, 128, "C4", "C6", "C5"),
    (14, 256, "C7", "C9", "C8"),
    (7, 512, "C10", "C12", "C11"),
)

Arrays = dict[str, Array]


def resnet18_chain(config: Config) -> Chain:
    """ResNet-18 from the patches of its image to its 1,000 classes."""
    operators: dict[tuple[str, str], Operator] = {}

    def conv(name: str, activation: str, source: str, output: str) -> ChainStep:
        if (name, activation) not in operators:
            operators[name, activation] = _convolution(workload(name), config, activation)
        return ChainStep(f"{name}.{output}", operators[name, activation], {"data": source, "output": output})

    pool = pool2d(config, kind="max", batch=1, height=112, width=112, channels=64, kernel=3, strides=2, pads=1)
    mean = pool2d(config, kind="average", batch=1, height=7, width=7, channels=512, kernel=7)
    classes = dense(config, rows=1, in_features=512, out_features=1000)
    steps = [conv("C1", "relu", "image", "conv1"), ChainStep("pool1", pool, {"data": "conv1", "output": "x0"})]
    for stage, (rows, channels, first, other, projection) in enumerate(STAGES):
        add = residual_add(
            config, batch=1, height=rows, width=rows, channels=channels, factors=FACTORS, activation="relu"
        )
        for block in (2 * stage, 2 * stage + 1):
            x, strided = f"x{block}", block % 2 == 0 and projection is not None
            steps.append(conv(first if block % 2 == 0 else other, "relu", x, f"a{block}"))
            if strided:
                steps.append(conv(str(projection), "none", x, f"p{block}"))
            steps.append(conv(other, "none", f"a{block}", f"b{block}"))
            operands = {"data": f"b{block}", "other": f"p{block}" if strided else x, "output": f"x{block + 1}"}
            steps.append(ChainStep(f"add{block}", add, operands))
    steps.append(ChainStep("pool2", mean, {"data": f"x{2 * len(STAGES)}", "output": "mean"}))
    steps.append(ChainStep("classes", classes, {"data": "mean", "output": "y"}))
    return Chain(config, "resnet18", tuple(steps), ("y",))


def _convolution(layer: Workload, config: Config, activation: str) -> Operator:
    return conv2d(
        config,
        batch=layer.batch,
        height=layer.height,
        width=layer.width,
        in_channels=layer.in_channels,
        out_channels=layer.out_channels,
        kernel=layer.kernel,
        strides=layer.strides,
        pads=layer.pads,
        activation=activation,
        chained=True,
        name=layer.name,
    )


def random_inputs(chain: Chain, seed: int) -> Arrays:
    """An image and weights over their whole range; multipliers that keep the spread of results."""
    rng, layer = default_rng(seed), workload("C1")
    image = rng.integers(-128, 128, (1, layer.in_channels, layer.height, layer.width), np.int8)
    inputs = chain.pack_input("image", image)
    for step in chain.steps:
        inputs |= chain.pack_constants(step.name, *_constants(step.operator.name, rng))
    return inputs


def _constants(name: str, rng: Generator) -> tuple[Any, ...]:
    match name:
        case "residual_add":
            return (None, 1 / np.hypot(*FACTORS))
        case "max_pool2d" | "average_pool2d":
            return ()
        case "dense":
            shape: tuple[int, ...] = (1000, 512)
        case _:
            layer = workload(name)
            shape = (layer.out_channels, layer.in_channels, layer.kernel, layer.kernel)
    weight = rng.integers(-128, 128, shape, np.int8)
    return weight, rng.integers(-999, 999, shape[0]), 1 / (74 * np.sqrt(np.prod(shape[1:])))


def step_by_step(chain: Chain, inputs: Arrays) -> Arrays:
    """All tensors of the chain, from one program a step."""
    held = dict(inputs)
    for step in chain.steps:
        program = step.operator.program
        packed = {tensor.name: held[step.tensor(tensor.name)] for tensor in input_tensors(program)}
        held[step.tensor("output")] = simulate(program, packed, mode="function").outputs["output"]
    return held


def rows_of(chain: Chain, stats: RunStats) -> Iterator[Row]:
    """A row for each step; the bound of steps other than convolutions is 0."""
    costs = operator_cycles(chain.program, stats, chain.lines) or ()
    for step, cost in zip(chain.steps, costs, strict=True):
        name = step.operator.name
        limit = bound(workload(name), chain.config).cycles if name.startswith("C") else 0
        yield {"step": step.name, "cycles": cost.cycles, "bound_cycles": limit}


def _cpu_seconds(work: Callable[[], object]) -> float:
    """CPU time, which other processes on the machine do not change much."""
    start = time.process_time()
    work()
    return time.process_time() - start


def run(progress: Progress = silent, seed: int = 0) -> BenchmarkResult:
    """The chain compiled, compared with its steps, timed."""
    config = Config.preset(PRESET)
    step = numbered(progress, 3)
    step("compile")
    start = time.perf_counter()
    chain = resnet18_chain(config)
    program = chain.program
    compile_seconds = time.perf_counter() - start
    step("simulate")
    inputs = random_inputs(chain, seed)
    result = simulate(program, inputs)
    simulate_seconds = median(_cpu_seconds(lambda: simulate(program, inputs)) for _ in range(REPEATS))
    step("compare")
    exact = np.array_equal(result.outputs["y"], step_by_step(chain, inputs)["y"])
    step("done")
    stats = result.statistics
    rows = list(rows_of(chain, stats))
    convolutions = [row for row in rows if row["bound_cycles"]]
    offloaded = [row for row in rows if row["step"].startswith(("add", "C")) and row["step"] != "C1.conv1"]
    figures = {
        "offloaded_cycles": total(offloaded, "cycles"),
        "bound_share": round(total(convolutions, "bound_cycles") / total(convolutions, "cycles"), 4),
        "cycles": stats.total_cycles,
        "instructions": len(program),
        "compile_seconds": round(compile_seconds, 3),
        "simulate_seconds": round(simulate_seconds, 4),
        "real_time_ratio": round(simulate_seconds / stats.seconds, 2),
        "all_exact": int(exact),
    }
    return BenchmarkResult("chain", figures, rows, receipt(config, [program], seed, f"vdla bench chain --seed {seed}"))
