# SPDX-License-Identifier: Apache-2.0
"""Programs with a resident tensor: a row is stored in it, then all of it is read."""

from __future__ import annotations

import numpy as np

from vdla.hardware.asm import assemble
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import (
    Emit,
    Gemm,
    Load,
    MicroOp,
    Operand,
    Store,
    Sync,
    Unit,
    Vector,
    VectorOp,
    encode,
    encode_uops,
)
from vdla.hardware.numerics import pack_scale
from vdla.hardware.program import Program, ProgramTensor

APPEND = """\
.program "append"
.config preset=tiny
.tensor x role=input dtype=int8 shape=1x4
.tensor sums role=resident dtype=int32 shape=8x4
.tensor row role=part whole=sums dtype=int32 shape=1x4
.tensor total role=output dtype=int32 shape=8x4
.uop first last
load acc dram=x widen=1
load uop dram=uops
vector max operand=imm imm=-9 emit=raw signal=store
store dram=row x_size=4 wait=compute signal=compute
load acc dram=sums x_size=8 wait=store
vector max operand=imm imm=-9 loop1=8 acc1=1 emit=raw signal=store
store dram=total x_size=32 wait=compute
"""
"""Rows of 4 sums in a tensor of 8 of them."""


def append(text: str = APPEND, *changes: tuple[str, str]) -> Program:
    """The program of a text, with changes of it."""
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return assemble(text)


def keys_program(config: Config, groups: int, blocks: int) -> Program:
    """Append a key to a cache that lies as weights, then multiply all keys by a query.

    `groups` groups of `block_out` places, keys of `blocks` blocks of elements; a key is one row of
    the entries of its group, stored with a stride.
    """
    entry, beats = config.wgt_entry_bytes, config.wgt_entry_bytes // config.axi_bytes
    scale = np.broadcast_to(pack_scale(0, 1, 0), config.block_out)
    uops = [MicroOp(first=1, last=1)]
    uops += [MicroOp(src=k, wgt=k, first=k == 0, last=k == blocks - 1) for k in range(blocks)]
    tensors = (
        _tensor("key", "input", (blocks, config.block_in)),
        _tensor("query", "input", (blocks, config.block_in)),
        _tensor("keys", "resident", (groups, blocks, config.block_out, config.block_in)),
        _tensor("row", "part", ((blocks - 1) * entry + config.out_entry_bytes,), whole="keys"),
        _tensor("scores", "output", (groups, config.block_out), "int32"),
        _tensor("scale", "constant", (config.block_out,), "int64", scale.tobytes()),
        _tensor("uops", "constant", (len(uops), config.uop_entry_bytes), "uint8", encode_uops(config, uops).tobytes()),
    )
    raw = config.acc_bits // config.out_bits
    steps = (
        (Load(Buffer.SCL, push_next=1), "scale"),
        (Load(Buffer.UOP, x_size=len(uops)), "uops"),
        (Load(Buffer.ACC, x_size=blocks, widen=1), "key"),
        (_identity(blocks), None),
        (Store(y_size=blocks, y_stride=beats, pop_prev=1, push_prev=1), "row"),
        (Sync(Unit.COMPUTE, pop_next=1, push_prev=1), None),
        (Load(Buffer.WGT, x_size=groups * blocks, pop_next=1), "keys"),
        (Load(Buffer.INP, x_size=blocks, push_next=1), "query"),
        (_product(groups, blocks), None),
        (Store(x_size=groups * raw, pop_prev=1), "scores"),
    )
    names = [tensor.name for tensor in tensors]
    return Program(
        config=config,
        name="keys",
        words=encode(config, [step for step, _ in steps]),
        tensors=tensors,
        tensor_of=np.array([-1 if name is None else names.index(name) for _, name in steps], np.int32),
        source_lines=(),
        source_of=np.full(len(steps), -1, np.int32),
    )


def _identity(blocks: int) -> Vector:
    return Vector(
        VectorOp.MAX, operand=Operand.IMM, imm=-128, loop1=blocks, acc1=1, emit=Emit.REQUANT, pop_prev=1, push_next=1,
        clip_lo=-128, clip_hi=127,
    )  # fmt: skip


def _product(groups: int, blocks: int) -> Gemm:
    return Gemm(
        uop_begin=1, uop_end=1 + blocks, loop0=groups, acc0=1, wgt0=blocks, init=1, emit=Emit.RAW, pop_prev=1,
        push_next=1,
    )  # fmt: skip


def _tensor(
    name: str, role: str, shape: tuple[int, ...], dtype: str = "int8", data: bytes | None = None, whole: str = ""
) -> ProgramTensor:
    nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return ProgramTensor(
        name=name, role=role, shape=shape, dtype=dtype, layout="", nbytes=nbytes, data=data, whole=whole
    )


def row_offset(config: Config, place: int, blocks: int) -> int:
    """Where the row of a place lies in the keys of `keys_program`, in bytes."""
    group, row = divmod(place, config.block_out)
    return group * blocks * config.wgt_entry_bytes + row * config.out_entry_bytes
