# SPDX-License-Identifier: Apache-2.0
"""The sequencer against nested loops over micro-ops: the fields and the cycle of every slot, of
instructions alone and without a cycle between them.
"""

import cocotb
import numpy as np
import pytest
from helpers.rtl.odd_config import ODD
from helpers.rtl.rtl_bench import Bench, config, seeds
from helpers.rtl.rtl_runner import simulate
from helpers.rtl.unit_pins import field_bits, join, split

from vdla.hardware.isa import (
    Emit,
    Gemm,
    Opcode,
    Operand,
    Source,
    Vector,
    VectorOp,
    instruction_columns,
    pack,
    uop_layout,
)
from vdla.hardware.timing import ISSUE_DELAY

EXECUTE, HOLD = 2, 1  # bits of valid_o
PICKS = ("sum", "shift", "operand", "min", "max", "clip")


@pytest.mark.sampled
@pytest.mark.rtl
@pytest.mark.parametrize("machine", ["tiny", ODD], ids=["tiny", "odd"])
def test_the_sequencer_passes_its_bench(machine):
    simulate("vdla_sequencer", __file__, machine)


# --- slots ----------------------------------------------------------------------------------------


def slot_widths(machine):
    """The fields of slot_t and of its ALU controls, from the lowest bit up."""
    bits = {name: field_bits(machine, Opcode.VECTOR, name) for name in ("acc", "src", "wgt", "scl", "out", "emit")}
    out = machine.out_bits
    return [
        ("clip_hi", out), ("clip_lo", out), ("zero_point", out), ("emit", bits["emit"]), ("imm", 16),
        ("operand", field_bits(machine, Opcode.VECTOR, "operand")), ("source", 1),
        ("left", 1), ("factor_x", 1), ("multiply", 1), ("subtract", 1), ("keep", 1), ("pick", 3),
        ("out_shift", bits["out"]), ("scl", bits["scl"]), ("wgt", bits["wgt"]), ("src", bits["src"]),
        ("acc", bits["acc"]), ("reads_src", 1), ("reads_acc", 1), ("second", 1), ("vector", 1),
    ]  # fmt: skip


def alu_control(op, starts):
    """The controls of an operation in docs/microarchitecture.md; `starts` ignores the old entry."""
    multiplies = op == VectorOp.MAC or (op == VectorOp.MUL and not starts)
    picks = {
        VectorOp.SHL: "shift", VectorOp.SHR: "shift", VectorOp.MIN: "min", VectorOp.MAX: "max",
        VectorOp.CLIP: "clip", VectorOp.MOV: "operand",
    }  # fmt: skip
    pick = "operand" if starts and op != VectorOp.MAC else picks.get(op, "sum")
    return {
        "pick": PICKS.index(pick),
        "keep": int(op != VectorOp.MUL and not (op == VectorOp.MAC and starts)),
        "subtract": int(op in (VectorOp.SUB, VectorOp.MIN, VectorOp.MAX, VectorOp.CLIP)),
        "multiply": int(multiplies),
        "factor_x": int(op == VectorOp.MAC),
        "left": int(op == VectorOp.SHL),
    }


