# SPDX-License-Identifier: Apache-2.0
"""Steps of extensions, and the stage on the way out, on symbols: their declared behaviour itself.

Steps of which none reads what another one writes run at once. Private state is unknown before the
program writes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler import ir, te
from vdla.compiler.certificates.compute_steps import ComputeSteps
from vdla.compiler.certificates.evaluate import evaluate
from vdla.compiler.certificates.operations import binary
from vdla.compiler.certificates.packed_elements import PackedElements
from vdla.compiler.certificates.pending import PendingProducts
from vdla.compiler.certificates.state_sequence import SequenceOfStates, StateSequence, update_of
from vdla.compiler.certificates.step_batches import StepBehaviour, levels
from vdla.compiler.certificates.symbols import Symbols, chosen, gathered, numbers, unknowns
from vdla.compiler.extensions.behaviour import reducer_of
from vdla.compiler.extensions.emit_stage import EmitStage
from vdla.compiler.extensions.extension import Extension
from vdla.compiler.extensions.load import extension_of, unit_with_stage
from vdla.compiler.te import Stage
from vdla.compiler.te.expr import axis_name
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import EXTENSION_COLUMN, OldSum, PlugIn, PlugInState, Port, StatePort, isa_of

_Ints = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]
_COMBINED = {"sum": "add", "max": "max", "min": "min"}
_MOST_STEPS = 1 << 8
"""That run at once, so that the states before all of them fit in memory."""


class ExtensionRun:
    """The private states of a machine, and the steps that use them and the buffers."""

    def __init__(
        self, config: Config, products: PendingProducts, acc: Symbols, packed: PackedElements, looks_up: bool
    ) -> None:
        self._config, self._products, self._acc, self._looks_up = config, products, acc, looks_up
        self._packed = packed
        self._states: dict[PlugInState, Symbols] = {}
        self._instructions: dict[int, _Instruction] = {}
        self._stage: StepBehaviour | None = None

    def run(self, columns: Sequence[int], steps: ComputeSteps) -> Iterator[_Ints]:
        """All steps of an instruction; yields the places of those that have run at once."""
        number = columns[EXTENSION_COLUMN]
        if number not in self._instructions:
            self._instructions[number] = _Instruction(self._config, self._config.extensions[number])
        instruction = self._instructions[number]
        for begin in range(0, len(steps.acc), _MOST_STEPS):
            part = steps.only(slice(begin, begin + _MOST_STEPS))
            for batch in self._batches(instruction, instruction.fields(columns), part):
                yield begin + batch

    def staged(self, entries: Symbols) -> Symbols:
        """Requantised entries, `[entries, lanes]`, behind the stage on the way out.

        If they are looked up, those of a function of one element are elements of its table.
        """
        table = _results_of_stage(self._config) if self._looks_up else None
        if table is not None:
            return _elements(self._config.out_dtype, table, entries)
        stage = self._config.stage
        assert stage is not None
        if self._stage is None:
            self._stage = StepBehaviour(_stage_of(self._config).behaviour)
        states = {port.operand: self._state(port.state) for port in stage.states if port.operand is not None}
        return _results(self._stage, {stage.operand: entries}, states)

    def _batches(self, of: _Instruction, fields: Mapping[str, Symbols], steps: ComputeSteps) -> Iterator[_Ints]:
        """The batches of steps, which run before they are yielded."""
        plug_in, count = of.plug_in, len(steps.acc)
        ports = {port.operand: (port, getattr(steps, name)) for name, port in plug_in.ports.indexed}
        moved = {name: self._entries(*ports[name]) for name in of.sequence.ports}
        before = {held.state: self._state(held.state) for held in of.sequence.written}
        rows = {held.state: _rows(held, steps) for held in of.sequence.written}
        sequence: SequenceOfStates = of.sequence.run(count, fields, before, moved, rows)
        for state, (places, values) in sequence.after.items():
            self._state(state)[places] = values
        held = [one for one in plug_in.states if one.state not in sequence.after]
        written = {one.state for one in held if one.writes}
        tables = [one for one in held if one.operand and one.index is None and one.state not in written]
        shared = {**fields, **{str(one.operand): _operand(one, self._state(one.state)) for one in tables}}
        held = [one for one in held if one not in tables]
        looks_up = of.behaviour.looks_up({*fields, *sequence.numbers}, shared)
        alone = looks_up or _waits_for_others(of, steps, held)
        operands = partial(self._operands, of, steps, ports, sequence, held)
        output = of.extension.output
        if alone or written or output is None or of.extension.in_place is not None:
            for batch in _in_order(of, steps, held, alone=alone):
                self._run_at_once(of, shared, operands(batch), held, steps.only(batch))
                yield batch
            return
        results = of.behaviour.outputs(count, shared, operands(np.arange(count)), [output.name])[output.name]
        for batch in _in_order(of, steps, held, alone=False):
            self._write(of, steps.only(batch), gathered(results, batch))
            yield batch

    def _operands(
        self,
        of: _Instruction,
        steps: ComputeSteps,
        ports: Mapping[str, tuple[Port, _Ints]],
        sequence: SequenceOfStates,
        held: Sequence[StatePort],
        batch: _Ints,
    ) -> dict[str, Symbols]:
        """What steps read, `[steps, elements]`."""
        operands = {name: self._entries(port, places[batch]) for name, (port, places) in ports.items()}
        operands |= {name: gathered(values, batch) for name, values in sequence.operands.items()}
        if of.extension.in_place is not None:
            operands[of.extension.in_place] = gathered(self._acc, steps.acc[batch])
        for one in held:
            if one.operand is not None:
                rows = self._state(one.state)
                operands[one.operand] = rows if one.whole else gathered(rows, _rows(one, steps)[batch])
        return operands

    def _run_at_once(
        self,
        of: _Instruction,
        shared: Mapping[str, Symbols],
        operands: Mapping[str, Symbols],
        held: Sequence[StatePort],
        steps: ComputeSteps,
    ) -> None:
        """Steps none of which reads what another one writes."""
        updates = [(one, update_of(of.extension, one.state).name) for one in held if one.writes]
        output = of.extension.output
        names = [name for _, name in updates] + ([] if output is None else [output.name])
        if not names:
            return
        values = of.behaviour.outputs(len(steps.acc), shared, operands, names)
        for one, name in updates:
            self._state(one.state)[_rows(one, steps)] = values[name]
        if output is not None:
            self._write(of, steps, values[output.name])

    def _write(self, of: _Instruction, steps: ComputeSteps, result: Symbols) -> None:
        if of.plug_in.writes_inputs:
            inputs = self._products.inputs
            for place, entry in zip(steps.acc.tolist(), result, strict=True):
                self._products.write(inputs, place, entry.reshape(1, *inputs.now.shape[1:]))
            return
        if of.plug_in.old is OldSum.ACCUMULATE and not steps.starts.all():
            op = _COMBINED[reducer_of(of.extension.output)]
            total = binary(op, gathered(self._acc, steps.acc), result, "int32")
            result = chosen(steps.starts[:, None], result, total)
        self._acc[steps.acc] = result

    def _entries(self, port: Port, places: _Ints) -> Symbols:
        """The operands of steps, `[steps, elements]`."""
        if port.buffer is Buffer.ACC:
            return gathered(self._acc, places)
        entries = (self._products.inputs if port.buffer is Buffer.INP else self._products.weights).now
        size = self._config.block_out if port.vector else int(np.prod(entries.shape[1:])) * port.entries
        if port.vector and port.buffer is Buffer.INP:
            size *= self._config.batch
        whole = gathered(entries.reshape(-1, size), places)
        return whole if port.bits is None else self._packed.parts(whole, port.bits, self._config.wgt_bits)

    def _state(self, state: PlugInState) -> Symbols:
        """The rows of a state, `[rows, elements]`."""
        if state not in self._states:
            shape, name = (state.rows, state.elements), f"before the program: {state.label}"
            self._states[state] = unknowns(name, shape, state.dtype, 0)
        return self._states[state]


class _Instruction:
    """What is known of an instruction of an extension."""

    def __init__(self, config: Config, plug_in: PlugIn) -> None:
        self.plug_in, self.extension = plug_in, _declared(config, plug_in)
        self.behaviour = StepBehaviour(self.extension.behaviour)
        self.sequence = StateSequence(self.extension, plug_in, self.behaviour)
        columns = isa_of(config).col
        self._columns = {one.name: columns[f"{plug_in.name}.{one.name}"] for one in plug_in.fields}

    def fields(self, columns: Sequence[int]) -> dict[str, Symbols]:
        """Its own fields."""
        return {name: numbers([columns[place]]) for name, place in self._columns.items()}


def _waits_for_others(of: _Instruction, steps: ComputeSteps, held: Sequence[StatePort]) -> bool:
    """Whether some step may read what another one writes, other than the sum that it adds to."""
    ports = dict(of.plug_in.ports.indexed)
    written = {one.state for one in held if one.writes}
    writes_sums = of.extension.output is not None and not of.plug_in.writes_inputs
    sums_read = [getattr(steps, name) for name, port in ports.items() if port.buffer is Buffer.ACC]
    alone = writes_sums and any(np.isin(places, steps.acc).any() for places in sums_read)
    alone |= of.plug_in.writes_inputs and any(port.buffer is Buffer.INP for port in ports.values())
    alone |= any(one.index is None for one in held if one.state in written)
    return alone or any(len({one.index for one in held if one.state == state}) > 1 for state in written)


def _in_order(of: _Instruction, steps: ComputeSteps, held: Sequence[StatePort], *, alone: bool) -> list[_Ints]:
    """The steps in batches of which none uses a row or a place that another one writes; each
    `alone` if so.
    """
    count = len(steps.acc)
    if alone:
        return list(np.arange(count)[:, None])
    every = slice(None)
    keys: list[tuple[_Ints, _Bools | slice]] = [(_rows(one, steps), every) for one in held if one.writes]
    keys += [(steps.acc, every)] if of.extension.output is not None else []
    keys += [(steps.out, steps.ends)] if steps.ends.any() else []
    return levels(count, keys)


def _rows(held: StatePort, steps: ComputeSteps) -> _Ints:
    """The row of a state that each step uses."""
    return np.zeros_like(steps.acc) if held.index is None else np.asarray(getattr(steps, held.index))


def _operand(held: StatePort, rows: Symbols) -> Symbols:
    return rows if held.whole else rows[0]


@lru_cache(maxsize=8)
def _stage_of(config: Config) -> EmitStage:
    """The declaration of the stage of a machine."""
    assert config.stage is not None
    declared = unit_with_stage(config, config.stage).stage
    assert declared is not None
    return declared


def _results(stage: StepBehaviour, entries: Mapping[str, Symbols], states: Mapping[str, Symbols]) -> Symbols:
    """What a stage makes of entries, `[entries, lanes]`, each with the same states."""
    ((_, operand),) = entries.items()
    (output,) = ir.output_names(stage.fn)
    return stage.outputs(len(operand), states, entries, [output])[output]


@lru_cache(maxsize=8)
def _results_of_stage(config: Config) -> npt.NDArray[Any] | None:
    """What the stage of a machine computes of each value, the least one first; None if it has
    states, or computes results of more than the element at their place.
    """
    assert config.stage is not None
    declared = _stage_of(config)
    value = declared.output.stage
    assert isinstance(value, Stage)
    places = tuple(ir.Var(axis_name(axis)) for axis in value.axes)
    loads = [e for e in ir.walk_expr(value.value.expr) if isinstance(e, ir.Load)]
    in_loads = sum(len(load.indices) for load in loads)
    in_all = sum(isinstance(e, ir.Var) for e in ir.walk_expr(value.value.expr))
    if config.stage.states or in_all != in_loads or any(load.indices != places for load in loads):
        return None
    low, high = map(int, ir.limits(config.out_dtype))
    lanes = int(np.prod(declared.output.shape))
    entries = numbers(np.repeat(np.arange(low, high + 1)[:, None], lanes, axis=1))
    return _results(StepBehaviour(declared.behaviour), {config.stage.operand: entries}, {})[:, 0]["low"]


def _elements(dtype: str, table: npt.NDArray[Any], entries: Symbols) -> Symbols:
    """The elements of a table at values, the least of which has its first one."""
    data, content = te.placeholder(entries.shape, dtype, "data"), te.placeholder(table.shape, dtype, "table")
    least = int(ir.limits(dtype)[0])
    result = te.compute(entries.shape, lambda *at: content[te.cast("int32", data[at]) - least], "elements")
    function = te.create_function([data, content], [result], "look_up")
    return evaluate(function, {"data": entries, "table": numbers(table)})["elements"]


@lru_cache(maxsize=64)
def _declared(config: Config, plug_in: PlugIn) -> Extension:
    return extension_of(config, plug_in)
