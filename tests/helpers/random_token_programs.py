"""Random programs with the fewest tokens that order them: every token is needed, and none is missing.

A first tile fills every buffer; then loads, products, vector operations and stores follow on random places. Tokens come
from the compiler's analysis, so that a verifier which finds too much or too little disagrees with it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from helpers.hand_programs import BEATS, TINY, program
from vdla.compiler.codegen.vdla.dependences import Step, Touch
from vdla.compiler.codegen.vdla.tokens import assign_tokens
from vdla.hardware.config import Buffer
from vdla.hardware.isa import (
    Emit,
    Gemm,
    Load,
    MicroOp,
    Operand,
    Source,
    Store,
    Sync,
    Unit,
    Vector,
    VectorOp,
    instruction_columns,
    unit_of,
)
from vdla.hardware.isa.footprint import Footprints, Kernel

UOPS = (MicroOp(first=1, last=0), MicroOp(acc=1, src=1, wgt=1, first=1, last=1), MicroOp(src=2, last=1), MicroOp(acc=2))

FILL = (
    Load(Buffer.UOP, x_size=4),
    Load(Buffer.WGT, x_size=16),
    Load(Buffer.SCL, x_size=8),
    Load(Buffer.INP, x_size=64),
    Load(Buffer.ACC, x_size=16),
    Vector(VectorOp.MOV, Operand.IMM, imm=3, uop_begin=1, uop_end=2, loop0=60, acc0=1, init=1, emit=Emit.REQUANT),
    Gemm(uop_end=1, emit=Emit.NONE),
    Vector(VectorOp.MOV, Operand.IMM, uop_begin=1, uop_end=2, out=0, emit=Emit.RAW),
    (Store(sram=4, x_size=16), "tmp"),
)


def random_step(rng):
    """(instruction, tensor or None), without tokens; everything it reads is written by FILL."""
    match rng.integers(8):
        case 0 | 1:
            size = int(rng.integers(1, 9))
            return Load(Buffer.INP, sram=int(rng.integers(64 - size)), dram=int(rng.integers(40)), x_size=size), "data"
        case 2:
            buffer, step = [(Buffer.WGT, 16), (Buffer.SCL, 8)][int(rng.integers(2))]
            return Load(buffer, sram=int(rng.integers(step - 2)), dram=int(rng.integers(8)), x_size=2), None
        case 3:
            first = int(rng.integers(10))
            return Load(Buffer.INP, sram=int(rng.integers(60)), dram=first, x_size=3), "tmp"
        case 4 | 5:
            return _looped(Gemm, rng), None
        case 6:
            return _vector(rng), None
    size = int(rng.integers(1, 9))
    tensor = ["out", "tmp"][int(rng.integers(2))]
    return Store(sram=int(rng.integers(4, 40)), dram=int(rng.integers(16 - size)), x_size=size), tensor


def _looped(cls, rng, **fields):
    begin = int(rng.integers(4))
    draw = {name: int(rng.integers(9)) for name in ("acc", "src", "wgt", "out")}
    loops = {"loop0": int(rng.integers(1, 5)), "loop1": int(rng.integers(1, 4))}
    steps = {name: int(rng.integers(3)) for name in ("acc0", "acc1", "src0", "src1", "wgt0")}
    emit = Emit(int(rng.integers(3)))
    drawn = {**draw, **steps, "out": draw["out"] if emit else 0, "init": int(rng.integers(2)), "emit": emit}
    return cls(uop_begin=begin, uop_end=int(rng.integers(begin + 1, 5)), **{**drawn, **loops, **fields})


def _vector(rng):
    operand, source = Operand(int(rng.integers(3))), Source(int(rng.integers(2)))
    op = VectorOp(int(rng.integers(10)))
    reads = operand == Operand.SRC or op == VectorOp.MAC
    unused = {} if reads else {"src": 0, "src0": 0, "src1": 0}
    unused |= {} if operand == Operand.WGT else {"wgt": 0, "wgt0": 0}
    return _looped(Vector, rng, op=op, operand=operand, source=source if reads else Source.ACC, **unused)


def random_steps(seed, count):
    """FILL and `count` random steps, as (instruction, tensor or None)."""
    rng = np.random.default_rng(seed)
    fill = [step if isinstance(step, tuple) else (step, None) for step in FILL]
    return fill + [random_step(rng) for _ in range(count)]


def places_of(steps):
    """The compiler's tokens for these steps."""
    footprints = Footprints(TINY)
    kernel_of = {}
    return assign_tokens([_step(footprints, kernel_of, *step) for step in steps])


def _step(footprints, kernel_of, instruction, tensor):
    row = instruction_columns(TINY, [instruction])[0].tolist()
    kernel = None
    if isinstance(instruction, Gemm | Vector):
        key = (instruction.uop_begin, instruction.uop_end)
        table = np.array([(u.acc, u.src, u.wgt, u.first, u.last) for u in UOPS], np.int64)
        kernel = kernel_of.setdefault(key, Kernel(table[key[0] : key[1]]))
    touches = [Touch(a.buffer, a.where, a.writes) for a in footprints.accesses(row, kernel)]
    if isinstance(instruction, Store) or tensor == "tmp":
        name = tensor or "out"
        touches.append(Touch(name, footprints.beats(row), isinstance(instruction, Store)))
    return Step(unit_of(instruction), tuple(touches))


def assembled(steps, places):
    """The program of these steps with the tokens of these places."""
    listed = []
    for place in places:
        instruction, tensor = (Sync(place.unit), None) if place.step is None else steps[place.step]
        bits = {
            f"{verb}_{side}": int(place.unit + distance in units)
            for verb, units in (("pop", place.pops), ("push", place.pushes))
            for side, distance in (("prev", -1), ("next", 1))
        }
        carrying = replace(instruction, **bits)
        listed.append(carrying if tensor is None else (carrying, tensor))
    return program(*listed, uops=UOPS, beats=BEATS)


def without_token(places, rng):
    """The places with one push and the pop that meets it removed; None where there are no tokens."""
    edges = [
        (push, pop)
        for source, target in ((0, 1), (1, 0), (1, 2), (2, 1))
        for push, pop in zip(
            _having(places, source, "pushes", target), _having(places, target, "pops", source), strict=True
        )
    ]
    if not edges:
        return None
    push, pop = edges[int(rng.integers(len(edges)))]
    changed = list(places)
    changed[push] = replace(places[push], pushes=places[push].pushes - {places[pop].unit})
    changed[pop] = replace(places[pop], pops=places[pop].pops - {places[push].unit})
    return changed


def _having(places, unit, what, other):
    return [k for k, place in enumerate(places) if place.unit == unit and Unit(other) in getattr(place, what)]
