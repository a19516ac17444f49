# SPDX-License-Identifier: Apache-2.0
"""Random steps of all instructions of a unit, and results for its stage, as a machine spaces them.

Steps, instructions and results follow each other as closely as a machine lets them, or later. Rows
are written before they are read. What each step must compute is interpreted from its declaration,
with the states in arrays. Parts come in random order with any rows, then in the order of their
declaration on one row, so that what one writes goes through all others to a result. A function of
few bits gets all values of them at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.extensions import EmitStage, Extension, extension_of
from vdla.compiler.extensions.load import unit_with_stage
from vdla.compiler.interpret import interpret
from vdla.compiler.ir import limits, storage_dtype
from vdla.hardware.config import Config
from vdla.hardware.generate.datapath_ports import DatapathPort, prefix, result_name, step_ports
from vdla.hardware.isa import OldSum, PlugIn, PlugInStage, PlugInUnit, StatePort, isa_of
from vdla.hardware.timing import ISSUE_DELAY, extension_step, step_to_stage
from vdla.runtime.checks.all_values import MOST_BITS, StepValues, all_values, operand_bits

Array = NDArray[Any]


class StateModel:
    """The states of a unit; rows are undefined until they are written."""

    def __init__(self, unit: PlugInUnit) -> None:
        states = {port.state.name: port.state for part in unit.parts for port in part.states}
        self._rows = {
            name: np.zeros((state.rows, *state.shape), storage_dtype(state.dtype)) for name, state in states.items()
        }
        self._written = {name: np.zeros(state.rows, np.bool_) for name, state in states.items()}

    def written(self, port: StatePort) -> NDArray[np.bool_]:
        """Which rows of the state of a port are defined."""
        return self._written[port.state.name]

    def defined(self, part: PlugIn | PlugInStage) -> bool:
        """Whether a part can find rows that it may read."""
        reads = [port for port in part.states if port.operand is not None]
        return all(self.written(port).all() if port.whole else self.written(port).any() for port in reads)

    def value(self, port: StatePort, rows: Mapping[str, int]) -> Array:
        """What a part reads: the row of `rows`, or all."""
        held = self._rows[port.state.name]
        return held.copy() if port.whole else held[rows.get(port.state.name, 0)].copy()

    def write(self, port: StatePort, rows: Mapping[str, int], value: Array) -> None:
        """A new value of the row of `rows`."""
        row = rows.get(port.state.name, 0)
        self._rows[port.state.name][row] = value
        self._written[port.state.name][row] = True


INSTRUCTIONS, STEPS = 12, 5
"""Random instructions of each kind, each with fields of its own, and the steps of each."""
PASSES = 32
"""Instructions of each kind in the order of their declaration, where a unit has states."""
LATER = 4
"""Cycles beyond the latency after which a result is looked for."""
_LONGEST = 64  # cycles from a step to the next; fields for which they are more are drawn again
_MOST_BESIDE = 256  # results beside an instruction
_ROUNDS = 2  # of writing all rows: those of one state may read another


@dataclass(frozen=True, slots=True)
class DatapathStep:
    """A step: the cycle of its operands, the bytes of its ports, what it must compute and after how
    long; `values` has its fields and rows, `result` is None where it only writes rows.
    """

    part: PlugIn | PlugInStage
    cycle: int
    latency: int
    inputs: Mapping[str, bytes]
    result: Array | None
    values: Mapping[str, int]


class RandomSteps:
    """Draws the steps of a unit of a machine, `apart` cycles further apart than they must be."""

    def __init__(self, config: Config, unit: PlugInUnit, rng: np.random.Generator, apart: int = 0) -> None:
        self.config = config
        self.unit = unit
        self.rng = rng
        self.states = StateModel(unit)
        self.ports = {port.name: port for port in step_ports(config, unit)}
        self._declared: dict[str, Extension | EmitStage] = {
            plug_in.name: extension_of(config, plug_in) for plug_in in unit.plug_ins
        }
        if unit.stage is not None:
            declared = unit_with_stage(config, unit.stage).stage
            assert declared is not None, "found by its stage"
            self._declared[unit.stage.name] = declared
        self._apart = apart
        self._in_order = False
        """Whether parts come as declared, on the first row, where counts of rows begin."""
        self._steps_end = 1
        """The last step and its latency, after which comes the next instruction."""
        self._results_from = 1
        """The first cycle in which results may go through the stage."""
        self._results_end = 1
        """The last result there and the latency of the stage: until then it reads the same rows."""

    def draw(self) -> Iterator[DatapathStep]:
        """All steps; those of a cycle are of different parts."""
        for _ in range(_ROUNDS):
            for plug_in in self.unit.plug_ins:
                count = self._unwritten(plug_in)
                if count and self.states.defined(plug_in):
                    yield from self._instruction(plug_in, count)
        parts = [part for part in self.unit.parts if self.states.defined(part)]
        for number in self.rng.permutation(INSTRUCTIONS * len(parts)).tolist():
            yield from self._steps(parts[number % len(parts)])
        self._in_order = True
        for _ in range(PASSES if any(part.states for part in parts) else 0):
            for part in parts:
                yield from self._steps(part)
        for part in parts:
            if all(port.whole and not port.writes for port in part.states):
                yield from self._all_results() if isinstance(part, PlugInStage) else self._all_steps(part)

    def _unwritten(self, plug_in: PlugIn) -> int:
        """The most rows of a state that an instruction could write for the first time."""
        return max((int((~self.states.written(port)).sum()) for port in plug_in.states if port.writes), default=0)

    # --- an instruction, and results beside it

    def _steps(self, part: PlugIn | PlugInStage) -> Iterator[DatapathStep]:
        if isinstance(part, PlugInStage):
            return self._results(STEPS)
        any_number = self._in_order and not part.writes_sums
        return self._instruction(part, int(self.rng.integers(STEPS)) if any_number else STEPS)

    def _instruction(self, plug_in: PlugIn, steps: int) -> Iterator[DatapathStep]:
        known: list[StepValues | None] = [None] * steps
        yield from self._instruction_of(plug_in, self._fields(plug_in), known)

    def _instruction_of(
        self, plug_in: PlugIn, timed: tuple[dict[str, int], int, int], known: Iterable[StepValues | None]
    ) -> Iterator[DatapathStep]:
        """An instruction with these fields, spacing and latency, and a step for each of `known`."""
        fields, spacing, latency = timed
        rows: dict[str, int] = {}
        end = max(self._steps_end, self._results_end) if self._stage_reads(plug_in) else self._steps_end
        cycle = first = end + ISSUE_DELAY + spacing + self._apart + self._pause()
        for number, values in enumerate(known):
            cycle += number and spacing + self._apart + self._pause()
            rows = self._rows(plug_in, rows)
            yield self._step(plug_in, cycle, fields, rows, latency, values)
        self._steps_end = cycle + latency
        if not self._stage_reads(plug_in):
            yield from self._results_beside(max(first, self._results_from), cycle)
        else:
            self._results_from = cycle + step_to_stage(self.config, latency)

    def _pause(self) -> int:
        return int(self.rng.integers(3)) if self.rng.integers(2) else 0

    def _stage_reads(self, plug_in: PlugIn) -> bool:
        """Whether an instruction writes what the stage reads."""
        stage = self.unit.stage
        return stage is not None and not {port.state for port in stage.states}.isdisjoint(plug_in.written_states)

    def _results_beside(self, first: int, last: int) -> Iterator[DatapathStep]:
        """Results through the stage in some of the cycles in which an instruction has steps."""
        if self.unit.stage is None or not self.states.defined(self.unit.stage) or last < first:
            return
        chosen = first + np.flatnonzero(self.rng.integers(2, size=last + 1 - first))[:_MOST_BESIDE]
        yield from (self._result(cycle) for cycle in chosen.tolist())
        self._results_from = last + 1
        self._results_end = last + self.unit.stage.latency

    def _results(self, count: int) -> Iterator[DatapathStep]:
        """Results that nothing accompanies, from the first cycle on in which they may come."""
        yield from self._results_of([None] * count)

    def _results_of(self, known: Iterable[StepValues | None]) -> Iterator[DatapathStep]:
        cycle = self._results_from
        for values in known:
            yield self._result(cycle, values)
            cycle += 1 + self._pause()
        assert self.unit.stage is not None, "called for a stage"
        self._results_from = cycle
        self._results_end = cycle + self.unit.stage.latency

    def _result(self, cycle: int, known: StepValues | None = None) -> DatapathStep:
        stage = self.unit.stage
        assert stage is not None, "called for a stage"
        declared = self._declared[stage.name]
        assert isinstance(declared, EmitStage), "the declaration of a stage"
        entry = self._drawn(declared, stage.operand) if known is None else known.operands[stage.operand]
        arrays = {**self._tables(stage), stage.operand: entry}
        result = interpret(declared.behaviour, arrays)[declared.output.name] if known is None else known.result
        inputs = self._inputs(stage, {"valid_i": 1, f"{stage.operand}_i": entry})
        return DatapathStep(stage, cycle, stage.latency, inputs, result, {})

    def _step(
        self,
        plug_in: PlugIn,
        cycle: int,
        fields: Mapping[str, int],
        rows: Mapping[str, int],
        latency: int,
        known: StepValues | None,
    ) -> DatapathStep:
        declared = self._declared[plug_in.name]
        assert isinstance(declared, Extension), "the declaration of an instruction"
        arrays = dict(self._operands(declared, plug_in, fields, rows)) if known is None else known.operands
        outputs = (
            interpret(declared.behaviour, arrays) if known is None else {declared.behaviour.params[-1]: known.result}
        )
        writers = {port.state.name: port for port in plug_in.states if port.writes}
        for state, tensor in declared.updates.items():
            self.states.write(writers[state.name], rows, outputs[tensor.name])
        result = outputs[declared.output.name] if declared.output is not None else None
        indexed = {f"{name}_row_i": row for name, row in rows.items()}
        values = {field.name: fields[field.name] for field in plug_in.fields}
        operands = {f"{index}_i": arrays[port.operand] for index, port in plug_in.ports.indexed}
        if declared.in_place is not None:
            operands["old_i"] = arrays[declared.in_place]
        begins = plug_in.old is OldSum.ACCUMULATE and bool(self.rng.integers(2))
        controls = {"valid_i": 1, **({"begin_i": int(begins)} if plug_in.writes_sums else {})}
        scalars = {**controls, **indexed, **{f"{name}_i": value for name, value in values.items()}}
        named = {**values, **{f"row of {name}": row for name, row in rows.items()}}
        return DatapathStep(plug_in, cycle, latency, self._inputs(plug_in, {**scalars, **operands}), result, named)

    # --- all values of a few bits

    def _all_results(self) -> Iterator[DatapathStep]:
        """The stage on every value of the element that a lane reads."""
        stage = self.unit.stage
        assert stage is not None, "called for a stage"
        declared = self._declared[stage.name]
        assert isinstance(declared, EmitStage), "the declaration of a stage"
        drawn = (stage.operand,)
        if operand_bits(declared.output, declared.behaviour, drawn) <= MOST_BITS:
            values = all_values(declared.output, declared.behaviour, drawn, self._tables(stage), self.rng)
            yield from self._results_of(values)

    def _all_steps(self, plug_in: PlugIn) -> Iterator[DatapathStep]:
        """An instruction with every value of its fields, a step with each of what a lane reads."""
        declared = self._declared[plug_in.name]
        assert isinstance(declared, Extension), "the declaration of an instruction"
        if declared.output is None:
            return
        held = {port.operand for port in plug_in.states}
        scopes = declared.scopes.items()
        others = [name for name, scope in scopes if scope != "immediate" and name != declared.output.name]
        drawn = [name for name in others if name not in held]
        names = [field.name for field in plug_in.fields]
        spans = [range(low, high + 1) for name, (low, high) in self._spans(plug_in).items() if name in names]
        bits = operand_bits(declared.output, declared.behaviour, drawn)
        if not drawn or prod(map(len, spans)) << bits > 1 << MOST_BITS:
            return
        for chosen in product(*spans):
            fields, _, _ = self._fields(plug_in)
            timed = self._timed(plug_in, {**fields, **dict(zip(names, chosen, strict=True))})
            if timed is None:
                continue
            arrays = {**self._tables(plug_in), **self._immediates(declared, timed[0])}
            values = all_values(declared.output, declared.behaviour, drawn, arrays, self.rng)
            known = (StepValues({**arrays, **value.operands}, value.result) for value in values)
            yield from self._instruction_of(plug_in, timed, known)

    def _tables(self, part: PlugIn | PlugInStage) -> dict[str, Array]:
        """The values of the states that a part reads as a whole."""
        return {port.operand: self.states.value(port, {}) for port in part.states if port.operand is not None}

    def _immediates(self, declared: Extension, fields: Mapping[str, int]) -> dict[str, Array]:
        buffers = declared.behaviour.buffers
        names = [name for name, scope in declared.scopes.items() if scope == "immediate"]
        return {name: np.array([fields[name]], storage_dtype(buffers[name].dtype)) for name in names}

    # --- operands

    def _operands(
        self, declared: Extension, plug_in: PlugIn, fields: Mapping[str, int], rows: Mapping[str, int]
    ) -> Iterator[tuple[str, Array]]:
        held = {port.operand: port for port in plug_in.states}
        for name, scope in declared.scopes.items():
            if name in held:
                yield name, self.states.value(held[name], rows)
            elif scope == "immediate":
                yield name, np.array([fields[name]], storage_dtype(declared.behaviour.buffers[name].dtype))
            elif declared.output is None or name != declared.output.name:
                yield name, self._drawn(declared, name)

    def _drawn(self, declared: Extension | EmitStage, name: str) -> Array:
        """Any values, a third of them extremes, 0, 1 and -1."""
        buffer = declared.behaviour.buffers[name]
        low, high = (int(limit) for limit in limits(buffer.dtype))
        shape = tuple(buffer.dims)
        values = self.rng.integers(low, high + 1, shape)
        extremes = self.rng.choice([low, high, 0, max(low, -1), 1], shape)
        return np.where(self.rng.integers(0, 3, shape) == 0, extremes, values).astype(storage_dtype(buffer.dtype))

    def _rows(self, plug_in: PlugIn, before: Mapping[str, int]) -> dict[str, int]:
        """A row of each state that an instruction indexes: that of the step before, or any."""
        indexed = [port for port in plug_in.states if port.index is not None]
        return {port.state.name: self._row(port, before.get(port.state.name)) for port in indexed}

    def _row(self, port: StatePort, before: int | None) -> int:
        written = self.states.written(port)
        if port.operand is None and not written.all():
            return int(written.argmin())
        if before is not None and self.rng.integers(2):
            return before
        rows = np.flatnonzero(written)
        return int(rows[0] if self._in_order else self.rng.choice(rows))

    def _fields(self, plug_in: PlugIn) -> tuple[dict[str, int], int, int]:
        """Random fields of a valid instruction, the cycles from one of its steps to the next and to
        their results.
        """
        spans = self._spans(plug_in)
        while True:
            timed = self._timed(plug_in, {name: self._field(*span) for name, span in spans.items()})
            if timed is not None:
                return timed

    def _spans(self, plug_in: PlugIn) -> dict[str, tuple[int, int]]:
        """The limits of the fields of an instruction."""
        slots = next(
            encoding for encoding in isa_of(self.config).formats.values() if encoding.plug_in == plug_in
        ).values
        return {slot.field.name: (slot.low, slot.high) for slot in slots}

    def _timed(self, plug_in: PlugIn, fields: dict[str, int]) -> tuple[dict[str, int], int, int] | None:
        """Fields with their spacing and latency; None where no instruction may have them."""
        spacing = int(extension_step(plug_in, fields.__getitem__))
        latency = int(plug_in.latency.value(fields.__getitem__))
        if int(plug_in.interval.value(fields.__getitem__)) >= 1 and latency >= 0 and spacing <= _LONGEST:
            return fields, spacing, latency
        return None

    def _field(self, low: int, high: int) -> int:
        """A limit, a small value or any, which is more likely in order."""
        if self._in_order and self.rng.integers(2):
            return int(self.rng.integers(low, high + 1))
        small = (max(low, -4), min(high, 4))
        span = [(low, low), (high, high), small, small, (low, high)][self.rng.integers(5)]
        return int(self.rng.integers(span[0], span[1] + 1))

    def _inputs(self, part: PlugIn | PlugInStage, values: Mapping[str, int | Array]) -> dict[str, bytes]:
        """The bytes of ports whose names follow the part's."""
        named = {f"{prefix(self.unit, part)}{name}": value for name, value in values.items()}
        return {name: packed(value, self.ports[name]) for name, value in named.items()}


def packed(value: int | Array, port: DatapathPort) -> bytes:
    """A value in the bytes of a port, elements side by side, the first in the low bits."""
    elements = [value] if isinstance(value, int) else value.reshape(-1).tolist()
    width = port.bits // len(elements)
    mask = (1 << width) - 1
    word = sum((int(element) & mask) << (width * place) for place, element in enumerate(elements))
    return word.to_bytes(-(-port.bits // 8), "little")


def unpacked(data: NDArray[np.uint8], port: DatapathPort, shape: tuple[int, int]) -> Array:
    """The signed elements of a port in the bytes of each cycle, `[cycle, row, column]`."""
    bits = np.unpackbits(data, axis=1, bitorder="little")[:, : port.bits]
    elements = bits.reshape(len(data), *shape, -1).astype(np.int64)
    width = elements.shape[-1]
    values: Array = elements @ (1 << np.arange(width, dtype=np.int64))
    return np.where(values >> (width - 1), values - (1 << width), values)


def result_port(unit: PlugInUnit, step: DatapathStep) -> str:
    """The port on which the result of a step appears."""
    return result_name(unit, step.part)
