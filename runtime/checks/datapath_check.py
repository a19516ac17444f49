# SPDX-License-Identifier: Apache-2.0
"""A check of datapaths: random steps, as the machine spaces them, against the tensor expressions.

Between steps the operands are random. This detects a datapath that takes longer than declared, or
that reads operands outside a step; a wrong state is detected by the results of later steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.hardware.config import Config, ConfigError
from vdla.hardware.generate.datapath_ports import unit_of_part
from vdla.hardware.isa import PlugIn, PlugInStage, PlugInUnit
from vdla.runtime.checks.datapath_bench import DatapathBench, build_bench
from vdla.runtime.checks.datapath_steps import LATER, DatapathStep, RandomSteps, result_port, unpacked
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
    checked = _CheckedUnit(config, unit, build_bench(config, unit), seed)
    steps, outputs = checked.outcome()
    number = _first_wrong(unit, steps, outputs)
    if number is None:
        return sum(step.result is not None for step in steps)
    step = steps[number]
    results = outputs[result_port(unit, step)]
    part_steps = [item for item in steps if item.part == step.part]
    remedy = _other_latency(step.part, part_steps, results) or checked.other_spacing()
    raise DatapathMismatch(f"{_difference(unit, number, step, results)}{remedy}")


@dataclass(frozen=True, slots=True)
class _CheckedUnit:
    """A unit of a machine and the program of its datapath."""

    config: Config
    unit: PlugInUnit
    bench: DatapathBench
    seed: int

    def outcome(self, apart: int = 0) -> tuple[list[DatapathStep], dict[str, Array]]:
        """Random steps, `apart` cycles more from one to the next, and each output in all cycles."""
        rng = np.random.default_rng(self.seed)
        steps = list(RandomSteps(self.config, self.unit, rng, apart).draw())
        data = self.bench.run(_cycles(self.bench, steps, rng).tobytes())
        outputs = np.frombuffer(data, np.uint8).reshape(-1, self.bench.output_bytes)
        shape = (self.config.batch, self.config.block_out)
        places = self.bench.outputs.items()
        return steps, {port.name: unpacked(outputs[:, place], port, shape) for port, place in places}

    def other_spacing(self) -> str:
        """How many cycles more from step to step make all results right, where there is state."""
        for apart in range(1, LATER + 1) if any(part.states for part in self.unit.parts) else ():
            if _first_wrong(self.unit, *self.outcome(apart)) is None:
                return f"; all results are right with steps {_in_words(apart)} further apart: declare a longer interval"
        return ""


def _cycles(bench: DatapathBench, steps: Sequence[DatapathStep], rng: np.random.Generator) -> NDArray[np.uint8]:
    """The inputs of all cycles: those of the steps, random bits in between with `valid` low."""
    places = {port.name: place for port, place in bench.inputs.items()}
    count = max(step.cycle + step.latency for step in steps) + LATER + 1
    result = rng.integers(0, 256, (count, bench.input_bytes), np.uint8)
    for port, place in bench.inputs.items():
        if port.name.endswith("valid_i") and port.bits == 1:
            result[:, place] = 0
    for step in steps:
        for name, data in step.inputs.items():
            result[step.cycle, places[name]] = np.frombuffer(data, np.uint8)
    return result


# --- the comparison -------------------------------------------------------------------------------


def _first_wrong(unit: PlugInUnit, steps: Sequence[DatapathStep], outputs: Mapping[str, Array]) -> int | None:
    """The number of the first step whose result differs."""
    for number, step in enumerate(steps):
        if step.result is None:
            continue
        if not np.array_equal(outputs[result_port(unit, step)][step.cycle + step.latency], step.result):
            return number
    return None


def _difference(unit: PlugInUnit, number: int, step: DatapathStep, output: Array) -> str:
    """The first element of a result that differs."""
    got, wanted = output[step.cycle + step.latency], step.result
    assert wanted is not None, "a result differs"
    row, column = (int(index) for index in np.argwhere(got != wanted)[0])
    values = "".join(f", {name} = {value}" for name, value in step.values.items())
    what = f"datapath of {unit.name}: {result_port(unit, step)}[{row}][{column}] of step {number}{values}"
    where = f"{step.part.place}: {what}"
    return f"{where} must be {wanted[row, column]} {_in_words(step.latency)} after it, got {got[row, column]}"


def _other_latency(part: PlugIn | PlugInStage, steps: Sequence[DatapathStep], output: Array) -> str:
    """The latency with which all results are right, if there is one: a constant, or the declared
    formula and a constant.
    """
    most = max(step.latency for step in steps)
    for other in range(most + LATER + 1):
        if _right(steps, output, [other] * len(steps)):
            return f"; all results are right {_in_words(other)} after their steps: declare latency={other}"
    if isinstance(part, PlugInStage) or not part.latency.names:
        return ""
    for more in range(-min(step.latency for step in steps), LATER + 1):
        if _right(steps, output, [step.latency + more for step in steps]):
            way, sign = ("earlier", "-") if more < 0 else ("later", "+")
            formula = f"{part.latency.text} {sign} {abs(more)}"
            return f'; all results are right {_in_words(abs(more))} {way}: declare latency="{formula}"'
    return ""


def _right(steps: Sequence[DatapathStep], output: Array, latencies: Sequence[int]) -> bool:
    """Whether all results are right after other latencies."""
    pairs = zip(steps, latencies, strict=True)
    return all(
        step.result is not None and np.array_equal(output[step.cycle + latency], step.result) for step, latency in pairs
    )


def _in_words(count: int) -> str:
    return f"{count} cycle{'' if count == 1 else 's'}"