def slots(machine, instruction, uops):
    """Valid bits and fields of every slot of an instruction, in order."""
    widths = dict(slot_widths(machine))
    vector = isinstance(instruction, Vector)
    op = instruction.op if vector else VectorOp.ADD
    source = instruction.source if vector else 0
    operand = instruction.operand if vector else 0
    index_bits = (machine.acc_depth - 1).bit_length()
    half, entries = 1 << index_bits - 1, 1 << index_bits
    written = None
    for i in range(instruction.loop0):
        for j in range(instruction.loop1):
            for uop in uops[instruction.uop_begin : instruction.uop_end]:
                starts = bool(instruction.init and uop["first"])
                index = {
                    name: getattr(instruction, name)
                    + i * getattr(instruction, f"{name}0")
                    + j * getattr(instruction, f"{name}1")
                    + uop.get(name, 0)
                    for name in ("acc", "src", "wgt", "scl")
                }
                reads_src = vector and source == Source.ACC and (operand == Operand.SRC or op == VectorOp.MAC)
                fields = {
                    **index,
                    **alu_control(op, starts),
                    "vector": vector, "second": 0, "operand": operand, "source": source,
                    "reads_acc": not starts and not (vector and op == VectorOp.MOV), "reads_src": reads_src,
                    "out_shift": instruction.out - instruction.acc, "imm": instruction.imm if vector else 0,
                    "emit": instruction.emit if uop["last"] else Emit.NONE, "zero_point": instruction.zero_point,
                    "clip_lo": instruction.clip_lo, "clip_hi": instruction.clip_hi,
                }  # fmt: skip
                fields = {name: int(value) & (1 << widths[name]) - 1 for name, value in fields.items()}
                conflict = fields["reads_acc"] and reads_src and (fields["acc"] ^ fields["src"]) & half == 0
                factors = {fields["src"] % entries} if fields["multiply"] and reads_src else set()
                if fields["multiply"] and op == VectorOp.MUL:
                    factors.add(fields["acc"] % entries)
                stalls = conflict or written in factors
                if stalls:
                    yield HOLD, fields
                yield EXECUTE, {**fields, "second": int(stalls)}
                written = fields["acc"] % entries


# --- random instructions --------------------------------------------------------------------------


def random_uops(machine, rng):
    widths = {slot.field.name: slot.width for slot in uop_layout(machine)}
    small = rng.random() < 0.5
    return [
        {
            name: int(rng.integers(4 if small and width > 2 else 1 << width))
            for name, width in widths.items()
            if name in ("acc", "src", "wgt", "first", "last")
        }
        for _ in range(12)
    ]


def random_instruction(machine, rng, gemm, most=12):
    """A random GEMM or VECTOR of loops and micro-ops of at most `most`.

    Indices use all bits, since adders wrap at the field's width.
    """
    any_of = {
        name: int(rng.integers(1 << field_bits(machine, Opcode.VECTOR, name)))
        for base in ("acc", "src", "wgt", "scl")
        for name in (base, f"{base}0", f"{base}1")
    }
    begin = int(rng.integers(11))
    end = begin + int(rng.integers(1, min(11 - begin, most) + 1))
    loop0, loop1 = (min(int(rng.choice(counts)), most) for counts in ((1, 2, 3), (1, 1, 2, 5)))
    half = 1 << machine.out_bits - 1
    low, zero, high = (int(v) for v in np.sort(rng.integers(-half, half, 3)))
    form = {
        **any_of, "out": int(rng.integers(1 << field_bits(machine, Opcode.VECTOR, "out"))),
        "uop_begin": begin, "uop_end": end, "loop0": loop0, "loop1": loop1,
        "init": int(rng.integers(2)), "emit": Emit(int(rng.integers(3))),
        "zero_point": zero, "clip_lo": low, "clip_hi": high,
    }  # fmt: skip
    if gemm:
        return Gemm(**form)
    op, operand = VectorOp(int(rng.integers(len(VectorOp)))), Operand(int(rng.integers(len(Operand))))
    imm = int(rng.integers(-(1 << 15), 1 << 15))
    return Vector(op, operand, Source(int(rng.integers(2))), imm=imm, **form)


def word(machine, instruction):
    """The bits of a command; the rules of the instruction set are not applied."""
    return int.from_bytes(pack(machine, instruction_columns(machine, [instruction]))[0].tobytes(), "little")


# --- the bench ------------------------------------------------------------------------------------


