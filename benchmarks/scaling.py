# SPDX-License-Identifier: Apache-2.0
"""How time and memory grow with the instructions of a program and with the operators of a network.

Programs are products with a weight of 1,024 x 1,024 and more and more rows, of 600 to 130,000
instructions, half a million with the long form; of each, what it takes to compile it from its
template, to execute it without times (`function`), to time it, to verify and to certify it.
Networks are chains of residual blocks of int8 convolutions, of 10 to 200 operators, 2,000 with
the long form, which are compiled for a machine and for this CPU, with nothing cached.

Every point is measured in a process of its own: CPU seconds, and MiB, by which the memory in use
was greater at its peak than before. `NAME_time_slope` and `NAME_memory_slope` are the slopes of
lines through the logarithms, 1 for what is linear; constant costs make them less, so that
`NAME_time_last_slope` has that between the two largest. Memory of less than MIN_MIB is no point of
a line. `verify_over_timing` compares the largest programs.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from vdla.benchmarks.harness import BenchmarkResult, Figures, Row, receipt
from vdla.charts.plots import Growth, growth
from vdla.compiler.certificates.certify import certify
from vdla.compiler.templates import dense
from vdla.hardware.config import Config
from vdla.hardware.isa import columns
from vdla.hardware.program import Program
from vdla.networks.network_builder import NetworkBuilder
from vdla.networks.quantised_values import dequantised, requantised
from vdla.runtime.network.compile_network import compile_network
from vdla.simulator.function import execute
from vdla.simulator.simulate import dram_image
from vdla.simulator.timing import time_program
from vdla.simulator.verify import verify
from vdla.support.atomic import write_text
from vdla.support.progress import Progress, numbered, silent
from vdla.verification.programs.random_data import random_arrays

if TYPE_CHECKING:
    from onnx import ModelProto

PRESET = "pynq_z1"
FEATURES = 1024
ROWS = (8, 128, 896)  # of some 650, 17,000 and 134,000 instructions
MOST_ROWS = 8000  # 536,000
OPERATORS = (10, 50, 200)
MOST_OPERATORS = (500, 2000)
CHANNELS, SIDE = 16, 8
SCALE = 0.05
MIN_MIB = 4.0

Action = Callable[[int, Path], Callable[[], object]]
"""From a size and an empty folder: prepares, and returns what is measured."""


def run(progress: Progress = silent, seed: int = 0, long: bool = False, picture: str = "") -> BenchmarkResult:
    """A row for each size of each subject; the slopes, and `picture`, their file as SVG."""
    programs = (*ROWS, MOST_ROWS) if long else ROWS
    networks = (*OPERATORS, *MOST_OPERATORS) if long else OPERATORS
    sizes = {name: networks if name in OF_NETWORKS else programs for name in ACTIONS}
    step = numbered(progress, sum(map(len, sizes.values())))
    rows: list[Row] = []
    for name, of_subject in sizes.items():
        for size in of_subject:
            step(f"{name} {size}")
            rows.append({"subject": name, **measured_alone(name, size)})
    step("done")
    if picture:
        write_text(Path(picture), picture_of(rows))
    command = f"vdla bench scaling --seed {seed}" + " --long" * long
    made = receipt(Config.preset(PRESET), [], seed, command)
    return BenchmarkResult("scaling", figures_of(rows), rows, made)


def figures_of(rows: list[Row]) -> Figures:
    """The slopes of each subject, and the time of verifying over that of timing."""
    figures: Figures = {}
    for name in dict.fromkeys(row["subject"] for row in rows):
        points = [row for row in rows if row["subject"] == name]
        large = [row for row in points if row["mib"] >= MIN_MIB]
        seconds = [(row["size"], row["seconds"]) for row in points]
        figures[f"{name}_time_slope"] = slope(seconds)
        figures[f"{name}_time_last_slope"] = slope(seconds[-2:])
        if len(large) > 1:
            figures[f"{name}_memory_slope"] = slope([(row["size"], row["mib"]) for row in large])
    last = {row["subject"]: row["seconds"] for row in rows}
    if {"verify", "timing"} <= last.keys():
        figures["verify_over_timing"] = round(last["verify"] / last["timing"], 2)
    return figures


def slope(points: list[tuple[float, float]]) -> float:
    """The slope of the line through the logarithms of points, by least squares."""
    sizes, values = np.log(np.array(points, np.float64)).T
    return round(float(np.polyfit(sizes, values, 1)[0]), 3)


def picture_of(rows: list[Row]) -> str:
    """CPU seconds against sizes."""
    names = list(dict.fromkeys(row["subject"] for row in rows))
    curves = [
        Growth(name, [(row["size"], row["seconds"]) for row in rows if row["subject"] == name], series)
        for series, name in enumerate(names)
    ]
    return growth("Time by size", ("instructions, or operators of a network", "CPU seconds"), curves)


# --- a point, in a process of its own -------------------------------------------------------------


def measured_alone(name: str, size: int) -> Row:
    """The size of a subject, its CPU seconds and MiB."""
    with get_context("spawn").Pool(1) as pool:
        result: Row = pool.apply(_measure, (name, size))
    return result


def _measure(name: str, size: int) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["VDLA_CERTIFICATE"] = "0"
        prepare = ACTIONS[name]
        prepare(min(ROWS[0], size), Path(folder))()  # imports, and loads compiled loops
        action = prepare(size, Path(folder))
        before = _forget_peak()
        start = time.process_time()
        result = action()
        seconds = time.process_time() - start
        mib = (_status("VmHWM") - before) / 1024
    count = len(result) if isinstance(result, Program) else size
    return {"size": count, "seconds": round(seconds, 4), "mib": round(max(mib, 0.0), 1)}


def _forget_peak() -> int:
    """The KiB in use; the greatest so far is forgotten, where Linux permits that."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return _status("VmHWM")
    return _status("VmRSS")


