"""A check of datapaths: random steps, as the machine spaces them, against the tensor expression.

Steps follow each other at the interval that the fields give, or later; between them the operands
are noise. So a datapath that takes longer than it says, or looks at operands that are not those of
a step, is found.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.extensions import Extension, extension_of
from vdla.compiler.interpret import interpret
from vdla.compiler.ir import limits, storage_dtype
from vdla.hardware.config import Config, ConfigError
from vdla.hardware.generate.datapath_ports import DatapathPort, unit_of_part
from vdla.hardware.isa import OldSum, PlugIn, isa_of
from vdla.hardware.timing import extension_step
from vdla.runtime.check_datapath.bench import DatapathBench, build_bench
from vdla.support.errors import Error

INSTRUCTIONS, STEPS = 12, 5
"""Random instructions, each with fields of its own, and the steps of each."""
_LONGEST = 64  # cycles from a step to the next; fields for which they are more are drawn again
_LATER = 4  # cycles beyond the latency after which a result is looked for
Array = NDArray[Any]


class DatapathMismatch(Error, AssertionError):
    """A datapath computes something else than its tensor expression, or at another time."""


@dataclass(frozen=True, slots=True)
class _Step:
    """A step: the cycle of its operands, their bits, what it must compute and after how long."""

    cycle: int
    latency: int
    begins: bool
    bits: bytes
    result: Array
    fields: Mapping[str, int]


def check_datapath(config: Config, plug_in: PlugIn, *, seed: int = 0) -> int:
    """Compares the datapath of a plug-in of a machine with the expression that declares it.

    Returns the number of steps that were compared.

    Raises:
        DatapathMismatch: a result differs; the message has the first one.
        ConfigError: the plug-in has no datapath, or one that no machine can have.
        ExtensionError: its declaration is not loaded.
        DeviceError: Verilator or a compiler is missing, or refuses the module.
    """
    if plug_in.datapath is None:
        raise ConfigError(f"check_datapath: extension must have a datapath, got {plug_in.name} without one")
    if len(unit_of_part(config, plug_in).parts) > 1 or plug_in.states:
        raise ConfigError(f"check_datapath: {plug_in.name} must be an instruction alone, without state")
    bench = build_bench(config, plug_in)
    rng = np.random.default_rng(seed)
    steps = list(_steps(config, plug_in, extension_of(config, plug_in), bench, rng))
    cycles = steps[-1].cycle + max(step.latency for step in steps) + _LATER + 1
    noise = rng.integers(0, 256, (cycles, 2 + bench.operand_bytes), np.uint8)
    noise[:, :2] = 0
    for step in steps:
        noise[step.cycle] = np.frombuffer(bytes([1, step.begins]) + step.bits, np.uint8)
    shape = (config.batch, config.block_out)
    results = np.frombuffer(bench.run(noise.tobytes()), np.uint8).reshape(cycles, bench.result_bytes)
    found = np.ascontiguousarray(results[:, : 4 * shape[0] * shape[1]]).view("<i4").reshape(cycles, *shape)
    _require_equal(plug_in, steps, found)
    return len(steps)


# --- steps ----------------------------------------------------------------------------------------


def _steps(
    config: Config, plug_in: PlugIn, extension: Extension, bench: DatapathBench, rng: np.random.Generator
) -> Iterator[_Step]:
    cycle = 1
    for _ in range(INSTRUCTIONS):
        fields, spacing, latency = _fields(config, plug_in, rng)
        for _ in range(STEPS):
            arrays = _arrays(extension, fields, rng)
            result = interpret(extension.behaviour, arrays)[extension.behaviour.params[-1]]
            begins = plug_in.old is OldSum.ACCUMULATE and bool(rng.integers(2))
            bits = _bits(plug_in, extension, bench, arrays, fields)
            own = {each.name: fields[each.name] for each in plug_in.fields}
            yield _Step(cycle, latency, begins, bits, result, own)
            cycle += spacing + int(rng.integers(3) if rng.integers(2) else 0)
        cycle += latency + _LATER


def _fields(config: Config, plug_in: PlugIn, rng: np.random.Generator) -> tuple[dict[str, int], int, int]:
    """Random fields of a valid instruction, the cycles from one of its steps to the next and to
    their results.
    """
    slots = next(found for found in isa_of(config).formats.values() if found.plug_in == plug_in).values
    spans = {slot.field.name: (slot.low, slot.high) for slot in slots}
    while True:
        fields = {name: _drawn(rng, *span) for name, span in spans.items()}
        spacing = int(extension_step(plug_in, fields.__getitem__))
        latency = int(plug_in.latency.value(fields.__getitem__))
        if int(plug_in.interval.value(fields.__getitem__)) >= 1 and latency >= 0 and spacing <= _LONGEST:
            return fields, spacing, latency


def _drawn(rng: np.random.Generator, low: int, high: int) -> int:
    """A limit, a small value or any."""
    small = (max(low, -4), min(high, 4))
    span = [(low, low), (high, high), small, small, (low, high)][rng.integers(5)]
    return int(rng.integers(span[0], span[1] + 1))


def _arrays(extension: Extension, fields: Mapping[str, int], rng: np.random.Generator) -> dict[str, Array]:
    arrays = {}
    for name in extension.behaviour.params[:-1]:
        buffer = extension.behaviour.buffers[name]
        if extension.scopes[name] == "immediate":
            arrays[name] = np.array([fields[name]], storage_dtype(buffer.dtype))
            continue
        low, high = (int(limit) for limit in limits(buffer.dtype))
        shape = tuple(buffer.dims)
        values, extremes = rng.integers(low, high + 1, shape), rng.choice([low, high, 0, -1, 1], shape)
        drawn = np.where(rng.integers(0, 3, shape) == 0, extremes, values)
        arrays[name] = drawn.astype(storage_dtype(buffer.dtype))
    return arrays


def _bits(
    plug_in: PlugIn, extension: Extension, bench: DatapathBench, arrays: Mapping[str, Array], fields: Mapping[str, int]
) -> bytes:
    """The operands of a step as the pins of the bench have them."""
    operands = {"old_i": extension.in_place}
    operands |= {f"{index}_i": port.operand for index, port in (("src", plug_in.src), ("wgt", plug_in.wgt)) if port}
    word, offset = 0, 0
    for port in bench.operands:
        operand = operands.get(port.name)
        value = fields[port.name.removesuffix("_i")] if operand is None else _packed(arrays[operand], port)
        word |= (value & (1 << port.bits) - 1) << offset
        offset += port.bits
    return word.to_bytes(bench.operand_bytes, "little")


def _packed(array: Array, port: DatapathPort) -> int:
    """The elements of an operand side by side, the first in the low bits."""
    width = port.bits // array.size
    mask = (1 << width) - 1
    return sum((int(value) & mask) << (width * place) for place, value in enumerate(array.reshape(-1).tolist()))


# --- the comparison -------------------------------------------------------------------------------


def _require_equal(plug_in: PlugIn, steps: list[_Step], found: Array) -> None:
    for number, step in enumerate(steps):
        got = found[step.cycle + step.latency]
        if np.array_equal(got, step.result):
            continue
        row, column = (int(index) for index in np.argwhere(got != step.result)[0])
        values = "".join(f", {name} = {value}" for name, value in step.fields.items())
        where = f"datapath of {plug_in.name}: result_o[{row}][{column}] of step {number}{values}"
        text = f"must be {step.result[row, column]} {_cycles(step.latency)} after it, got {got[row, column]}"
        raise DatapathMismatch(f"{where} {text}{_remedy(plug_in, steps, found)}")


def _remedy(plug_in: PlugIn, steps: list[_Step], found: Array) -> str:
    """The latency with which all results are right, if there is one: a constant, or the declared
    formula and a constant.
    """
    most = max(step.latency for step in steps)
    for other in range(most + _LATER + 1):
        if all(np.array_equal(found[step.cycle + other], step.result) for step in steps):
            return f"; all results are right {_cycles(other)} after their steps: declare latency={other}"
    for more in range(-min(step.latency for step in steps), _LATER + 1) if plug_in.latency.names else ():
        if all(np.array_equal(found[step.cycle + step.latency + more], step.result) for step in steps):
            way, sign = ("earlier", "-") if more < 0 else ("later", "+")
            formula = f"{plug_in.latency.text} {sign} {abs(more)}"
            return f'; all results are right {_cycles(abs(more))} {way}: declare latency="{formula}"'
    return ""


def _cycles(count: int) -> str:
    return f"{count} cycle{'' if count == 1 else 's'}"