class UopBuffer:
    """A synchronous RAM of micro-ops that holds its output, and a register behind it."""

    def __init__(self, bench, machine, uops):
        widths = [(slot.field.name, slot.width) for slot in uop_layout(machine)]
        self.bench, self.words = bench, [join(uop, widths) for uop in uops]
        self.read = self.answer = 0

    def drive(self):
        self.bench["uop_i"] = self.answer

    def sample(self):
        if self.bench["advance_o"]:
            self.answer = self.read
        if self.bench["uop_re_o"]:
            self.read = self.words[self.bench["uop_index_o"]]


class Schedule:
    """The cycles of instructions of which each starts `gaps` cycles after it may."""

    def __init__(self, machine, instructions, uops, gaps):
        self.starts, self.slots, self.last, self.busy = {}, {}, set(), set()
        self.touching = 0  # GEMMs that start in the cycle of the last read of a GEMM
        self.touching_ones = 0  # GEMMs of one iteration directly after one such
        free = drained = 0
        before = None
        for instruction, gap in zip(instructions, gaps, strict=True):
            follows = type(instruction) is type(before)
            start = gap + (free if follows else max(free, drained))
            issued = list(slots(machine, instruction, uops))
            if follows and isinstance(instruction, Gemm) and gap == 0:
                self.touching += 1
                self.touching_ones += len(issued) == 1 == self.count
            self.count = len(issued)
            end = start + self.count + ISSUE_DELAY
            self.starts[start] = word(machine, instruction)
            self.slots |= {end + 1 - self.count + number: slot for number, slot in enumerate(issued)}
            self.last.add(end)
            free = start + self.count if isinstance(instruction, Gemm) else end
            self.busy |= set(range(start + 1, free))
            drained, before = end + 1, instruction
        self.end = drained

    async def check(self, bench, widths):
        """Starts the instructions and compares every cycle."""
        for cycle in range(self.end + 1):
            bench["start_i"], bench["command_i"] = int(cycle in self.starts), self.starts.get(cycle, 0)
            await bench.cycle()
            valid, fields = self.slots.get(cycle, (0, None))
            assert bench["valid_o"] == valid, cycle
            if valid:
                assert split(bench["slot_o"], widths) == fields, cycle
            assert bench["last_o"] == (cycle in self.last), cycle
            assert bench["busy_o"] == (cycle in self.busy), cycle


@cocotb.test()
async def slots_follow_the_loops_in_order(dut):
    machine = config()
    bench = Bench(dut)
    await bench.start()
    holds = 0
    for rng in seeds(30, dut):
        uops = random_uops(machine, rng)
        bench.models = [UopBuffer(bench, machine, uops)]
        for _ in range(10):
            schedule = Schedule(machine, [random_instruction(machine, rng, rng.random() < 0.4)], uops, [0])
            holds += sum(valid == HOLD for valid, _ in schedule.slots.values())
            await schedule.check(bench, slot_widths(machine))
    assert holds > 35


@cocotb.test()
async def instructions_follow_one_another_without_a_cycle_between(dut):
    machine = config()
    bench = Bench(dut)
    await bench.start()
    touching = ones = 0
    for rng in seeds(40, dut, first=100):
        uops = random_uops(machine, rng)
        bench.models = [UopBuffer(bench, machine, uops)]
        instructions = random_stream(machine, rng)
        gaps = [0 if rng.random() < 0.8 else int(rng.integers(1, 6)) for _ in instructions]
        schedule = Schedule(machine, instructions, uops, gaps)
        touching, ones = touching + schedule.touching, ones + schedule.touching_ones
        await schedule.check(bench, slot_widths(machine))
    assert touching > 100 and ones > 17, (touching, ones)


def random_stream(machine, rng):
    """Instructions in runs of one kind, many of them of one, two or three iterations."""
    gemm = False
    instructions = []
    for _ in range(4):
        gemm = not gemm
        most = int(rng.choice([1, 1, 2, 3, 12]))
        instructions += [random_instruction(machine, rng, gemm, most) for _ in range(int(rng.integers(1, 12)))]
    return instructions
