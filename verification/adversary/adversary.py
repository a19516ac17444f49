# SPDX-License-Identifier: Apache-2.0
"""The adversary: runs a program under hostile schedules, looking for hangs, stray accesses and
races.

Its machine lets units advance in any order, with the smallest and with large queues. It shares no
code with the verifier; `vdla bench mutants` tests that the two agree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import permutations

import numpy as np
from numpy.random import Generator, default_rng
from numpy.typing import NDArray

from vdla.hardware.config import MIN_COMMAND_DEPTH, MIN_TOKEN_DEPTH, Buffer, Config
from vdla.hardware.isa import COL, OldSum, PlugIn, Port, Unit, uop_columns
from vdla.hardware.program import Program, ProgramTensor
from vdla.support.arrays import Ints
from vdla.verification.adversary import machine

Digests = NDArray[np.uint64]

_DEEP = 4096
MOST_ITEMS = 1 << 26
"""The default limit of entries moved and iterations run per interleaving; beyond it, UNDECIDED."""

_WRITABLE = ("output", "scratch", "resident", "part")
_PLACEMENTS = 4
"""Of parts in their wholes, for a program that has some: at the begin, at the end, at random."""


class Harm(str, Enum):
    """What an interleaving does to a program; UNDECIDED beyond the limit of items."""

    NONE = "none"
    HANG = "hang"
    BOUNDS = "bounds"
    TIMING = "timing"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Attack:
    """The first harm found, and the interleaving that does it."""

    harm: Harm
    detail: str
    interleavings: int

    @property
    def harmful(self) -> bool:
        """Whether some machine that Config allows hangs, leaves its memory or races."""
        return self.harm not in (Harm.NONE, Harm.UNDECIDED)


@dataclass(frozen=True, slots=True)
class Interleaving:
    """A schedule of the units: the first in `order` that can advance does, or a random one.

    A unit does up to `chunk` items at a time, 0 for whole instructions. With `latched`, a LOAD or
    STORE reads all its data before it writes any.
    """

    order: tuple[int, ...]
    command_depth: int = _DEEP
    token_depth: int = _DEEP
    random: bool = False
    chunk: int = 0
    latched: bool = False

    def __str__(self) -> str:
        units = " before ".join(Unit(unit).name.lower() for unit in self.order)
        return f"{'at random, else ' if self.random else ''}{units}, {self.command_depth} commands"


def interleavings(count: int, rng: Generator) -> Iterator[Interleaving]:
    """The smallest machine, the six orders of the units, then `count` random interleavings.

    With deep queues, two unordered instructions of different units run in one order when the first
    unit has precedence and in the other when it has none; so the six orders expose every race that
    changes results.
    """
    orders = list(permutations(range(3)))
    yield Interleaving(orders[0], MIN_COMMAND_DEPTH, MIN_TOKEN_DEPTH)
    for order in orders:
        yield Interleaving(order)
    for number in range(count):
        depths = (MIN_COMMAND_DEPTH, MIN_TOKEN_DEPTH) if number % 2 else (_DEEP, _DEEP)
        order = orders[int(rng.integers(len(orders)))]
        chunk = int(rng.choice([0, 1, 4, 64]))
        yield Interleaving(order, *depths, random=True, chunk=chunk, latched=bool(rng.integers(2)))


def attack(program: Program, seed: int = 0, count: int = 6, most_items: int = MOST_ITEMS) -> Attack:
    """Run `program`, whose words must be valid, under the fixed and `count` random interleavings,
    with the parts of tensors in several places.

    An item is an entry moved or an iteration run; an interleaving of more than `most_items` ends
    the attack as UNDECIDED.
    """
    rng = default_rng(seed)
    attacks = (_attack(_Victim(program, most_items, at), rng, count) for at in _placements(program, rng))
    interleavings_done = 0
    for result in attacks:
        interleavings_done += result.interleavings
        if result.harm is not Harm.NONE:
            break
    return Attack(result.harm, result.detail, interleavings_done)


def _placements(program: Program, rng: Generator) -> Iterator[dict[str, int]]:
    """The beats at which parts begin in their wholes, by name."""
    sizes = {tensor.name: tensor.nbytes // program.config.axi_bytes for tensor in program.tensors}
    spare = {tensor.name: sizes[tensor.whole] - sizes[tensor.name] for tensor in program.tensors if tensor.whole}
    yield dict.fromkeys(spare, 0)
    for number in range(1, _PLACEMENTS if spare else 1):
        yield spare if number == 1 else {name: int(rng.integers(most + 1)) for name, most in spare.items()}


def _attack(victim: _Victim, rng: Generator, count: int) -> Attack:
    first: Digests | None = None
    done = 0
    for done, interleaving in enumerate(interleavings(count, rng), start=1):
        status, where, dram = victim.run(interleaving, int(rng.integers(1 << 62)))
        if status != machine.DONE:
            return Attack(_STATUS[status], f"at instruction {where}, {interleaving}", done)
        if first is not None and not np.array_equal(first, dram):
            return Attack(Harm.TIMING, f"{victim.difference(first, dram)}, {interleaving}", done)
        first = dram if first is None else first
    return Attack(Harm.NONE, "", done)


_STATUS = {machine.HANG: Harm.HANG, machine.BOUNDS: Harm.BOUNDS, machine.LONG: Harm.UNDECIDED}


class _Victim:
    """A program in the arrays of the compiled machine."""

    def __init__(self, program: Program, most_items: int, parts: dict[str, int]) -> None:
        self.program = program
        self.most_items = most_items
        config = program.config
        self.rows = np.ascontiguousarray(program.columns)
        units = self.rows[:, COL["unit"]]
        queues = [np.flatnonzero(units == unit) for unit in Unit]
        self.counts = np.array([len(queue) for queue in queues], np.int64)
        self.order = np.zeros((len(Unit), len(program)), np.int64)
        for unit, queue in enumerate(queues):
            self.order[unit, : len(queue)] = queue
        self.ports = np.array([_ports(plug_in) for plug_in in config.extensions], np.int64).reshape(
            -1, len(machine.PORTS)
        )
        self.held = np.array(list(_held(config)), np.int64).reshape(-1, len(machine.HELD))
        beats = [tensor.nbytes // config.axi_bytes for tensor in program.tensors]
        separate = [0 if tensor.whole else size for tensor, size in zip(program.tensors, beats, strict=True)]
        self.base = np.concatenate([[0], np.cumsum(separate)]).astype(np.int64)
        begins = dict(zip([tensor.name for tensor in program.tensors], self.base[:-1].tolist(), strict=True))
        bases = [begins[t.whole or t.name] + parts.get(t.name, 0) for t in program.tensors]
        self.table, firsts = _micro_op_tables(config, program.tensors)
        rows = [
            (b, n, int(t.role in _WRITABLE), f)
            for b, n, t, f in zip(bases, beats, program.tensors, firsts, strict=True)
        ]
        self.tensors = np.array([*rows, (0, -1, 0, -1)], np.int64)
        self.tensor_of = program.tensor_of.astype(np.int64) % len(self.tensors)  # -1 is the last row
        self.dram = default_rng(1).integers(0, 1 << 63, int(self.base[-1]), np.uint64)

    def run(self, interleaving: Interleaving, seed: int) -> tuple[int, int, Digests]:
        """The status, the instruction and the DRAM digests at the end."""
        dram = self.dram.copy()
        params = _params(self.program.config, interleaving, seed, self.most_items)
        status, where = machine.run(
            self.rows,
            self.order,
            self.counts,
            self.tensor_of,
            self.tensors,
            self.table,
            dram,
            params,
            self.ports,
            self.held,
        )
        return int(status), int(where), dram

    def difference(self, a: Digests, b: Digests) -> str:
        """The first differing beat as text."""
        at = int((a != b).argmax())
        tensor = int(np.searchsorted(self.base[1:], at, side="right"))  # a part has no bytes of its own
        return f"{self.program.tensors[tensor].name} differs at beat {at - int(self.base[tensor])}"


def _ports(plug_in: PlugIn) -> tuple[int, ...]:
    """What a plug-in reads, in the order of `machine.PORTS`."""
    old = {
        OldSum.UNTOUCHED: machine.NO_SUM,
        OldSum.OVERWRITE: machine.NOTHING,
        OldSum.READ: machine.SUM,
        OldSum.ACCUMULATE: machine.SUM_UNLESS_FIRST,
    }
    entries = (1 if port is None else port.entries for port in (plug_in.src, plug_in.wgt))
    result = Buffer.INP if plug_in.writes_inputs else Buffer.ACC
    return old[plug_in.old], _port(plug_in.src), _port(plug_in.wgt), *entries, result


def _port(port: Port | None) -> int:
    if port is None:
        return machine.NOTHING
    if port.buffer == Buffer.ACC:
        return machine.SUM
    return machine.VECTOR if port.vector else machine.ENTRY


def _held(config: Config) -> Iterator[tuple[int, ...]]:
    """The private states that plug-ins and the stage use, in the order of `machine.HELD`."""
    indices = {"acc": machine.BY_ACC, "src": machine.BY_SRC, "wgt": machine.BY_WGT, None: machine.ONLY}
    owners = [(number, port) for number, plug_in in enumerate(config.extensions) for port in plug_in.states]
    owners += [(machine.STAGE, port) for port in (config.stage.states if config.stage is not None else ())]
    spaces = {port.state: machine.BUFFERS + k for k, port in enumerate({p.state: p for _, p in owners}.values())}
    for owner, port in owners:
        index = machine.ALL if port.whole else indices[port.index]
        reads, writes = port.operand is not None, port.writes
        yield owner, spaces[port.state], port.state.rows, index, int(reads), int(writes)


def _micro_op_tables(config: Config, tensors: tuple[ProgramTensor, ...]) -> tuple[Ints, list[int]]:
    """The micro-op at each beat of each constant, and the first of each tensor (-1: unknown)."""
    tables, firsts, total = [np.zeros((1, 5), np.int64)], [], 1
    for tensor in tensors:
        known = tensor.role == "constant" and tensor.data is not None
        firsts.append(total if known else -1)
        if known:
            tables.append(_micro_ops_at_beats(config, tensor.data or b""))
            total += len(tables[-1])
    return np.concatenate(tables), firsts


def _micro_ops_at_beats(config: Config, data: bytes) -> Ints:
    width = config.uop_entry_bytes
    padded = np.frombuffer(data + bytes(width), np.uint8)
    starts = np.arange(0, len(data), config.axi_bytes)
    return uop_columns(config, padded[starts[:, None] + np.arange(width)])


def _params(config: Config, interleaving: Interleaving, seed: int, most_items: int) -> Ints:
    inp, vector = config.inp_entry_bytes, config.out_entry_bytes
    names = [buffer.name.lower() for buffer in Buffer]
    values = {
        "command_depth": interleaving.command_depth,
        "token_depth": interleaving.token_depth,
        **dict(zip(names, config.depths, strict=True)),
        **{f"{name}_beats": size // config.axi_bytes for name, size in zip(names, config.entry_bytes, strict=True)},
        "inp_per_entry": max(1, inp // vector),
        "inp_entries": max(1, vector // inp),
        "wgt_per_entry": config.wgt_entry_bytes // config.wgt_vector_bytes,
        "slot_entries": config.acc_entry_bytes // config.out_entry_bytes,
        "most": max(config.depths),
        "random": int(interleaving.random),
        **dict(zip(("first", "second", "third"), interleaving.order, strict=True)),
        "chunk": interleaving.chunk,
        "latched": int(interleaving.latched),
        "seed": seed,
        "limit": most_items,
    }
    return np.array([values[name] for name in machine.PARAMS], np.int64)
