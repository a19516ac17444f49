# SPDX-License-Identifier: Apache-2.0
"""Private state of an extension: rows that only its own steps write, and its stage may read.

The same `State` object in several instructions and the stage of one declaration is one state.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from vdla.compiler.ir import INTEGER_BITS
from vdla.hardware.isa import PlugInState, StatePort
from vdla.support import keywords
from vdla.support.errors import Error
from vdla.support.integers import is_int
from vdla.support.keywords import checked_keywords


class ExtensionError(Error, ValueError):
    """A declaration that contradicts itself or its machine; the message begins with its line."""


class LayerError(Error, ValueError):
    """A layer for which the program of an extension is not made; the message is the reason."""


_HERE = str(Path(__file__).parent)


def caller() -> str:
    """`file:line` of the statement outside this package that makes a declaration."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_inside(frame.f_code.co_filename):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _is_inside(file: str) -> bool:
    """Whether code is of this package, or around the generated `__init__` of a dataclass."""
    return file in ("<string>", keywords.__file__) or file.startswith(_HERE)


MOST_BITS = 32


@checked_keywords(ExtensionError, caller)
@dataclass(frozen=True, eq=False)
class State:
    """`rows` rows, each an array of `shape` and an integer `dtype` of at most 32 bits.

    Rows are undefined until a step has written them. As the scope of an operand, a state is one of
    its rows, before the step; an operand of shape `(rows, *shape)` is the whole state.
    """

    name: str
    rows: int
    shape: Sequence[int]
    dtype: str
    place: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "place", caller())
        where = f"{self.place}: state"
        if not isinstance(self.name, str) or not self.name.isidentifier() or self.name != self.name.lower():
            raise ExtensionError(f"{where}: name must be a lower-case identifier, got {self.name!r}")
        where = f"{where} {self.name}"
        if not is_int(self.rows) or self.rows < 1:
            raise ExtensionError(f"{where}: rows must be a positive integer, got {self.rows!r}")
        if not isinstance(self.shape, Sequence) or not all(is_int(size) and size > 0 for size in self.shape):
            raise ExtensionError(f"{where}: shape must be positive integers, got {self.shape!r}")
        if INTEGER_BITS.get(self.dtype, MOST_BITS + 1) > MOST_BITS:
            raise ExtensionError(f"{where}: dtype must be an integer of at most {MOST_BITS} bits, got {self.dtype!r}")

    @property
    def row_shape(self) -> tuple[int, ...]:
        """The shape of a row."""
        return tuple(self.shape)

    @property
    def whole_shape(self) -> tuple[int, ...]:
        """The shape of all rows."""
        return (self.rows, *self.shape)

    def is_whole(self, shape: Sequence[int]) -> bool:
        """Whether an operand of this shape is the whole state rather than one row."""
        return self.rows > 1 and tuple(shape) == self.whole_shape

    def of_machine(self, unit: str) -> PlugInState:
        """Its declaration for the machine."""
        return PlugInState(unit, self.name, self.rows, self.row_shape, self.dtype)


def check_operand(where: str, operand: str, state: State, dtype: str, shape: Sequence[int]) -> None:
    """ExtensionError unless an operand is a row of the state or the whole state."""
    shapes = [state.row_shape] + ([state.whole_shape] if state.rows > 1 else [])
    if dtype != state.dtype or tuple(shape) not in shapes:
        choices = " or ".join(f"{state.dtype}{list(item)}" for item in shapes)
        raise ExtensionError(f"{where}: {operand} must be {choices} of state {state.name}, got {dtype}{list(shape)}")


def state_ports(
    where: str, unit: str, reads: Iterable[tuple[str, State, bool]], writes: Iterable[State], free: Sequence[str]
) -> tuple[StatePort, ...]:
    """The ports of a step that reads operands `(name, state, whole)` and writes rows.

    Each state of several rows takes the next of the `free` indices; what reads all rows takes none.
    """
    written, pending, ports = list(writes), list(free), []
    operands: dict[State, tuple[str, bool]] = {}
    for name, state, whole in reads:
        if state in operands:
            raise ExtensionError(
                f"{where}: state {state.name} must be one operand, got {operands[state][0]} and {name}"
            )
        if whole and state in written:
            rule = f"a step that updates state {state.name} must read one row of it"
            raise ExtensionError(f"{where}: {rule}, got all rows as {name}")
        operands[state] = (name, whole)
    for state in dict.fromkeys((*operands, *written)):
        operand, whole = operands.get(state, (None, False))
        index = None
        if state.rows > 1 and not whole:
            if not pending:
                rule = f"state {state.name} must have an index register that no other operand uses"
                raise ExtensionError(f"{where}: {rule}, got none of acc, src and wgt left")
            index = pending.pop(0)
        ports.append(StatePort(state.of_machine(unit), index, operand, whole, state in written))
    return tuple(ports)
