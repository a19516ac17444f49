# SPDX-License-Identifier: Apache-2.0
"""Hand-written programs on `tiny`: a pipeline of one tile, and broken variants of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import Emit, Gemm, Load, MicroOp, Store, encode, encode_uops
from vdla.hardware.program import Program, ProgramTensor

TINY = Config.preset("tiny")
ONE = (MicroOp(first=1, last=1),)

ROLES = {
    "data": "input",
    "weight": "weight",
    "scale": "weight",
    "uops": "constant",
    "bias": "weight",
    "out": "output",
    "tmp": "scratch",
}
SOURCES = {Buffer.INP: "data", Buffer.WGT: "weight", Buffer.SCL: "scale", Buffer.UOP: "uops", Buffer.ACC: "bias"}
BEATS = {"data": 64, "weight": 64, "scale": 64, "bias": 64, "out": 16, "tmp": 16}

UOPS = Load(Buffer.UOP)
WEIGHT = Load(Buffer.WGT)
SCALE = Load(Buffer.SCL)
DATA = Load(Buffer.INP, x_size=16, push_next=1)
PRODUCT = Gemm(loop0=16, acc0=1, src0=1, init=1, emit=Emit.REQUANT, pop_prev=1, push_next=1)
RESULT = Store(x_size=16, pop_prev=1)
PIPELINE = (UOPS, WEIGHT, SCALE, DATA, PRODUCT, RESULT)


def program(*steps, uops=ONE, lines=(), config=TINY, beats=BEATS):
    """A program of instructions; a pair (instruction, tensor) names its tensor explicitly.

    `lines[k]` is the source line of instruction k.
    """
    instructions = [step[0] if isinstance(step, tuple) else step for step in steps]
    names = [step[1] if isinstance(step, tuple) else _tensor(step) for step in steps]
    table = encode_uops(config, uops)
    data = {"uops": table.tobytes()}
    sizes = {name: count * config.axi_bytes for name, count in beats.items()} | {"uops": table.nbytes}
    tensors = tuple(
        ProgramTensor(
            name=name, role=role, shape=(sizes[name],), dtype="int8", layout="", nbytes=sizes[name], data=data.get(name)
        )
        for name, role in ROLES.items()
    )
    index_of = {name: index for index, name in enumerate(ROLES)} | {None: -1}
    return Program(
        config=config,
        name="hand",
        words=encode(config, instructions),
        tensors=tensors,
        tensor_of=np.array([index_of[name] for name in names], np.int32),
        source_lines=tuple(lines),
        source_of=np.array([k if k < len(lines) else -1 for k in range(len(steps))], np.int32),
    )


def _tensor(instruction):
    match instruction:
        case Load(buffer=buffer):
            return SOURCES[buffer] if instruction.x_size and instruction.y_size else None
        case Store():
            return "out"
    return None


def changed(at, **fields):
    """The pipeline with fields of one instruction changed."""
    steps = list(PIPELINE)
    steps[at] = replace(steps[at], **fields)
    return program(*steps)


def messages(verdict):
    """The findings of a verdict as "kind: message"."""
    return [f"{finding.kind.value}: {finding.message}" for finding in verdict.findings]
