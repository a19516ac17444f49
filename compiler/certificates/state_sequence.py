# SPDX-License-Identifier: Apache-2.0
"""Private states that every step of an instruction replaces, before each of its steps.

They need not be evaluated step by step where they are numbers that depend on nothing else, such as
a count of steps, or where a step with such numbers moves elements only, such as rows of a square.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from vdla.compiler import te
from vdla.compiler.certificates.step_batches import StepBehaviour
from vdla.compiler.certificates.symbols import SYMBOL, Symbols, gathered, known, numbers, unknowns
from vdla.compiler.extensions.extension import Extension
from vdla.compiler.te import Stage
from vdla.hardware.isa import PlugIn, PlugInState, StatePort

_Ints = npt.NDArray[np.int64]
_Values = tuple[int, ...]


@dataclass(eq=False)
class SequenceOfStates:
    """Operands before each step, `[steps, elements]`, and states behind all steps; `numbers` are
    the operands that are known.
    """

    operands: dict[str, Symbols] = field(default_factory=dict)
    after: dict[PlugInState, Symbols] = field(default_factory=dict)
    numbers: set[str] = field(default_factory=set)


class StateSequence:
    """The states that an instruction of an extension replaces in every step."""

    def __init__(self, extension: Extension, plug_in: PlugIn, behaviour: StepBehaviour) -> None:
        self._behaviour = behaviour
        whole = [held for held in plug_in.states if held.writes and held.index is None and not held.whole]
        self._names = {held.state: update_of(extension, held.state).name for held in whole}
        reads = {held.state: _reads(extension, held) for held in whole}
        fields = {one.name for one in plug_in.fields}
        self._counts: list[StatePort] = []  # that depend on fields and each other only
        while (more := self._next_count(whole, reads, fields)) is not None:
            self._counts.append(more)
        others = [held for held in whole if held not in self._counts]
        ports = set() if plug_in.writes_inputs else {port.operand for _, port in plug_in.ports.indexed}
        ports -= {port.operand for _, port in plug_in.ports.indexed if port.buffer.name == "ACC"}
        allowed = fields | ports | {held.operand for held in self._counts}
        self._moved = [held for held in others if held.operand and reads[held.state] <= {*allowed, held.operand}]
        self.ports = sorted(ports & set().union(*(reads[held.state] for held in self._moved)))
        self._next: dict[tuple[_Values, _Values], _Values] = {}
        self._moves: dict[tuple[PlugInState, _Values, _Values], tuple[_Ints, Symbols] | None] = {}

    def _next_count(
        self, whole: list[StatePort], reads: Mapping[PlugInState, set[str]], fields: set[str]
    ) -> StatePort | None:
        read = fields | {held.operand for held in self._counts if held.operand}
        mine = (held for held in whole if held not in self._counts)
        return next((held for held in mine if reads[held.state] <= read | {held.operand or ""}), None)

    def run(
        self,
        count: int,
        fields: Mapping[str, Symbols],
        states: Mapping[PlugInState, Symbols],
        ports: Mapping[str, Symbols],
    ) -> SequenceOfStates:
        """The states in `count` steps, those that are covered."""
        made = SequenceOfStates()
        read = [held for held in self._counts if held.operand is not None]
        if not all(known(states[held.state]).all() for held in read):
            return made
        rows = self._count(count, fields, states, made)
        for held in self._moved:
            moves = [self._move(held, fields, row, ports) for row in rows]
            self._apply(held, moves, states[held.state], ports, made)
        return made

    # --- counts

    def _count(
        self,
        count: int,
        fields: Mapping[str, Symbols],
        states: Mapping[PlugInState, Symbols],
        made: SequenceOfStates,
    ) -> list[_Values]:
        """The numbers of all counts that are read, before each step."""
        given = tuple(int(one["low"][0]) for one in fields.values())
        row: _Values = tuple(
            value for held in self._counts if held.operand for value in states[held.state]["low"].tolist()
        )
        rows = []
        for _ in range(count):
            rows.append(row)
            if (given, row) not in self._next:
                self._next[given, row] = self._after(fields, row)
            last = self._next[given, row]
            row = self._read_of(last)
        self._split(rows, made)
        begin = 0
        for held in self._counts if count else ():
            size = held.state.elements
            made.after[held.state] = numbers(np.array(last[begin : begin + size], np.int64))
            begin += size
        return rows

    def _after(self, fields: Mapping[str, Symbols], row: _Values) -> _Values:
        """The numbers of all counts behind a step."""
        names = [self._names[held.state] for held in self._counts]
        values = self._behaviour.outputs(1, fields, self._operands(row), names) if names else {}
        return tuple(value for name in names for value in values[name]["low"].reshape(-1).tolist())

    def _read_of(self, values: _Values) -> _Values:
        """Those of the counts that are read."""
        read: list[int] = []
        begin = 0
        for held in self._counts:
            size = held.state.elements
            read += values[begin : begin + size] if held.operand else ()
            begin += size
        return tuple(read)

    def _operands(self, row: _Values) -> dict[str, Symbols]:
        made = SequenceOfStates()
        self._split([row], made)
        return made.operands

    def _split(self, rows: list[_Values], made: SequenceOfStates) -> None:
        begin, table = 0, np.array(rows, np.int64).reshape(len(rows), -1)
        for held in self._counts:
            if held.operand:
                made.operands[held.operand] = numbers(table[:, begin : begin + held.state.elements])
                made.numbers.add(held.operand)
                begin += held.state.elements

    # --- moves

    def _move(
        self, held: StatePort, fields: Mapping[str, Symbols], row: _Values, ports: Mapping[str, Symbols]
    ) -> tuple[_Ints, Symbols] | None:
        """Where each element of a state comes from in a step: the place in the state and the ports
        that it reads, and behind them the numbers that it may be. None of what does more than move.
        """
        key = held.state, tuple(int(one["low"][0]) for one in fields.values()), row
        if key not in self._moves:
            self._moves[key] = self._moved_by(held, fields, row, ports)
        return self._moves[key]

    def _moved_by(
        self, held: StatePort, fields: Mapping[str, Symbols], row: _Values, ports: Mapping[str, Symbols]
    ) -> tuple[_Ints, Symbols] | None:
        assert held.operand is not None
        dtypes = {name: buffer.dtype for name, buffer in self._behaviour.fn.buffers.items()}
        shapes = {held.operand: (1, held.state.elements)} | {name: (1, *ports[name].shape[1:]) for name in self.ports}
        sources = {name: unknowns(f"operand {name}", shape, dtypes[name], 0) for name, shape in shapes.items()}
        name = self._names[held.state]
        new = self._behaviour.outputs(1, fields, {**self._operands(row), **sources}, [name])[name].reshape(-1)
        place_of = np.concatenate([one["value"].reshape(-1) for one in sources.values()])
        order = np.argsort(place_of)
        places = order[np.searchsorted(place_of, new["value"], sorter=order).clip(0, len(order) - 1)]
        same, fixed = place_of[places] == new["value"], known(new)
        if not (same | fixed).all():
            return None
        return np.where(same, places, len(place_of) + np.arange(len(new))), new

    def _apply(
        self,
        held: StatePort,
        moves: list[tuple[_Ints, Symbols] | None],
        state: Symbols,
        ports: Mapping[str, Symbols],
        made: SequenceOfStates,
    ) -> None:
        """The state before each step, unless a step does more than move."""
        assert held.operand is not None
        before, now = np.empty((len(moves), held.state.elements), SYMBOL), state
        for step, move in enumerate(moves):
            if move is None:
                return
            before[step] = now
            places, fixed = move
            now = gathered(
                np.concatenate([now, *(ports[name][step].reshape(-1) for name in self.ports), fixed]), places
            )
        made.operands[held.operand], made.after[held.state] = before, now


def update_of(extension: Extension, state: PlugInState) -> te.Tensor:
    """The new value of a state that a step writes."""
    return next(tensor for declared, tensor in extension.updates.items() if declared.name == state.name)


def _reads(extension: Extension, held: StatePort) -> set[str]:
    """What the new value of a state is computed of."""
    stage = update_of(extension, held.state).stage
    assert isinstance(stage, Stage)
    return {tensor.name for tensor in stage.reads}
