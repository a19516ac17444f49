# SPDX-License-Identifier: Apache-2.0
"""Whether a program is free of findings, decided on whole arrays of instructions.

The answer equals that of the walks in `accesses` and `races`, which check one instruction after the
other and report errors. A clear program needs neither.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.hardware.config import Buffer
from vdla.hardware.isa import COL, Opcode, Partition, Places, PlugInState, Unit, Where, partition
from vdla.hardware.program import WRITABLE_ROLES, Program
from vdla.simulator.verify.accesses import AccessWalk
from vdla.simulator.verify.races import incomplete
from vdla.simulator.verify.tokens import NEVER, TokenRun
from vdla.simulator.verify.verdict import Finding
from vdla.support.arrays import Bools, Ints

_MOST_PAIRS = 1 << 17
"""Pairs of an access and a part that are in memory at once, except for those of a single access."""
_MOST_CLASSES = 1 << 12
"""Classes of instructions above which the walks take less time."""
_NONE = -1

Space = tuple[int, Buffer | PlugInState | None]


def clear(program: Program, run: TokenRun) -> tuple[Finding, ...] | None:
    """The warnings about a program without findings; None if it may have findings.

    `run` is its token run.
    """
    if not run.complete(len(program)) or any(run.tokens):
        return None
    spaces = _spaces(program)
    if spaces is None:
        return None
    order = _Order(program, run)
    if not all(order.holds(space) for space in spaces.values()):
        return None
    return tuple(_warnings(program, spaces))


def _warnings(program: Program, spaces: dict[Space, _Accesses]) -> Iterator[Finding]:
    for number, tensor in enumerate(program.tensors):
        if tensor.role == "output":
            beats = tensor.nbytes // program.config.axi_bytes
            done = spaces[number, None].written() if (number, None) in spaces else 0
            if done < beats:
                yield incomplete(tensor.name, done, beats)


# --- accesses -------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Accesses:
    """The accesses of one space, in any order: instruction, place and whether it is written."""

    shapes: list[Where] = field(default_factory=list)
    instructions: list[Ints] = field(default_factory=list)
    distances: list[Ints] = field(default_factory=list)
    writes: list[bool] = field(default_factory=list)
    begins_written: bool = False

    def add(self, instruction: Ints, shape: Where, distance: Ints, writes: bool) -> None:
        """Instruction `i` accesses `shape`, shifted by its distance."""
        self.shapes.append(shape)
        self.instructions.append(instruction)
        self.distances.append(distance)
        self.writes.append(writes)

    def columns(self) -> tuple[Partition, Ints, Ints, Bools]:
        """The partition by all places; the instruction, place and kind of every access."""
        sizes = [len(rows) for rows in self.instructions]
        shape = np.repeat(np.arange(len(sizes)), sizes)
        places, place = Places.distinct(self.shapes, shape, np.concatenate(self.distances))
        parts = partition(places)
        writes = np.repeat(np.array(self.writes, np.bool_), sizes)
        return parts, np.concatenate(self.instructions), place, writes

    def written(self) -> int:
        """The number of entries that are written."""
        parts, _, place, writes = self.columns()
        chosen = np.unique(place[writes])
        return int(parts.sizes[np.unique(parts.of(chosen)[1])].sum())


def _spaces(program: Program) -> dict[Space, _Accesses] | None:
    """The accesses of all buffers and writable tensors; None if some field leads outside."""
    walk, spaces = AccessWalk(program), dict[Space, _Accesses]()
    groups = classes(program)
    if len(groups) > _MOST_CLASSES:
        return None
    for rows in groups:
        row: list[int] = program.columns[rows[0]].tolist()
        if row[COL["opcode"]] == Opcode.LOAD and row[COL["buffer"]] == Buffer.UOP:
            if walk.problems(int(rows[0]), row):
                return None
            continue
        if row[COL["opcode"]] != Opcode.SYNC and not _add_class(program, walk, spaces, row, rows):
            return None
    return spaces


def _add_class(program: Program, walk: AccessWalk, spaces: dict[Space, _Accesses], row: list[int], rows: Ints) -> bool:
    """Add the accesses of instructions that are alike; False if one may have a finding."""
    bases = {name: program.columns[rows, COL[name]] for name in BASES}
    most = list(row)
    for name, values in bases.items():
        most[COL[name]] = int(values.max())
    if walk.problems(int(rows[0]), most):  # each base alone decides about the bounds of its access
        return False
    kernel = walk.kernel(row)
    alike = walk.footprints.alike(row, kernel, bases)
    numbers = np.unique(alike)
    if len(numbers) > _MOST_CLASSES:
        return False
    for number in numbers:
        chosen = np.flatnonzero(alike == number)
        one = list(row)
        for name, values in bases.items():
            one[COL[name]] = int(values[chosen[0]])
        for access in walk.footprints.accesses(one, kernel):
            if access.buffer != Buffer.UOP:
                distance = walk.footprints.shift(one, kernel, access.field, bases[access.field][chosen])
                _of(spaces, (_NONE, access.buffer)).add(rows[chosen], access.where, distance, access.writes)
        for held in walk.footprints.state_accesses(one, kernel):
            distance = np.zeros(len(chosen), np.int64)
            if held.field is not None:
                distance = bases[held.field][chosen] - one[COL[held.field]]
            _of(spaces, (_NONE, held.state)).add(rows[chosen], held.where, distance, held.writes)
    tensor = int(program.tensor_of[rows[0]])
    if tensor >= 0 and program.tensors[tensor].role in WRITABLE_ROLES:
        whole, beats = walk.beats(tensor, row)
        space = _of(spaces, (whole, None))
        space.begins_written = program.tensors[whole].role == "resident"
        distance = bases["dram"] - row[COL["dram"]] if whole == tensor else np.zeros(len(rows), np.int64)
        space.add(rows, beats, distance, row[COL["opcode"]] == Opcode.STORE)
    return True


def _of(spaces: dict[Space, _Accesses], space: Space) -> _Accesses:
    return spaces.setdefault(space, _Accesses())


# --- order ----------------------------------------------------------------------------------------


class _Order:
    """The order of instructions that tokens enforce, and one in which they can run."""

    def __init__(self, program: Program, run: TokenRun) -> None:
        self.clocks = np.array(run.clocks, np.int64).reshape(-1, len(Unit))
        self.units = program.columns[:, COL["unit"]]
        self.time = np.empty(len(program), np.int64)
        self.time[run.order] = np.arange(len(program))

    def holds(self, space: _Accesses) -> bool:
        """Whether all conflicting accesses are ordered, and all that is read has been written."""
        parts, instruction, place, writes = space.columns()
        order = np.lexsort((writes, self.time[instruction]))  # an instruction reads before it writes
        instruction, place, writes = instruction[order], place[order], writes[order]
        last = np.full((2, len(Unit), parts.count), NEVER, np.int64)
        ends = np.cumsum(np.diff(parts.starts)[place])
        start, done = 0, 0
        while start < len(ends):
            stop = max(start + 1, int(np.searchsorted(ends, done + _MOST_PAIRS, side="right")))
            chunk = slice(start, stop)
            access, part, first = parts.histories(place[chunk])
            held = instruction[chunk][access], part, first, writes[chunk][access]
            if not self._holds(*held, last, begins_written=space.begins_written):
                return False
            start, done = stop, int(ends[stop - 1])
        return True

    def _holds(
        self, instruction: Ints, part: Ints, first: Ints, writes: Bools, last: Ints, *, begins_written: bool
    ) -> bool:
        """The check of accesses sorted by part, those of a part in order of time.

        `first` is the first access of each one's part. `last[wrote, unit, part]` is the last
        instruction that read or wrote before; it is updated.
        """
        unit, place = self.units[instruction], np.arange(len(part))
        written, writers = np.zeros(len(part), np.bool_), np.flatnonzero(writes)
        for wrote in (True, False):
            for other in Unit:
                chosen = (writes == wrote) & (unit == other)
                before = last[int(wrote), other]
                if not chosen.any() and (before == NEVER).all():
                    continue
                at = np.maximum.accumulate(np.where(chosen, place, NEVER))
                rows = slice(None) if wrote else writers  # what follows a read conflicts only if it writes
                at, later = at[rows], instruction[rows]
                source = np.where(at >= first[rows], instruction[at], before[part[rows]])
                conflict = unit[rows] != other
                if (source[conflict] > self.clocks[later[conflict], other]).any():
                    return False
                if wrote:
                    written |= source != NEVER
                before[part[chosen]] = instruction[chosen]  # the last of a part is assigned last
        return begins_written or bool((written | writes).all())


# --- alike instructions ---------------------------------------------------------------------------
# Classes of instructions that are alike: equal except for their bases and token bits.
#
# The accesses of a class have one shape, and its bounds follow from the largest value of each base.


BASES = ("sram", "dram", "acc", "src", "wgt", "out", "scl")
_TOKENS = ("pop_prev", "pop_next", "push_prev", "push_next")
_FREE = [COL[name] for name in (*BASES, *_TOKENS)]


def classes(program: Program) -> list[Ints]:
    """The instructions of each class in order, the classes in order of their first instruction.

    A class has one tensor, and one content of the micro-op buffer: no LOAD of micro-ops lies
    between its instructions, and each such LOAD is a class of its own.
    """
    table = program.columns
    loads = (table[:, COL["opcode"]] == Opcode.LOAD) & (table[:, COL["buffer"]] == Buffer.UOP)
    epoch = 2 * np.cumsum(loads) - loads  # odd for the LOAD itself
    kept = (table[:, column] for column in range(table.shape[1]) if column not in _FREE)
    number = _numbers([*kept, program.tensor_of, epoch])
    order = np.argsort(number, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(number[order])) + 1)
    return sorted(filter(len, groups), key=lambda group: int(group[0]))


def _numbers(columns: Sequence[NDArray[Any]]) -> Ints:
    """Equal numbers for equal rows, by a checksum that is compared where it is equal.

    The columns are not put side by side, which would take as much memory again.
    """
    weights = np.random.default_rng(0).integers(1, 1 << 62, len(columns)) | 1
    checksum = np.zeros(len(columns[0]), np.int64)
    for column, weight in zip(columns, weights, strict=True):
        checksum += column * weight
    _, first, number = np.unique(checksum, return_index=True, return_inverse=True)
    if all((column == column[first[number]]).all() for column in columns):
        return np.asarray(number, np.int64)
    _, number = np.unique(np.column_stack(columns), axis=0, return_inverse=True)
    return np.asarray(number, np.int64).reshape(-1)
