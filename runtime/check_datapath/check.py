"""A check of datapaths: random steps, as the machine spaces them, against the tensor expressions.

Between steps the operands are noise. So a datapath that takes longer than it says, or looks at
operands that are not those of a step, is found; one that keeps another state, by what later steps
compute from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.hardware.config import Config, ConfigError
from vdla.hardware.generate.datapath_ports import unit_of_part
from vdla.hardware.isa import PlugIn, PlugInStage, PlugInUnit
from vdla.runtime.check_datapath.bench import DatapathBench, build_bench
from vdla.runtime.check_datapath.steps import LATER, DatapathStep, RandomSteps, result_port, unpacked
from vdla.support.errors import Error

Array = NDArray[Any]


class DatapathMismatch(Error, AssertionError):
    """A datapath computes something else than its tensor expressions, or at another time."""


def check_datapath(config: Config, part: PlugIn | PlugInStage, *, seed: int = 0) -> int:
    """Compares a datapath of a machine with the expressions that declare it.

    `part` is an extension of the machine, or its stage: all parts that share its datapath, and so
    its private state, are checked together. Returns the number of results that were compared.

    Raises:
        DatapathMismatch: a result differs; the message has the first one.
        ConfigError: the part has no datapath, or one that no machine can have.
        ExtensionError: its declaration is not loaded.
        DeviceError: Verilator or a compiler is missing, or refuses the module.
    """
    if part.datapath is None:
        raise ConfigError(f"check_datapath: extension must have a datapath, got {part.name} without one")
    unit = unit_of_part(config, part)
    bench = build_bench(config, unit)
    rng = np.random.default_rng(seed)
    steps = list(RandomSteps(config, unit, rng).draw())
    data = bench.run(_cycles(unit, bench, steps, rng).tobytes())
    outputs = np.frombuffer(data, np.uint8).reshape(-1, bench.output_bytes)
    shape = (config.batch, config.block_out)
    found = {port.name: unpacked(outputs[:, place], port, shape) for port, place in bench.outputs.items()}
    return _require_equal(unit, steps, found)


def _cycles(
    unit: PlugInUnit, bench: DatapathBench, steps: Sequence[DatapathStep], rng: np.random.Generator
) -> NDArray[np.uint8]:
    """The inputs of all cycles: noise, but for steps and where none is valid."""
    places = {port.name: place for port, place in bench.inputs.items()}
    count = max(step.cycle + step.latency for step in steps) + LATER + 1
    found = rng.integers(0, 256, (count, bench.input_bytes), np.uint8)
    for port, place in bench.inputs.items():
        if port.name.endswith("valid_i") and port.bits == 1:
            found[:, place] = 0
    for step in steps:
        for name, data in step.inputs.items():
            found[step.cycle, places[name]] = np.frombuffer(data, np.uint8)
    return found


# --- the comparison -------------------------------------------------------------------------------


def _require_equal(unit: PlugInUnit, steps: Sequence[DatapathStep], found: Mapping[str, Array]) -> int:
    """The number of results; DatapathMismatch if one differs."""
    compared = 0
    for number, step in enumerate(steps):
        if step.result is None:
            continue
        compared += 1
        port = result_port(unit, step)
        got = found[port][step.cycle + step.latency]
        if np.array_equal(got, step.result):
            continue
        row, column = (int(index) for index in np.argwhere(got != step.result)[0])
        values = "".join(f", {name} = {value}" for name, value in step.values.items())
        where = f"datapath of {unit.name}: {port}[{row}][{column}] of step {number}{values}"
        text = f"must be {step.result[row, column]} {_in_words(step.latency)} after it, got {got[row, column]}"
        own = [each for each in steps if each.part == step.part]
        raise DatapathMismatch(f"{where} {text}{_remedy(step.part, own, found[port])}")
    return compared


def _remedy(part: PlugIn | PlugInStage, steps: Sequence[DatapathStep], found: Array) -> str:
    """The latency with which all results are right, if there is one: a constant, or the declared
    formula and a constant.
    """
    most = max(step.latency for step in steps)
    for other in range(most + LATER + 1):
        if _right(steps, found, [other] * len(steps)):
            return f"; all results are right {_in_words(other)} after their steps: declare latency={other}"
    if isinstance(part, PlugInStage) or not part.latency.names:
        return ""
    for more in range(-min(step.latency for step in steps), LATER + 1):
        if _right(steps, found, [step.latency + more for step in steps]):
            way, sign = ("earlier", "-") if more < 0 else ("later", "+")
            formula = f"{part.latency.text} {sign} {abs(more)}"
            return f'; all results are right {_in_words(abs(more))} {way}: declare latency="{formula}"'
    return ""


def _right(steps: Sequence[DatapathStep], found: Array, latencies: Sequence[int]) -> bool:
    """Whether all results are right after other latencies."""
    pairs = zip(steps, latencies, strict=True)
    return all(
        step.result is not None and np.array_equal(found[step.cycle + latency], step.result) for step, latency in pairs
    )


def _in_words(count: int) -> str:
    return f"{count} cycle{'' if count == 1 else 's'}"
