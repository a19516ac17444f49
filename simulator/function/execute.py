# SPDX-License-Identifier: Apache-2.0
"""Executes a linked program on a DRAM image, in an order that its tokens allow.

For a verified program all such orders give the same result. Stream order is used where the tokens
allow it, else the order of an untimed token run.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vdla.hardware.config import Config
from vdla.hardware.isa import (
    COL,
    EXTENSION,
    EXTENSION_COLUMN,
    QUEUES,
    Emit,
    OldSum,
    Opcode,
    PlugIn,
    PlugInStage,
    StagedEmit,
    Unit,
    isa_of,
    plug_in_of,
    ports_of,
)
from vdla.simulator.function import kernels
from vdla.simulator.function.buffers import Buffers, Row
from vdla.simulator.function.extension_kernel import emitted_entries, extension_kernel, stage_kernel
from vdla.simulator.support.errors import Escape, SimulationError, name_of, require_below
from vdla.support.arrays import Bools, Bytes, Ints
from vdla.support.plain import PLAIN

if not PLAIN:
    from vdla.simulator.function import dot_unit, kernels_stream, kernels_tiled
    from vdla.simulator.function.lanes import LANES

_Bools = Bools


class Engine:
    """Executes single instructions of a linked stream, on a DRAM image that it updates."""

    def __init__(self, config: Config, columns: Ints, dram: Bytes, portable: bool = False) -> None:
        fast = not (PLAIN or portable) and _is_fast_on(config)
        self.config = config
        self.columns = columns
        self.buffers = Buffers(config, dram, tiled=fast)
        self._sizes = _tile_sizes(config) if fast else np.zeros(0, np.int64)
        self._stream = None if not fast or config.inp_bits < 8 or config.wgt_bits < 8 else self._stream_arguments()

    def run(self, order: Ints) -> None:
        """Execute instructions in this order."""
        position = 0
        while position < len(order):
            if self._stream is not None:
                position = int(kernels_stream.run(self.columns, order, position, *self._stream))
            if position < len(order):
                self.execute(int(order[position]))
                position += 1

    def _stream_arguments(self) -> tuple[Any, ...]:
        """The arguments of `kernels_stream.run` after the position."""
        m, config = self.buffers, self.config
        limits = {name: getattr(config, name) for name in kernels_stream.LIMITS if hasattr(config, name)}
        limits |= {f"{b}_bytes": getattr(config, f"{b}_entry_bytes") for b in ("inp", "wgt", "scl", "out")}
        words, offsets, tiles, flat_acc, starts = m.flat
        inp, wgt = m.inp.reshape(-1), m.wgt.reshape(-1)
        return (
            np.array([limits[name] for name in kernels_stream.LIMITS], np.int64), self._sizes, m.dram,
            inp, inp.view(np.uint8), words, m.wide_inp.reshape(-1), m.inp_vectors, offsets,
            wgt.view(np.uint8), m.wgt_vectors, tiles,
            m.scl, m.scl.reshape(-1).view(np.uint8), m.uop, m.acc, flat_acc, starts, m.out, m.out.reshape(-1), m.raw,
        )  # fmt: skip

    def execute(self, index: int) -> None:
        """Execute an instruction; SimulationError where it leaves a buffer or DRAM."""
        try:
            self._execute(self.columns[index], self.columns[index].tolist())
        except Escape as escape:
            raise SimulationError(f"{name_of(self.columns, index)}: {escape}") from None

    def _execute(self, fields: Ints, row: Row) -> None:
        opcode = row[COL["opcode"]]
        if opcode == Opcode.LOAD:
            self.buffers.load(row)
        elif opcode == Opcode.STORE:
            self.buffers.store(row)
        elif opcode != Opcode.SYNC:
            self._compute(fields, row, self._uops(fields, row))

    def _compute(self, fields: Ints, row: Row, uops: Ints) -> None:
        opcode = row[COL["opcode"]]
        if opcode == Opcode.GEMM:
            self._gemm(fields, uops)
        elif opcode == Opcode.VECTOR:
            self._vector(fields, uops)
        elif opcode == EXTENSION:
            self._extension(self.config.extensions[row[EXTENSION_COLUMN]], fields, uops)
        if row[COL["emit"]] == StagedEmit.STAGE and self.config.stage is not None:
            self._stage(self.config.stage, fields, uops)

    def _uops(self, fields: Ints, row: Row) -> Ints:
        """The micro-ops of a compute instruction, after all its indices have been checked."""
        config, begin, end = self.config, row[COL["uop_begin"]], row[COL["uop_end"]]
        require_below("uop_end", end - 1, config.uop_depth)
        uops = self.buffers.uop[begin:end]
        acc, src, wgt, scl = kernels.extents(fields, uops)
        require_below("scl index", scl, config.scl_depth)
        plug_in = plug_in_of(config, row)
        ports, indices = ports_of(config, row), {"acc": acc, "src": src, "wgt": wgt}
        if ports.old is not OldSum.UNTOUCHED:
            require_below("acc index", acc, config.acc_depth)
        if ports.writes_inputs:
            require_below("acc index", acc, min(config.inp_depth, config.acc_depth))
        for name, port in ports.indexed:
            require_below(f"{name} index", indices[name], len(self.buffers.port(port)))
        for held in plug_in.states if plug_in is not None else ():
            if held.index is not None:
                require_below(f"{held.index} index of {held.state.label}", indices[held.index], held.state.rows)
        if row[COL["emit"]]:
            slots = config.out_slots if row[COL["emit"]] == Emit.RAW else config.out_depth
            require_below("out index", acc - row[COL["acc"]] + row[COL["out"]], slots)
        return uops

    def _gemm(self, row: Ints, uops: Ints) -> None:
        m = self.buffers
        if m.tiled:
            kernels_tiled.gemm(row, uops, *m.flat, self._sizes, m.scl, m.out, m.raw)
        else:
            kernels.gemm(row, uops, m.inp, m.wgt, m.acc, m.scl, m.out, m.raw, self.config.out_bits)

    def _vector(self, row: Ints, uops: Ints) -> None:
        m = self.buffers
        kernels.vector(row, uops, m.inp_vectors, m.wgt_vectors, m.acc, m.scl, m.out, m.raw, self.config.out_bits)

    def _extension(self, plug_in: PlugIn, row: Ints, uops: Ints) -> None:
        m = self.buffers
        src, wgt = (m.port(port) for port in (plug_in.src, plug_in.wgt))
        columns = [isa_of(self.config).col[f"{plug_in.name}.{field.name}"] for field in plug_in.fields]
        states = [m.state(port) for port in plug_in.states]
        results = m.inp_entries if plug_in.writes_inputs else m.acc
        extension_kernel(plug_in)(
            row, uops, src, wgt, row[columns], results, m.scl, m.out, m.raw, self.config.out_bits, *states
        )
        if plug_in.writes_inputs:
            m.inputs_changed(int(row[COL["acc"]]), kernels.extents(row, uops)[0])

    def _stage(self, stage: PlugInStage, row: Ints, uops: Ints) -> None:
        m = self.buffers
        states = [m.state(port).reshape(-1) for port in stage.states]
        stage_kernel(stage)(emitted_entries(row, uops), m.out, self.config.out_bits, *states)


def _is_fast_on(config: Config) -> bool:
    """Whether kernels on lanes are wanted, and compute what a machine does."""
    return dot_unit.available() and kernels_tiled.supports(config.block_in, config.block_out)


def _tile_sizes(config: Config) -> Ints:
    """The sizes that `kernels_tiled.gemm` needs."""
    shape = (config.batch, config.block_out // LANES, config.block_in // dot_unit.GROUP, config.inp_bits)
    return np.array(shape, np.int64)


def execute(config: Config, columns: Ints, dram: Bytes, portable: bool = False) -> None:
    """Run linked instructions on a DRAM image, in place.

    `portable` avoids instructions that only some processors have.
    """
    engine = Engine(config, columns, dram, portable)
    engine.run(token_order(columns))


# --- order ----------------------------------------------------------------------------------------


def token_order(columns: Ints) -> Ints:
    """An order of the instructions in which each token is pushed before it is popped.

    SimulationError where no such order exists.
    """
    pushes = [_selected(columns, queue.producer, queue.push) for queue in QUEUES]
    pops = [_selected(columns, queue.consumer, queue.pop) for queue in QUEUES]
    if all((np.cumsum(pop) <= np.cumsum(push)).all() for push, pop in zip(pushes, pops, strict=True)):
        return np.arange(len(columns))
    return np.array(_untimed_run(columns, np.stack(pushes, axis=1), np.stack(pops, axis=1)), np.int64)


def _selected(columns: Ints, unit: Unit, token: str) -> _Bools:
    """The instructions of a unit that have a token bit set."""
    return np.asarray((columns[:, COL["unit"]] == unit) & (columns[:, COL[token]] > 0))


def _untimed_run(columns: Ints, pushes: _Bools, pops: _Bools) -> list[int]:
    """The order of a run with unbounded queues.

    `pushes` and `pops` are indexed by instruction and queue.
    """
    pushed, popped = pushes.tolist(), pops.tolist()
    waiting = [np.flatnonzero(columns[:, COL["unit"]] == unit).tolist()[::-1] for unit in Unit]
    tokens = [0] * len(QUEUES)
    order: list[int] = []
    while any(waiting):
        before = len(order)
        for unit in waiting:
            while unit and all(tokens[queue] > 0 for queue, pop in enumerate(popped[unit[-1]]) if pop):
                k = unit.pop()
                tokens = [n - pop + push for n, pop, push in zip(tokens, popped[k], pushed[k], strict=True)]
                order.append(k)
        if len(order) == before:
            stuck = ", ".join(name_of(columns, unit[-1]) for unit in waiting if unit)
            raise SimulationError(f"function: every popped token must be pushed, got a deadlock at {stuck}")
    return order
