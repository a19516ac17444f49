# SPDX-License-Identifier: Apache-2.0
"""Private states that the steps of an instruction write, before each of its steps.

They need not be evaluated step by step where they are numbers that depend on nothing else, such as
a count of steps, or where a step with such numbers moves elements only: rows of a square, or pixels
of an image from a line buffer into a window.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from vdla.compiler import te
from vdla.compiler.certificates.step_batches import StepBehaviour
from vdla.compiler.certificates.symbols import Symbols, gathered, known, numbers, unknowns
from vdla.compiler.extensions.extension import Extension
from vdla.compiler.te import Stage
from vdla.hardware.isa import PlugIn, PlugInState, StatePort

_Ints = npt.NDArray[np.int64]
_Values = tuple[int, ...]


@dataclass(eq=False)
class SequenceOfStates:
    """Operands before each step, `[steps, elements]`, and behind all steps the rows of states that
    were written, with their numbers; `numbers` are the operands that are known.
    """

    operands: dict[str, Symbols] = field(default_factory=dict)
    after: dict[PlugInState, tuple[_Ints, Symbols]] = field(default_factory=dict)
    numbers: set[str] = field(default_factory=set)


class StateSequence:
    """The states that an instruction of an extension writes a row of in every step."""

    def __init__(self, extension: Extension, plug_in: PlugIn, behaviour: StepBehaviour) -> None:
        self._behaviour = behaviour
        ports = Counter(held.state for held in plug_in.states)
        written = [held for held in plug_in.states if held.writes and not held.whole and ports[held.state] == 1]
        self.written = written
        self._names = {held.state: update_of(extension, held.state).name for held in written}
        self._reads = {held.state: _reads(extension, held) for held in written}
        fields = {one.name for one in plug_in.fields}
        self._counts: list[StatePort] = []  # that depend on fields and each other only
        whole = [held for held in written if held.index is None]
        while (more := self._next_count(whole, fields)) is not None:
            self._counts.append(more)
        entries = set() if plug_in.writes_inputs else {port.operand for _, port in plug_in.ports.indexed}
        entries -= {port.operand for _, port in plug_in.ports.indexed if port.buffer.name == "ACC"}
        known_names = fields | entries | {str(held.operand) for held in self._counts}
        others = [held for held in written if held.operand and held not in self._counts]
        self._moved = self._closed(others, known_names)
        self.ports = sorted(entries & set().union(*(self._reads[held.state] for held in self._moved)))
        self._next: dict[tuple[_Values, _Values], _Values] = {}
        self._moves: dict[tuple[PlugInState, _Values, _Values], _Move | None] = {}

    def _next_count(self, whole: list[StatePort], fields: set[str]) -> StatePort | None:
        read = fields | {held.operand for held in self._counts if held.operand}
        mine = (held for held in whole if held not in self._counts)
        return next((held for held in mine if self._reads[held.state] <= read | {held.operand or ""}), None)

    def _closed(self, states: Sequence[StatePort], others: Collection[str]) -> list[StatePort]:
        """Those of the states that are computed of `others` and of each other only."""
        while True:
            allowed = {*others, *(str(held.operand) for held in states)}
            kept = [held for held in states if self._reads[held.state] <= allowed]
            if len(kept) == len(states):
                return kept
            states = kept

    def run(
        self,
        count: int,
        fields: Mapping[str, Symbols],
        states: Mapping[PlugInState, Symbols],
        ports: Mapping[str, Symbols],
        rows: Mapping[PlugInState, _Ints],
    ) -> SequenceOfStates:
        """The states in `count` steps, those that are covered; each step writes a row of `rows`."""
        made = SequenceOfStates()
        read = [held for held in self._counts if held.operand is not None]
        if not all(known(states[held.state][0]).all() for held in read):
            return made
        counted = self._count(count, fields, states, made)
        if self._moved:
            self._move_all([self._moves_of(fields, one, ports) for one in counted], states, ports, rows, made)
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
            value for held in self._counts if held.operand for value in states[held.state][0]["low"].tolist()
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
            made.after[held.state] = np.zeros(1, np.int64), numbers(np.array([last[begin : begin + size]], np.int64))
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

    def _moves_of(
        self, fields: Mapping[str, Symbols], row: _Values, ports: Mapping[str, Symbols]
    ) -> list[_Move | None]:
        """What a step does to each state; None where it does more than move elements."""
        given = tuple(int(one["low"][0]) for one in fields.values())
        for held in self._moved:
            key = held.state, given, row
            if key not in self._moves:
                self._moves[key] = self._moved_by(held, fields, row, ports)
        return [self._moves[held.state, given, row] for held in self._moved]

    def _moved_by(
        self, held: StatePort, fields: Mapping[str, Symbols], row: _Values, ports: Mapping[str, Symbols]
    ) -> _Move | None:
        dtypes = {name: buffer.dtype for name, buffer in self._behaviour.fn.buffers.items()}
        shapes = {str(one.operand): (1, one.state.elements) for one in self._moved}
        shapes |= {name: (1, *ports[name].shape[1:]) for name in self.ports}
        sources = {name: unknowns(f"operand {name}", shape, dtypes[name], 0) for name, shape in shapes.items()}
        name = self._names[held.state]
        new = self._behaviour.outputs(1, fields, {**self._operands(row), **sources}, [name])[name].reshape(-1)
        place_of = np.concatenate([one["value"].reshape(-1) for one in sources.values()])
        order = np.argsort(place_of)
        places = order[np.searchsorted(place_of, new["value"], sorter=order).clip(0, len(order) - 1)]
        same, fixed = place_of[places] == new["value"], known(new)
        if not (same | fixed).all():
            return None
        return _Move(np.where(same, places, len(place_of) + np.arange(len(new))), new)

    def _move_all(
        self,
        moves: Sequence[Sequence[_Move | None]],
        states: Mapping[PlugInState, Symbols],
        ports: Mapping[str, Symbols],
        rows: Mapping[PlugInState, _Ints],
        made: SequenceOfStates,
    ) -> None:
        """The states before each step, but those of which a step does more than move elements."""
        whole = [held for held, *steps in zip(self._moved, *moves, strict=True) if None not in steps]
        others = {name for reads in self._reads.values() for name in reads} - {str(one.operand) for one in self._moved}
        kept = [(self._moved.index(held), held) for held in self._closed(whole, others)]
        pool = _Pool()
        used = {held.state: np.unique(rows[held.state], return_inverse=True) for held in self._moved}
        now = [pool.add(states[held.state][used[held.state][0]]) for held in self._moved]
        entries = [pool.add(ports[name].reshape(len(moves), -1)) for name in self.ports]
        before = [np.empty((len(moves), held.state.elements), np.int64) for _, held in kept]
        at = [used[held.state][1].tolist() for held in self._moved]
        for step, move in enumerate(moves):
            sources = [places[row[step]] for places, row in zip(now, at, strict=True)]
            sources += [places[step] for places in entries]
            for record, (number, _) in zip(before, kept, strict=True):
                record[step] = sources[number]
            read = np.concatenate(sources)
            for number, _ in kept:
                one = move[number]
                assert one is not None
                now[number][at[number][step]] = np.concatenate([read, pool.of(one)])[one.places]
        for record, (number, held) in zip(before, kept, strict=True):
            made.operands[str(held.operand)] = pool.symbols(record)
            made.after[held.state] = used[held.state][0], pool.symbols(now[number])


@dataclass(frozen=True, eq=False, slots=True)
class _Move:
    """Where each element of a new row comes from: its place in the rows and entries that a step
    reads, one behind the other, and behind them in the `new` row, where it is a number.
    """

    places: _Ints
    new: Symbols


class _Pool:
    """Symbols by number, so that integers move in their place."""

    def __init__(self) -> None:
        self._parts: list[Symbols] = []
        self._size = 0
        self._moves: dict[int, _Ints] = {}

    def add(self, symbols: Symbols) -> _Ints:
        """The numbers of symbols, in their shape."""
        self._parts.append(symbols.reshape(-1))
        self._size += symbols.size
        return np.arange(self._size - symbols.size, self._size).reshape(symbols.shape)

    def of(self, move: _Move) -> _Ints:
        """The numbers of what a move may write beside what it reads."""
        if id(move) not in self._moves:
            self._moves[id(move)] = self.add(move.new)
        return self._moves[id(move)]

    def symbols(self, places: _Ints) -> Symbols:
        """The symbols of numbers."""
        if len(self._parts) > 1:
            self._parts = [np.concatenate(self._parts)]
        return gathered(self._parts[0], places)


def update_of(extension: Extension, state: PlugInState) -> te.Tensor:
    """The new value of a state that a step writes."""
    return next(tensor for declared, tensor in extension.updates.items() if declared.name == state.name)


def _reads(extension: Extension, held: StatePort) -> set[str]:
    """What the new value of a state is computed of."""
    stage = update_of(extension, held.state).stage
    assert isinstance(stage, Stage)
    return {tensor.name for tensor in stage.reads}
