"""The sequencer against nested loops over micro-ops: the fields and the cycle of every slot."""

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

FIRST_SLOT = 3  # cycles from the start to the first slot
EXECUTE, HOLD = 2, 1  # bits of valid_o
PICKS = ("sum", "shift", "operand", "min", "max", "clip")


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
    multiplies = op in (VectorOp.MUL, VectorOp.MAC)
    picks = {
        VectorOp.SHL: "shift", VectorOp.SHR: "shift", VectorOp.MIN: "min", VectorOp.MAX: "max",
        VectorOp.CLIP: "clip", VectorOp.MOV: "operand",
    }  # fmt: skip
    pick = "operand" if starts and op != VectorOp.MAC else picks.get(op, "sum")
    return {
        "pick": PICKS.index(pick),
        "keep": int(op != VectorOp.MUL and not (op == VectorOp.MAC and starts)),
        "subtract": int(op in (VectorOp.SUB, VectorOp.MIN, VectorOp.MAX)),
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
    half = 1 << (machine.acc_depth - 1).bit_length() - 1
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
                if conflict:
                    yield HOLD, fields
                yield EXECUTE, {**fields, "second": int(conflict)}


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


def random_instruction(machine, rng):
    """A random GEMM or VECTOR; indices use all bits, since adders wrap at the field's width."""
    any_of = {
        name: int(rng.integers(1 << field_bits(machine, Opcode.VECTOR, name)))
        for base in ("acc", "src", "wgt", "scl")
        for name in (base, f"{base}0", f"{base}1")
    }
    begin = int(rng.integers(11))
    half = 1 << machine.out_bits - 1
    low, zero, high = (int(v) for v in np.sort(rng.integers(-half, half, 3)))
    form = {
        **any_of, "out": int(rng.integers(1 << field_bits(machine, Opcode.VECTOR, "out"))),
        "uop_begin": begin, "uop_end": begin + int(rng.integers(1, 12 - begin)), "loop0": int(rng.choice([1, 2, 3])),
        "loop1": int(rng.choice([1, 1, 2, 5])), "init": int(rng.integers(2)), "emit": Emit(int(rng.integers(3))),
        "zero_point": zero, "clip_lo": low, "clip_hi": high,
    }  # fmt: skip
    if rng.random() < 0.4:
        return Gemm(**form)
    op, operand = VectorOp(int(rng.integers(len(VectorOp)))), Operand(int(rng.integers(len(Operand))))
    imm = int(rng.integers(-(1 << 15), 1 << 15))
    return Vector(op, operand, Source(int(rng.integers(2))), imm=imm, **form)


def word(machine, instruction):
    """The bits of a command; the rules of the instruction set are not applied."""
    return int.from_bytes(pack(machine, instruction_columns(machine, [instruction]))[0].tobytes(), "little")


# --- the bench ------------------------------------------------------------------------------------


class UopBuffer:
    """A synchronous RAM of micro-ops that holds its output."""

    def __init__(self, bench, machine, uops):
        widths = [(slot.field.name, slot.width) for slot in uop_layout(machine)]
        self.bench, self.words = bench, [join(uop, widths) for uop in uops]
        self.answer = 0

    def drive(self):
        self.bench["uop_i"] = self.answer

    def sample(self):
        if self.bench["uop_re_o"]:
            self.answer = self.words[self.bench["uop_index_o"]]


@cocotb.test()
async def slots_follow_the_loops_in_order(dut):
    machine = config()
    widths = slot_widths(machine)
    bench = Bench(dut)
    await bench.start()
    holds = 0
    for rng in seeds(30, dut):
        uops = random_uops(machine, rng)
        bench.models = [UopBuffer(bench, machine, uops)]
        for _ in range(8):
            instruction = random_instruction(machine, rng)
            expected = list(slots(machine, instruction, uops))
            holds += sum(valid == HOLD for valid, _ in expected)
            seen = await issue(bench, word(machine, instruction), len(expected))
            for number, (valid, fields) in enumerate(expected):
                assert seen[number][0] == valid, (instruction, number)
                assert split(seen[number][1], widths) == fields, (instruction, number)
    assert holds > 100


async def issue(bench, command, count):
    """valid_o and slot_o from the first slot on; also checks the cycles of busy_o and done_o."""
    seen = []
    bench["start_i"], bench["command_i"] = 1, command
    await bench.cycle()
    bench["start_i"], bench["command_i"] = 0, 0
    free_at = count + FIRST_SLOT - 1  # F - S
    for cycle in range(1, count + FIRST_SLOT):
        await bench.cycle()
        assert bench["busy_o"] == (cycle < free_at), (cycle, count)
        assert bench["done_o"] == (cycle == free_at - 1), (cycle, count)
        if cycle < FIRST_SLOT:
            assert bench["valid_o"] == 0
        else:
            seen.append((bench["valid_o"], bench["slot_o"]))
    await bench.cycle()
    assert bench["valid_o"] == 0
    return seen