def _status(field: str) -> int:
    """A field of this process's status in KiB; 0 where there is none."""
    path = Path("/proc/self/status")
    lines = path.read_text(encoding="ascii").splitlines() if path.exists() else []
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{field}:")), 0)


# --- subjects -------------------------------------------------------------------------------------


def _program(rows: int) -> Program:
    return dense(Config.preset(PRESET), rows=rows, in_features=FEATURES, out_features=FEATURES).program


def _of_program(action: Callable[[Program], object]) -> Action:
    """An action on a program, which it returns."""

    def prepare(rows: int, folder: Path) -> Callable[[], object]:
        path = folder / "program.vdla"
        _program(rows).save(path)
        program = Program.load(path)

        def run() -> Program:
            action(program)
            return program

        return run

    return prepare


def _compiled(rows: int, folder: Path) -> Callable[[], object]:
    return lambda: _program(rows)


def _function(program: Program) -> object:
    linked, dram = dram_image(program, random_arrays(program, 0))
    execute(program.config, columns(program.config, linked), dram)
    return dram


def _certified(rows: int, folder: Path) -> Callable[[], object]:
    operator = dense(Config.preset(PRESET), rows=rows, in_features=FEATURES, out_features=FEATURES)

    def run() -> Program:
        certify(operator, explain=False).raise_if_bad()
        return operator.program

    return run


def _network(target: Config | str) -> Action:
    """Compile a network, with nothing cached."""

    def prepare(operators: int, folder: Path) -> Callable[[], object]:
        os.environ["XDG_CACHE_HOME"] = str(folder)
        model = residual_chain(operators)

        def run() -> None:
            compile_network(model, target).close()

        return run

    return prepare


def residual_chain(operators: int) -> ModelProto:
    """Blocks of a 3x3 and a 1x1 convolution of 16 channels in int8, and the addition of the input.

    Every operator stands between DequantizeLinear and QuantizeLinear, as quantisers write it.
    """
    net = NetworkBuilder("residual_chain", 0)
    x = start = requantised(net, net.input("x", (1, CHANNELS, SIDE, SIDE)), SCALE, "q")
    for number in range(operators):
        match number % 3:
            case 2:
                made = net.node("Add", [x, start], f"add{number}")
            case place:
                kernel = 3 - 2 * place
                integers = net.random.integers(-127, 128, (CHANNELS, CHANNELS, kernel, kernel)).astype(np.int8)
                weight = dequantised(net, net.constant(f"w{number}", integers), SCALE / CHANNELS, f"f{number}")
                made = net.node("Conv", [x, weight], f"conv{number}", pads=[kernel // 2] * 4)
        x = requantised(net, made, SCALE, f"q{number}")
        if number % 3 == 2:
            start = x
    return net.model({x: (1, CHANNELS, SIDE, SIDE)})


OF_NETWORKS = ("network", "network_on_cpu")
ACTIONS: Mapping[str, Action] = {
    "compile": _compiled,
    "function": _of_program(_function),
    "timing": _of_program(time_program),
    "verify": _of_program(verify),
    "certify": _certified,
    "network": _network(Config.preset(PRESET)),
    "network_on_cpu": _network("host"),
}
