# SPDX-License-Identifier: Apache-2.0
"""Which instructions of a program have results that a comparison sees.

At the end of a run all of memory and every entry of the buffers are compared; private state is not.
Backwards from there, an instruction is *compared* if an entry, beat or row that it writes is live:
compared at the end, or read by a compared instruction before it is written again. Stream order must
be an order in which the program can run, as it is for random programs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vdla.hardware.config import Buffer
from vdla.hardware.isa import COL, BufferAccess, Opcode, PlugInState, Row, StagedEmit, StateAccess
from vdla.hardware.program import Program
from vdla.simulator.verify.accesses import AccessWalk
from vdla.support.arrays import Bools, Ints

Space = tuple[int, Buffer | PlugInState | None]
"""The number of a tensor, or -1 and a buffer or private state."""
_ON_CHIP = -1


@dataclass(frozen=True, slots=True)
class ComparedData:
    """`instructions`: whether each is compared; `micro_ops` and `scales`: what those execute.

    `micro_ops` are rows of UOP_COLUMNS, `scales` the packed lanes with which a compared instruction
    requantises, as far as they were loaded from a constant.
    """

    instructions: Bools
    micro_ops: Ints
    scales: NDArray[np.uint64]


def compared_data(program: Program) -> ComparedData:
    """What of a verified program reaches a comparison."""
    walk = _Walk(program)
    compared = np.zeros(len(program), np.bool_)
    live = _everything(program)
    for number, accesses in reversed(list(enumerate(walk.accesses))):
        written = [(live[space], access.where) for space, access in accesses if access.writes]
        compared[number] = any(mask[where].any() for mask, where in written)
        if not compared[number]:
            continue
        for mask, where in written if not _is_part(program, number) else ():
            mask[where] = False
        for space, access in accesses:
            if not access.writes:
                live[space][access.where] = True
    chosen = np.flatnonzero(compared)
    return ComparedData(compared, walk.all_micro_ops(chosen), walk.all_scales(chosen))


def _is_part(program: Program, number: int) -> bool:
    """Whether an instruction accesses a part, so that it writes some of the beats that it may."""
    tensor = int(program.tensor_of[number])
    return tensor >= 0 and bool(program.tensors[tensor].whole)


def _everything(program: Program) -> dict[Space, Bools]:
    beat = program.config.axi_bytes
    sizes: dict[Space, int] = {(_ON_CHIP, buffer): program.config.depths[buffer] for buffer in Buffer}
    sizes |= {(number, None): tensor.nbytes // beat for number, tensor in enumerate(program.tensors)}
    everything = {space: np.ones(size, np.bool_) for space, size in sizes.items()}
    states = {port.state for plug_in in program.config.extensions for port in plug_in.states}
    return everything | {(_ON_CHIP, held): np.zeros(held.rows, np.bool_) for held in states}


class _Walk:
    """The accesses, micro-ops and scales of each instruction, in program order."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.accesses: list[list[tuple[Space, BufferAccess | StateAccess]]] = []
        self.micro_ops: dict[int, Ints] = {}
        self.scales: dict[int, NDArray[np.uint64]] = {}
        lanes = program.config.block_out
        self._scl = np.zeros((program.config.scl_depth, lanes), np.uint64)
        self._known = np.zeros(program.config.scl_depth, np.bool_)  # entries loaded from a constant
        walk = AccessWalk(program)
        for number, row in enumerate(program.columns.tolist()):
            accesses = walk.visit(number, row)
            kernel = walk.kernel(row)
            self.accesses.append([((tensor, access.buffer), access) for tensor, access in accesses])
            self.accesses[-1] += [
                ((_ON_CHIP, access.state), access) for access in walk.footprints.state_accesses(row, kernel)
            ]
            self._load_scales(number, row)
            if kernel is not None:
                self.micro_ops[number] = kernel.columns
                self._requantise(number, row, accesses)

    def all_micro_ops(self, instructions: Ints) -> Ints:
        """The micro-ops of these instructions, without repeats."""
        kernels = [self.micro_ops[k] for k in instructions.tolist() if k in self.micro_ops]
        return np.unique(np.concatenate(kernels), axis=0) if kernels else np.zeros((0, 5), np.int64)

    def all_scales(self, instructions: Ints) -> NDArray[np.uint64]:
        """The scales of these instructions, without repeats."""
        entries = [self.scales[k] for k in instructions.tolist() if k in self.scales]
        return np.unique(np.concatenate(entries)) if entries else np.zeros(0, np.uint64)

    def _load_scales(self, number: int, row: Row) -> None:
        if row[COL["opcode"]] != Opcode.LOAD or row[COL["buffer"]] != Buffer.SCL:
            return
        config, tensor = self.program.config, self.program.tensors[int(self.program.tensor_of[number])]
        z, y, x = (np.arange(row[COL[name]]) for name in ("z_size", "y_size", "x_size"))
        rows = row[COL["dram"]] + np.add.outer(z * row[COL["z_stride"]], y * row[COL["y_stride"]]).ravel()
        entries = slice(row[COL["sram"]], row[COL["sram"]] + len(rows) * len(x))
        self._known[entries] = tensor.data is not None
        if tensor.data is None:
            return
        beats = np.frombuffer(tensor.data, np.uint8)[: len(tensor.data) // config.axi_bytes * config.axi_bytes]
        run = np.arange(len(x) * (config.scl_entry_bytes // config.axi_bytes))
        chosen = beats.reshape(-1, config.axi_bytes)[np.add.outer(rows, run).ravel()]
        self._scl[entries] = chosen.reshape(-1).view("<u8").reshape(-1, config.block_out)

    def _requantise(self, number: int, row: Row, accesses: list[tuple[int, BufferAccess]]) -> None:
        if row[COL["emit"]] not in (StagedEmit.REQUANT, StagedEmit.STAGE):
            return
        for _, access in accesses:
            if access.buffer == Buffer.SCL:
                self.scales[number] = self._scl[access.where][self._known[access.where]].ravel()
