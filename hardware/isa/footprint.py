# SPDX-License-Identifier: Apache-2.0
"""The exact footprint of an instruction: entries of on-chip buffers, beats of its tensor in DRAM,
rows of private state.

A read is of a value from before the instruction: an accumulator entry that the instruction itself
starts is not read. The sets are defined, and cheap, only for an instruction without `excess`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from vdla.hardware.isa import index_set
from vdla.hardware.isa.encoding import UOP_COLUMNS
from vdla.hardware.isa.index_set import Indices, Where
from vdla.hardware.isa.instruction_set import COL, EXTENSION_COLUMN, plug_in_of
from vdla.hardware.isa.instructions import EXTENSION, Buffer, Emit, Opcode, StagedEmit
from vdla.hardware.isa.plug_in import OldSum, Port, StepPorts
from vdla.hardware.isa.plug_in_state import PlugInState, StatePort
from vdla.hardware.isa.sizes import Sizes
from vdla.hardware.isa.step_ports import ports_of

Row = Sequence[int]
"""The columns of one instruction as plain integers."""

MOST_ITERATIONS = 1 << 20
"""Iterations up to which reads of entries that a VECTOR also writes are resolved exactly."""

_OPCODE, _INIT, _EMIT = COL["opcode"], COL["init"], COL["emit"]
_LOOP0, _LOOP1 = COL["loop0"], COL["loop1"]
_OP, _SOURCE, _OPERAND = COL["op"], COL["source"], COL["operand"]
_ACC, _SRC, _FIRST, _LAST = (UOP_COLUMNS.index(name) for name in ("acc", "src", "first", "last"))
_NO_COLUMN = -1
_LOOPED = (Opcode.GEMM, Opcode.VECTOR, EXTENSION)


@dataclass(frozen=True, slots=True)
class BufferAccess:
    """Entries of a buffer that are read or written; beats of the tensor if `buffer` is None."""

    field: str
    buffer: Buffer | None
    writes: bool
    where: Where


@dataclass(frozen=True, slots=True)
class StateAccess:
    """Rows of a private state that are read or written; without a `field` nothing moves them.

    Compute alone accesses them, in program order.
    """

    field: str | None
    state: PlugInState
    writes: bool
    where: Where


@dataclass(frozen=True, slots=True)
class Excess:
    """Fields that lead outside: `fields must keep things below limit, got got`."""

    fields: tuple[str, ...]
    things: str
    limit: int
    got: int

    def __str__(self) -> str:
        return f"{' and '.join(self.fields)} must keep {self.things} below {self.limit}, got {self.got}"


class UopOffsets:
    """The micro-ops of an instruction, `columns[n, 5]`, and the sets of their offsets."""

    def __init__(self, columns: Indices) -> None:
        self.columns = columns
        self._sets: dict[tuple[int, bool], int] = {}
        self._starts: dict[bool, tuple[int, int]] = {}

    def offsets(self, column: int, last_only: bool) -> int:
        """The bit set of a column, over all or the `last` micro-ops; {0} without a column."""
        key = (column, last_only)
        if key not in self._sets:
            used = self.columns[self.columns[:, _LAST] > 0] if last_only else self.columns
            self._sets[key] = int(len(used) > 0) if column == _NO_COLUMN else index_set.of_values(used[:, column])
        return self._sets[key]

    def starts(self, init: bool) -> tuple[int, int]:
        """The accumulator offsets of one pass, and those whose old value is read."""
        if init not in self._starts:
            offsets, first_at = np.unique(self.columns[:, _ACC], return_index=True)
            reads = self.columns[first_at, _FIRST] == 0
            self._starts[init] = (
                index_set.of_values(offsets),
                index_set.of_values(offsets[reads] if init else offsets),
            )
        return self._starts[init]


@dataclass(frozen=True, slots=True)
class _Stream:
    """An index of GEMM or VECTOR: base field, loop factors, micro-op column, unit in the buffer."""

    field: str
    buffer: Buffer | None  # None for a private state
    things: str
    limit: int
    moves: str
    column: int
    last_only: bool = False
    writes: bool = False
    entries: int = 1  # entries in one index, or
    per_entry: int = 1  # indices in one entry

    @property
    def base(self) -> int:
        return COL[self.field]

    @property
    def factors(self) -> tuple[int, int]:
        return COL[f"{self.moves}0"], COL[f"{self.moves}1"]


def _streams(config: Sizes, ports: StepPorts, emit: int) -> tuple[_Stream, ...]:
    """The indices of buffers that an instruction with these ports uses."""
    buffer = Buffer.INP if ports.writes_inputs else Buffer.ACC
    limit = min(config.depths[buffer], config.acc_depth)  # what acc can index
    result = replace(_entries(config, "acc", buffer), limit=limit, writes=True)
    writes = ports.writes_inputs or ports.old is not OldSum.UNTOUCHED
    reads = (_port(config, field, port) for field, port in ports.indexed)
    return (*([result] if writes else []), *reads, *_sent(config, emit))


def _entries(config: Sizes, field: str, buffer: Buffer, count: int = 1) -> _Stream:
    name = f"{buffer.name.lower()} entries"
    return _Stream(
        field=field,
        buffer=buffer,
        things=name if count == 1 else f"groups of {count} {name}",
        limit=config.depths[buffer] // count,
        moves=field,
        column=UOP_COLUMNS.index(field),
        entries=count,
    )


def _port(config: Sizes, field: str, port: Port) -> _Stream:
    if port.vector:
        return _input_vectors(config) if port.buffer is Buffer.INP else _weight_vectors(config)
    return _entries(config, field, port.buffer, port.entries)


def _state_stream(port: StatePort, index: str) -> _Stream:
    return _Stream(
        field=index,
        buffer=None,
        things=f"{port.state.label} rows",
        limit=port.state.rows,
        moves=index,
        column=UOP_COLUMNS.index(index),
        writes=port.writes,
    )


def _weight_vectors(config: Sizes) -> _Stream:
    return _Stream(
        field="wgt",
        buffer=Buffer.WGT,
        things="wgt vectors",
        limit=config.wgt_vectors,
        moves="wgt",
        column=UOP_COLUMNS.index("wgt"),
        per_entry=config.wgt_entry_bytes // config.wgt_vector_bytes,
    )


def _input_vectors(config: Sizes) -> _Stream:
    vector, entry = config.out_entry_bytes, config.inp_entry_bytes
    return _Stream(
        field="src",
        buffer=Buffer.INP,
        things="inp vectors",
        limit=config.inp_vectors,
        moves="src",
        column=_SRC,
        entries=max(1, vector // entry),
        per_entry=max(1, entry // vector),
    )


def _sent(config: Sizes, emit: int) -> Iterator[_Stream]:
    if emit == Emit.RAW:
        slot = config.acc_bits // config.out_bits
        yield _Stream(
            field="out",
            buffer=Buffer.OUT,
            things="out slots",
            limit=config.out_slots,
            moves="acc",
            column=_ACC,
            last_only=True,
            writes=True,
            entries=slot,
        )
    if emit in (StagedEmit.REQUANT, StagedEmit.STAGE):
        yield _Stream(
            field="out",
            buffer=Buffer.OUT,
            things="out entries",
            limit=config.out_depth,
            moves="acc",
            column=_ACC,
            last_only=True,
            writes=True,
        )
        yield _Stream(
            field="scl",
            buffer=Buffer.SCL,
            things="scl entries",
            limit=config.scl_depth,
            moves="scl",
            column=_NO_COLUMN,
            last_only=True,
        )


class Footprints:
    """The footprints of instructions of a configuration; equal shapes are computed once."""

    def __init__(self, config: Sizes) -> None:
        self.config = config
        self._shapes: dict[tuple[object, ...], Where] = {}
        self._forms: dict[tuple[int, ...], tuple[_Stream, ...]] = {}
        self._streams: dict[tuple[int, ...], list[_Stream]] = {}
        self._kernels: dict[int, UopOffsets] = {}  # keeps the objects alive whose id is a key above

    # --- bounds

    def excess(self, row: Row, kernel: UopOffsets | None) -> list[Excess]:
        """The fields that lead outside an on-chip buffer; `kernel` has the micro-ops, if any."""
        if row[_OPCODE] in (Opcode.LOAD, Opcode.STORE):
            return _dma_excess(self.config, row)
        if row[_OPCODE] == Opcode.SYNC or kernel is None:
            return []
        streams = [*self._used(row, kernel), *self._state_streams(row)]
        return [text for stream in streams if (text := _looped_excess(stream, row, kernel))]

    def kernel_excess(self, row: Row) -> Excess | None:
        """The excess of the micro-ops of a GEMM or VECTOR beyond their buffer, or None."""
        last = row[COL["uop_end"]] - 1
        depth = self.config.uop_depth
        return Excess(("uop_end",), "uop entries", depth, last) if last >= depth else None

    def dram_excess(self, row: Row, beats: int, name: str) -> Excess | None:
        """The excess of a LOAD or STORE beyond its tensor of `beats`, or None."""
        run = row[COL["x_size"]] * self.entry_beats(row)
        if not run or not row[COL["y_size"]]:
            return None
        reach = row[COL["dram"]]
        steps = [
            (("dram",), 0),
            (("x_size",), run - 1),
            (("y_size", "y_stride"), (row[COL["y_size"]] - 1) * row[COL["y_stride"]]),
            (("z_size", "z_stride"), (row[COL["z_size"]] - 1) * row[COL["z_stride"]]),
        ]
        return _first_beyond(steps, reach, beats, f"beats of tensor {name}")

    # --- sets

    def accesses(self, row: Row, kernel: UopOffsets | None) -> list[BufferAccess]:
        """The on-chip reads of the instruction, then its writes."""
        if row[_OPCODE] == Opcode.LOAD:
            buffer = Buffer(row[COL["buffer"]])
            return [BufferAccess("sram", buffer, True, slice(row[COL["sram"]], row[COL["sram"]] + dma_entries(row)))]
        if row[_OPCODE] == Opcode.STORE:
            return [
                BufferAccess("sram", Buffer.OUT, False, slice(row[COL["sram"]], row[COL["sram"]] + dma_entries(row)))
            ]
        if row[_OPCODE] == Opcode.SYNC or kernel is None:
            return []
        return self._looped(row, kernel)

    def state_accesses(self, row: Row, kernel: UopOffsets | None) -> list[StateAccess]:
        """The rows of private state that the instruction reads, then those that it writes."""
        if row[_OPCODE] not in _LOOPED or kernel is None:
            return []
        return sorted(self._state_accesses(row, kernel), key=lambda access: access.writes)

    def alike(self, row: Row, kernel: UopOffsets | None, bases: Mapping[str, Indices]) -> Indices:
        """Numbers of instructions that equal `row` except for their base fields, int64[n].

        The accesses of those with the same number are shifted copies of each other (`shift`).
        """
        count = len(next(iter(bases.values()), ()))
        number = np.zeros(count, np.int64)
        if kernel is None or row[_OPCODE] not in _LOOPED:
            return number
        for stream in self._used(row, kernel):
            if stream.per_entry > 1:
                number = number * stream.per_entry + bases[stream.field] % stream.per_entry
            if self._rereads(stream, row, kernel):  # what it reads of what it writes
                first = bases["src"] // stream.per_entry * stream.entries
                distances, which = index_set.numbered(first - bases["acc"])
                number = number * len(distances) + which
        return number

    def unit(self, row: Row, kernel: UopOffsets | None, field: str) -> tuple[int, int]:
        """What a field counts in, (per entry, entries): `per entry` units make an entry of the
        buffer, or a unit is `entries` entries.
        """
        if row[_OPCODE] not in _LOOPED or kernel is None:
            return 1, 1
        stream = next(stream for stream in self._used(row, kernel) if stream.field == field)
        return stream.per_entry, stream.entries

    def shift(self, row: Row, kernel: UopOffsets | None, field: str, base: Indices) -> Indices:
        """How far the access of `field` lies from that of `row`, in instructions with other bases.

        `base` has their values of the field.
        """
        per_entry, entries = self.unit(row, kernel, field)
        return (base // per_entry - row[COL[field]] // per_entry) * entries

    def beats(self, row: Row) -> Where:
        """The beats of the tensor that a LOAD reads or a STORE writes."""
        run = row[COL["x_size"]] * self.entry_beats(row)
        y_size, y_stride, z_size, z_stride = (row[COL[name]] for name in ("y_size", "y_stride", "z_size", "z_stride"))
        plane = (y_size - 1) * y_stride + run
        total = (z_size - 1) * z_stride + plane
        if run == 0 or y_size == 0:
            return slice(row[COL["dram"]], row[COL["dram"]])
        if (y_size == 1 or y_stride <= run) and (z_size == 1 or z_stride <= plane):
            return slice(row[COL["dram"]], row[COL["dram"]] + total)
        return _scattered(row[COL["dram"]], run, (y_size, y_stride), (z_size, z_stride))

    def entry_beats(self, row: Row) -> int:
        """Beats of an entry in DRAM."""
        out = row[_OPCODE] == Opcode.STORE or row[COL["widen"]]
        return self.config.entry_bytes[Buffer.OUT if out else row[COL["buffer"]]] // self.config.axi_bytes

    def _state_accesses(self, row: Row, kernel: UopOffsets) -> Iterator[StateAccess]:
        plug_in, stage = plug_in_of(self.config, row), self.config.stage
        for port in plug_in.states if plug_in is not None else ():
            where: Where = slice(0, port.state.rows)
            if port.index is not None:
                where = self._place(_state_stream(port, port.index), row, kernel)
            if port.operand is not None:
                yield StateAccess(port.index, port.state, False, where)
            if port.writes:
                yield StateAccess(port.index, port.state, True, where)
        if stage is not None and row[_EMIT] == StagedEmit.STAGE and kernel.offsets(_NO_COLUMN, last_only=True):
            yield from (StateAccess(None, port.state, False, slice(0, port.state.rows)) for port in stage.states)

    def _state_streams(self, row: Row) -> list[_Stream]:
        plug_in = plug_in_of(self.config, row)
        ports = plug_in.states if plug_in is not None else ()
        return [_state_stream(port, port.index) for port in ports if port.index is not None]

    def _used(self, row: Row, kernel: UopOffsets) -> list[_Stream]:
        op = row[EXTENSION_COLUMN] if row[_OPCODE] == EXTENSION else row[_OP]
        form = (row[_OPCODE], row[_EMIT], op, row[_SOURCE], row[_OPERAND])
        key = (id(kernel), *form)
        if key not in self._streams:
            if form not in self._forms:
                self._forms[form] = _streams(self.config, ports_of(self.config, row), row[_EMIT])
            self._kernels[id(kernel)] = kernel
            used = [stream for stream in self._forms[form] if kernel.offsets(stream.column, stream.last_only)]
            self._streams[key] = used
        return self._streams[key]

    def _looped(self, row: Row, kernel: UopOffsets) -> list[BufferAccess]:
        micro_ops = slice(row[COL["uop_begin"]], row[COL["uop_end"]])
        accesses = [BufferAccess("uop_begin", Buffer.UOP, False, micro_ops)]
        if self._reads_old_sums(row):
            accesses.append(BufferAccess("acc", Buffer.ACC, False, self._old_sums(row, kernel)))
        for stream in self._used(row, kernel):
            place = self._place(stream, row, kernel)
            assert stream.buffer is not None, "streams of private state are apart"
            if self._rereads(stream, row, kernel):
                place = self._source(stream, row, kernel, place)
            accesses.append(BufferAccess(stream.field, stream.buffer, stream.writes, place))
        return sorted(accesses, key=lambda access: access.writes)

    def _reads_old_sums(self, row: Row) -> bool:
        return ports_of(self.config, row).old in (OldSum.READ, OldSum.ACCUMULATE)

    def _place(self, stream: _Stream, row: Row, kernel: UopOffsets) -> Where:
        base, phase = divmod(row[stream.base], stream.per_entry)
        terms = tuple((row[loop], row[f]) for loop, f in zip((_LOOP0, _LOOP1), stream.factors, strict=True))
        key = (id(kernel), stream.field, stream.entries, stream.per_entry, terms, phase)
        if key not in self._shapes:
            bits = kernel.offsets(stream.column, stream.last_only)
            for count, step in terms:
                bits = index_set.repeat(bits, count, step)
            self._shapes[key] = _to_entries(index_set.indices(bits) + phase, stream)
        return index_set.shift(self._shapes[key], base * stream.entries)

    def _old_sums(self, row: Row, kernel: UopOffsets) -> Where:
        """The accumulator entries whose old value is the first operand."""
        init = bool(row[_INIT])
        terms = tuple(row[COL[name]] for name in ("loop1", "acc1", "loop0", "acc0"))
        key = (id(kernel), init, terms)
        if key not in self._shapes:
            inner = index_set.repeat_in_order(*kernel.starts(init), *terms[:2])
            exposed = index_set.repeat_in_order(*inner, *terms[2:])[1]
            self._shapes[key] = index_set.compact(index_set.indices(exposed))
        return index_set.shift(self._shapes[key], row[COL["acc"]])

    def _rereads(self, stream: _Stream, row: Row, kernel: UopOffsets) -> bool:
        """Whether an operand lies in the buffer of the results."""
        return not stream.writes and stream.buffer in {item.buffer for item in self._results(row, kernel)}

    def _results(self, row: Row, kernel: UopOffsets) -> list[_Stream]:
        """The results of steps, if there are any."""
        return [stream for stream in self._used(row, kernel) if stream.writes and stream.field == "acc"]

    def _source(self, stream: _Stream, row: Row, kernel: UopOffsets, read: Where) -> Where:
        """The entries of `read`, those of a source, that a step reads before one writes them."""
        (results,) = self._results(row, kernel)
        written = self._place(results, row, kernel)
        if index_set.end(read) <= _begin(written) or index_set.end(written) <= _begin(read):
            return read
        exposed = _exposed_source(stream, row, kernel)
        return read if exposed is None else exposed


def dma_entries(row: Row) -> int:
    """Entries that a LOAD writes, with padding, or a STORE reads."""
    rows, columns = _dma_shape(row)
    return row[COL["z_size"]] * rows * columns


def _dma_shape(row: Row) -> tuple[int, int]:
    rows = row[COL["y_before"]] + row[COL["y_size"]] + row[COL["y_after"]]
    return rows, row[COL["x_before"]] + row[COL["x_size"]] + row[COL["x_after"]]


def _dma_excess(config: Sizes, row: Row) -> list[Excess]:
    buffer = Buffer(row[COL["buffer"]]) if row[_OPCODE] == Opcode.LOAD else Buffer.OUT
    rows, columns = _dma_shape(row)
    steps = [
        (("sram",), 0),
        (("x_size",), columns - 1),
        (("y_size",), (rows - 1) * columns),
        (("z_size",), (row[COL["z_size"]] - 1) * rows * columns),
    ]
    excess = _first_beyond(steps, row[COL["sram"]], config.depths[buffer], f"{buffer.name.lower()} entries")
    return [excess] if excess else []


def _looped_excess(stream: _Stream, row: Row, kernel: UopOffsets) -> Excess | None:
    first, second = stream.factors
    reach = kernel.offsets(stream.column, stream.last_only).bit_length() - 1
    if row[_LOOP0] and row[_LOOP1] and reach >= 0:  # no step goes back
        last = row[stream.base] + (row[_LOOP0] - 1) * row[first] + (row[_LOOP1] - 1) * row[second] + reach
        if last < stream.limit:
            return None
    steps = [
        ((stream.field,), 0),
        (("loop0", f"{stream.moves}0"), (row[_LOOP0] - 1) * row[first]),
        (("loop1", f"{stream.moves}1"), (row[_LOOP1] - 1) * row[second]),
        (("micro-op",), reach),
    ]
    return _first_beyond(steps, row[stream.base], stream.limit, stream.things)


def _first_beyond(steps: Sequence[tuple[tuple[str, ...], int]], reach: int, limit: int, things: str) -> Excess | None:
    """The first step that reaches `limit`; `got` is the index that all steps together reach."""
    blamed: tuple[str, ...] | None = None
    for fields, distance in steps:
        reach += distance
        if reach >= limit and blamed is None:
            blamed = fields
    return None if blamed is None else Excess(blamed, things, limit, reach)


def _to_entries(members: Indices, stream: _Stream) -> Where:
    if stream.per_entry > 1:
        entries = members // stream.per_entry
        return index_set.compact(entries[np.diff(entries, prepend=-1) > 0])
    if stream.entries > 1:
        return index_set.compact(np.add.outer(members * stream.entries, np.arange(stream.entries)).ravel())
    return index_set.compact(members)


def _begin(place: Where) -> int:
    if isinstance(place, slice):
        return int(place.start)
    return int(place[0]) if len(place) else 0


def _scattered(first: int, run: int, rows: tuple[int, int], planes: tuple[int, int]) -> Indices:
    starts = np.add.outer(np.arange(planes[0]) * planes[1], np.arange(rows[0]) * rows[1])
    beats = np.add.outer(starts, np.arange(run)).ravel() + first
    return beats if len(beats) < 2 or bool((np.diff(beats) > 0).all()) else np.unique(beats)


def _exposed_source(stream: _Stream, row: Row, kernel: UopOffsets) -> Indices | None:
    """The source entries read before being written, by simulation; None if that takes too long."""
    loops = [(row[_LOOP0], row[COL["acc0"]], row[COL["src0"]]), (row[_LOOP1], row[COL["acc1"]], row[COL["src1"]])]
    (n0, a0, s0), (n1, a1, s1) = ((n if a or s else 1, a, s) for n, a, s in loops)  # else all passes are equal
    if n0 * n1 * len(kernel.columns) > MOST_ITERATIONS:
        return None
    i, j = np.arange(n0)[:, None, None], np.arange(n1)[:, None]
    written = (row[COL["acc"]] + i * a0 + j * a1 + kernel.columns[:, _ACC]).ravel()
    index = (row[COL["src"]] + i * s0 + j * s1 + kernel.columns[:, _SRC]).ravel()
    read = np.add.outer(index // stream.per_entry * stream.entries, np.arange(stream.entries))
    at = np.full(max(int(written.max()), int(read.max())) + 1, len(written), np.int64)
    at[written[::-1]] = np.arange(len(written))[::-1]  # the first iteration's assignment wins
    return np.unique(read[at[read] >= np.arange(len(read))[:, None]])
