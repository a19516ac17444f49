# SPDX-License-Identifier: Apache-2.0
"""The contents of buffers and DRAM after any number of instructions of a run.

Copies are kept at regular distances as the run is executed. So any earlier state takes at most one
distance of instructions from the copy before it, as a step forwards does. The distance grows with
the program, so that all copies together take at most `most_bytes`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vdla.hardware.config import Buffer
from vdla.hardware.isa import PlugInState, columns
from vdla.hardware.program import Program, place
from vdla.simulator.function import Buffers, Engine
from vdla.simulator.simulate import dram_image
from vdla.simulator.verify.accesses import WRITABLE
from vdla.support.arrays import Array, Bytes, Ints

MOST_BYTES = 256 << 20
LEAST_DISTANCE = 32
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
            dram[addresses[tensor.name] :][: tensor.nbytes] for tensor in program.tensors if tensor.role in WRITABLE
        )
        self._done = 0
        first = self._copied()
        self._copies = {0: first}
        self.copy_bytes = first.nbytes
        """Bytes of a copy."""
        self.distance = max(LEAST_DISTANCE, -(-len(order) * first.nbytes // most_bytes))

    def at(self, count: int) -> Buffers:
        """The buffers after the first `count` instructions of the order, until the next call."""
        base = max(done for done in self._copies if done <= count)
        if not base <= self._done <= count:
            self._restore(base)
        while self._done < count:
            stop = min(count, (self._done // self.distance + 1) * self.distance)
            self._engine.run(self._order[self._done : stop])
            self._done = stop
            if stop % self.distance == 0 and stop not in self._copies:
                self._copies[stop] = self._copied()
        return self._engine.buffers

    def _copied(self) -> _Copy:
        buffers = self._engine.buffers
        states = {state: array.copy() for state, array in buffers.states.items()}
        return _Copy(buffers.contents(), states, tuple(window.copy() for window in self._windows))

    def _restore(self, count: int) -> None:
        copy, buffers = self._copies[count], self._engine.buffers
        buffers.fill(copy.contents)
        for state, array in copy.states.items():
            buffers.states[state][...] = array
        for window, data in zip(self._windows, copy.tensors, strict=True):
            window[...] = data
        self._done = count
