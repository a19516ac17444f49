# SPDX-License-Identifier: Apache-2.0
"""Lifting: a finished program becomes macro-ops again, as those that `lower` makes of a function.

A program that an author wrote has addresses, tokens and loads of micro-ops. As macro-ops it has
tiles, so that a chain places them anew, orders them among those of its neighbours and gives the
tokens: loads run under the steps of the part before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.codegen.vdla.macro_op import Base, BufferTile, MacroOp
from vdla.compiler.codegen.vdla.macro_ops import MacroOps, TiledOps
from vdla.compiler.codegen.vdla.state_loads import is_state_load, written_states
from vdla.compiler.codegen.vdla.tiles import LoweringError
from vdla.compiler.codegen.vdla.uops import KernelOffsets, UopKernel
from vdla.compiler.codegen.vdla.webs import split_tiles
from vdla.hardware import isa
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import (
    COL,
    QUEUES,
    Extended,
    Footprints,
    Gemm,
    Load,
    MicroOp,
    StagedEmit,
    Store,
    Sync,
    Unit,
    Vector,
)
from vdla.hardware.program import Program

Ints = NDArray[np.int64]
_INDICES = ("acc", "src", "wgt", "out", "scl")
_CLEARED: dict[str, Any] = dict.fromkeys(("pop_prev", "pop_next", "push_prev", "push_next"), 0)


def lift(program: Program) -> MacroOps:
    """The macro-ops of a verified program in an order that the tokens allow, on one tile for each
    buffer.

    Raises:
        LoweringError: an instruction cannot move, since the index of a buffer is that of a private
            state as well; or micro-ops do not come from a constant.
    """
    lifting = _Lifting(program)
    ops = MacroOps.of([op for index in _order(program) for op in lifting.run(index)])
    return ops.take(np.arange(len(ops)))


def lift_tiles(program: Program) -> TiledOps:
    """`lift` with a tile for each value; what loads the state of a stage stands before each
    operation whose results go through the stage, in one group with it.
    """
    return _with_stage_loads(program.config, split_tiles(program.config, lift(program)))


def _order(program: Program) -> Iterator[int]:
    """The instructions, each after those whose tokens it pops."""
    columns = program.columns
    unit = columns[:, COL["unit"]].tolist()
    waiting = {owner: deque(index for index, of in enumerate(unit) if of == owner) for owner in map(int, Unit)}
    tokens = dict.fromkeys(QUEUES, 0)
    pops = {queue: columns[:, COL[queue.pop]].tolist() for queue in QUEUES}
    pushes = {queue: columns[:, COL[queue.push]].tolist() for queue in QUEUES}

    def ready(index: int) -> bool:
        return all(tokens[queue] for queue in QUEUES if queue.consumer == unit[index] and pops[queue][index])

    for _ in unit:
        index = min(queue[0] for queue in waiting.values() if queue and ready(queue[0]))
        waiting[unit[index]].popleft()
        for queue in QUEUES:
            tokens[queue] -= int(queue.consumer == unit[index] and pops[queue][index])
            tokens[queue] += int(queue.producer == unit[index] and pushes[queue][index])
        yield index


class _Lifting:
    """The instructions of a program, one by one; the contents of the micro-op buffer change."""

    def __init__(self, program: Program) -> None:
        self.program, self.config = program, program.config
        self.instructions = isa.decode(program.config, program.words)
        self.rows = program.columns.tolist()
        self.tiles = {buffer: BufferTile(buffer.name.lower(), buffer, self.config.depths[buffer]) for buffer in Buffer}
        self.micro_ops = [MicroOp()] * self.config.uop_depth
        self.kernels: dict[UopKernel, UopKernel] = {}  # equal kernels are one object
        self.offsets = KernelOffsets(self.config)
        self.footprints = Footprints(self.config)

    def run(self, index: int) -> Iterator[MacroOp]:
        """The operation of an instruction, if it is more than order."""
        instruction, source = self.instructions[index], int(self.program.source_of[index])
        if isinstance(instruction, Sync):
            return
        if isinstance(instruction, Load) and instruction.buffer == Buffer.UOP:
            self._load_micro_ops(index, instruction)
        elif isinstance(instruction, Load | Store):
            tile = self.tiles[instruction.buffer if isinstance(instruction, Load) else Buffer.OUT]
            moved = replace(instruction, sram=0, **_CLEARED)
            yield MacroOp(moved, {"sram": (tile, instruction.sram)}, (), self._tensor(index), source)
        else:
            yield self._computed(index, instruction, source)

    def _tensor(self, index: int) -> str | None:
        number = int(self.program.tensor_of[index])
        return self.program.tensors[number].name if number >= 0 else None

    def _load_micro_ops(self, index: int, load: Load) -> None:
        number = int(self.program.tensor_of[index])
        data = self.program.tensors[number].data if number >= 0 else None
        padded = load.y_before or load.y_after or load.x_before or load.x_after
        if data is None or padded:
            got = "padding" if padded else self._tensor(index)
            raise LoweringError(f"{self._where(index)}: micro-ops must come from a constant of the program, got {got}")
        size = self.config.uop_entry_bytes
        entries = np.frombuffer(data[: len(data) // size * size], np.uint8).reshape(-1, size)
        beats = load.dram + _steps(load.z_size, load.z_stride, load.y_size, load.y_stride, load.x_size, self.config)
        wanted = beats * self.config.axi_bytes // size
        self.micro_ops[load.sram : load.sram + len(wanted)] = isa.decode_uops(self.config, entries[wanted])

    def _computed(self, index: int, instruction: Gemm | Vector | Extended, source: int) -> MacroOp:
        row = self.rows[index]
        uops = self._kernel(tuple(self.micro_ops[row[COL["uop_begin"]] : row[COL["uop_end"]]]))
        accesses = self.footprints.accesses(row, self.offsets.of(uops))
        buffers = {access.field: access.buffer for access in accesses if access.buffer != Buffer.UOP}
        bases: Mapping[str, Base] = {
            name: (self.tiles[Buffer(buffers[name] or 0)], row[COL[name]]) for name in _INDICES if name in buffers
        }
        for name in _state_indices(instruction):
            if name in bases:
                rule = f"{name} must index either a buffer or rows of a state"
                raise LoweringError(f"{self._where(index)}: {rule}, got both")
            uops = self._kernel(tuple(replace(uop, **{name: getattr(uop, name) + row[COL[name]]}) for uop in uops))
        zero: dict[str, Any] = dict.fromkeys((*_INDICES, "uop_begin", "uop_end"), 0)
        return MacroOp(replace(instruction, **zero, **_CLEARED), bases, uops, None, source)

    def _kernel(self, uops: UopKernel) -> UopKernel:
        return self.kernels.setdefault(uops, uops)

    def _where(self, index: int) -> str:
        name = isa.mnemonic_of(type(self.instructions[index])).upper()
        return f"{self.program.name}: instruction {index} ({name})"


def _steps(z_size: int, z_stride: int, y_size: int, y_stride: int, x_size: int, config: Config) -> Ints:
    """The first beat of each micro-op that a LOAD brings, in order, relative to its first one."""
    z, y = np.arange(z_size)[:, None, None] * z_stride, np.arange(y_size)[:, None] * y_stride
    return np.asarray(z + y + np.arange(x_size) * (config.uop_entry_bytes // config.axi_bytes), np.int64).ravel()


def _state_indices(instruction: Gemm | Vector | Extended) -> Sequence[str]:
    """The fields that index rows of private states."""
    match instruction:
        case Extended(plug_in=plug_in):
            return sorted({port.index for port in plug_in.states if port.index is not None})
    return ()


# --- the state of a stage -------------------------------------------------------------------------


def _with_stage_loads(config: Config, ops: TiledOps) -> TiledOps:
    """The operations, where each that emits through the stage follows loads of all states of it."""
    stage = set() if config.stage is None else {port.state for port in config.stage.states}
    writes = [stage & set(written_states(form)) for form in ops.ops.forms]
    through = [getattr(form.instruction, "emit", None) == StagedEmit.STAGE for form in ops.ops.forms]
    loads = is_state_load(ops.ops).tolist()
    held: dict[object, int] = {}
    rows, group = list[int](), list[int]()
    for row, form in enumerate(ops.ops.form.tolist()):
        if loads[row] and writes[form]:
            held |= dict.fromkeys(writes[form], row)
            continue
        before = sorted(set(held.values())) if through[form] else []
        group += [group[-1] + 1 if group else 0] * (len(before) + 1)
        rows += [*before, row]
    chosen = np.array(rows, np.int64)
    return replace(ops, ops=ops.ops.take(chosen), tile=ops.tile[chosen], group=np.array(group, np.int64))
