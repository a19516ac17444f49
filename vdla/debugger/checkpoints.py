# SPDX-License-Identifier: Apache-2.0
"""The contents of buffers and DRAM after any number of instructions of a run.

What each of the last instructions has overwritten is kept, so that a step backwards writes it back
and executes nothing. Copies of everything are kept at regular distances as well: from the one
before it, any earlier state takes at most one distance of instructions, which are then kept in
turn. The distance grows with the program, so that copies and what was overwritten take at most
`most_bytes`, half of it each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vdla.debugger.undo_log import UndoLog
from vdla.hardware.config import Buffer
from vdla.hardware.isa import PlugInState, columns
from vdla.hardware.program import WRITABLE_ROLES, Program, place
from vdla.simulator.function import Buffers, Engine, overwritten
from vdla.simulator.simulate import dram_image
from vdla.support.arrays import Array, Bytes, Ints

MOST_BYTES = 256 << 20
LEAST_DISTANCE = 128
"""Instructions between two copies, at least: fewer would copy more than they execute."""


@dataclass(frozen=True, slots=True, eq=False)
class _Copy:
    """The state after some instructions: buffers, private states, tensors that STOREs may write."""

    contents: Mapping[Buffer, Array]
    states: Mapping[PlugInState, Array]
    tensors: tuple[Bytes, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in (*self.contents.values(), *self.states.values(), *self.tensors))


class Checkpoints:
    """The states of a program that runs in `order`; buffers begin as zeros."""

    def __init__(
        self, program: Program, inputs: Mapping[str, Array], order: Ints, most_bytes: int = MOST_BYTES
    ) -> None:
        linked, dram = dram_image(program, inputs)
        addresses, _ = place(program)
        self._order = order
        self._engine = Engine(program.config, columns(program.config, linked), dram)
        self._windows = tuple(
            dram[addresses[tensor.name] :][: tensor.nbytes]
            for tensor in program.tensors
            if tensor.role in WRITABLE_ROLES
        )
        self._done = 0
        first = self._copied()
        self._copies = {0: first}
        self.copy_bytes = first.nbytes
        """Bytes of a copy."""
        self.distance = max(LEAST_DISTANCE, -(-len(order) * first.nbytes // (most_bytes // 2)))
        self._log = UndoLog(most_bytes // 2)

    def at(self, count: int) -> Buffers:
        """The buffers after the first `count` instructions of the order, until the next call."""
        if self._done - len(self._log) <= count:
            for _ in range(self._done - count):
                self._log.undo()
            self._done = min(self._done, count)
        base = max(done for done in self._copies if done <= count)
        if not base <= self._done <= count:
            self._restore(base)
        if count - self._done > self.distance:
            self._run_to(count - count % self.distance)
        while self._done < count:
            self._step()
        return self._engine.buffers

    def _run_to(self, count: int) -> None:
        """Run on to the place of a copy, keeping copies only."""
        self._log.clear()
        while self._done < count:
            stop = (self._done // self.distance + 1) * self.distance
            self._engine.run(self._order[self._done : stop])
            self._reach(stop)

    def _step(self) -> None:
        """Execute an instruction that can be undone."""
        order = self._order[self._done : self._done + 1]
        self._log.add(overwritten(self._engine, int(order[0])))
        self._engine.run(order)
        self._reach(self._done + 1)

    def _reach(self, count: int) -> None:
        self._done = count
        if count % self.distance == 0 and count not in self._copies:
            self._copies[count] = self._copied()

    def _copied(self) -> _Copy:
        buffers = self._engine.buffers
        states = {state: array.copy() for state, array in buffers.states.items()}
        return _Copy(buffers.contents(), states, tuple(window.copy() for window in self._windows))

    def _restore(self, count: int) -> None:
        self._log.clear()
        copy, buffers = self._copies[count], self._engine.buffers
        buffers.fill(copy.contents)
        for state, array in copy.states.items():
            buffers.states[state][...] = array
        for window, data in zip(self._windows, copy.tensors, strict=True):
            window[...] = data
        self._done = count
