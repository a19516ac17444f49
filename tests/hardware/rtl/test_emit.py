# SPDX-License-Identifier: Apache-2.0
"""The emit stage against `numerics`: requantised and raw sums, in the exact cycle."""

from collections import deque

import cocotb
import numpy as np
import pytest
from helpers.rtl.odd_config import ODD
from helpers.rtl.rtl_bench import Bench, any_pattern, config, seeds
from helpers.rtl.rtl_runner import simulate
from helpers.rtl.unit_pins import field_bits, join, write_widths

from vdla.hardware.isa import Buffer, Emit, Opcode
from vdla.hardware.numerics import pack_elements, pack_scale, requantise

SUMS_DELAY = 4  # from a slot to its sums
WRITE_DELAY = 12  # from a slot to the write of the output buffer
CYCLES = 1500


@pytest.mark.sampled
@pytest.mark.rtl
@pytest.mark.parametrize("machine", ["tiny", ODD], ids=["tiny", "odd"])
def test_the_emit_stage_passes_its_bench(machine):
    simulate("vdla_emit", __file__, machine)


class Emitted:
    """Drives slots and their sums; models the output buffer, None for unwritten entries."""

    def __init__(self, bench, machine, rng, offers, scales):
        self.bench, self.machine, self.rng, self.offers, self.scales = bench, machine, rng, offers, scales
        self.widths = self.slot_widths()
        self.sums, self.writes = deque([0] * SUMS_DELAY), deque([None] * WRITE_DELAY)
        self.entries = [None] * machine.out_depth
        self.write, self.due, self.stopped = None, None, False
        self.compared = 0

    def slot_widths(self):
        """The fields of slot_t up to the last that emit reads, from the lowest bit up."""
        machine = self.machine
        bits = {name: field_bits(machine, Opcode.VECTOR, name) for name in ("emit", "operand", "out", "scl")}
        between = 16 + bits["operand"] + 1 + 8  # imm, operand, source, ALU controls
        after = sum(field_bits(machine, Opcode.VECTOR, name) for name in ("wgt", "src"))
        out, acc = machine.out_bits, field_bits(machine, Opcode.VECTOR, "acc")
        return [
            ("clip_hi", out), ("clip_lo", out), ("zero_point", out), ("emit", bits["emit"]), ("between", between),
            ("out_shift", bits["out"]), ("scl", bits["scl"]), ("after", after), ("acc", acc),
        ]  # fmt: skip

    def drive(self):
        bench, valid = self.bench, not self.stopped and next(self.offers)
        slot, sums, write = self.draw()
        bench["valid_i"], bench["slot_i"] = valid, slot
        self.sums.append(sums)
        bench["sums_i"] = self.sums.popleft()
        self.writes.append(write if valid else None)
        self.write = self.writes.popleft()
        self.read = int(self.rng.integers(len(self.entries)))
        written = self.write[0] if self.write else range(0)
        bench["out_re_i"] = reads = self.read not in written and self.entries[self.read] is not None
        bench["out_index_i"] = self.read
        self.read = self.read if reads else None

    def draw(self):
        """A random slot, its sums, and the entries and contents that it writes."""
        machine, rng = self.machine, self.rng
        emit = Emit(int(rng.integers(3)))
        per_slot = machine.acc_bits // machine.out_bits
        place = int(rng.integers(machine.out_slots if emit == Emit.RAW else machine.out_depth))
        acc, scl = int(rng.integers(machine.acc_depth)), int(rng.integers(machine.scl_depth))
        half = 1 << machine.out_bits - 1
        low, zero, high = (int(v) for v in np.sort(rng.integers(-half, half, 3)))
        sums = rng.choice(np.array([0, -1, (1 << 31) - 1, -(1 << 31)]), (machine.batch, machine.block_out))
        if rng.random() < 0.8:
            sums = rng.integers(-(1 << 20), 1 << 20, sums.shape)
        fields = {
            "clip_hi": high, "clip_lo": low, "zero_point": zero, "emit": emit, "out_shift": place - acc, "scl": scl,
            "acc": acc, "between": int(rng.integers(1 << 16)), "after": int(rng.integers(1 << 8)),
        }  # fmt: skip
        packed_sums = int.from_bytes(sums.astype("<i4").tobytes(), "little")
        if emit == Emit.RAW:
            entries = range(place * per_slot, (place + 1) * per_slot)
            content = np.frombuffer(sums.astype("<i4").tobytes(), np.uint8).reshape(per_slot, -1)
        else:
            results = requantise(sums, self.scales[scl], zero, low, high, machine.out_bits)
            entries = range(place, place + 1)
            content = pack_elements(results.reshape(-1), machine.out_bits).reshape(1, -1)
        words = [int.from_bytes(row.tobytes(), "little") for row in content]
        return join(fields, self.widths), packed_sums, None if emit == Emit.NONE else (entries, words)

    def sample(self):
        if self.due is not None:
            assert self.bench["out_entry_o"] == self.due
            self.compared += 1
        self.due = self.due if self.read is None else self.entries[self.read]
        if self.write is not None:
            for entry, content in zip(*self.write, strict=True):
                self.entries[entry] = content


async def fill_scales(bench, machine, rng):
    """Writes random requantisation parameters beat by beat; returns them."""
    count = machine.scl_depth * machine.block_out
    shifts = rng.choice([0, 1, 8, 16, 24, 63], count)
    scales = pack_scale(rng.integers(-(1 << 31), 1 << 31, count), rng.integers(0, 1 << 24, count), shifts)
    scales = scales.reshape(machine.scl_depth, machine.block_out)
    beats = scales.astype("<u8").view(np.uint8).reshape(machine.scl_depth, -1, machine.axi_bytes)
    bench["load_write_valid_i"] = 1
    for index in range(machine.scl_depth):
        for beat, data in enumerate(beats[index]):
            fields = {"buffer": Buffer.SCL, "index": index, "beat": beat}
            fields["data"] = int.from_bytes(data.tobytes(), "little")
            bench["load_write_i"] = join(fields, write_widths(machine))
            await bench.cycle()
    bench["load_write_valid_i"] = 0
    return scales


@cocotb.test()
async def sums_are_written_requantised_or_raw(dut):
    machine = config()
    bench = Bench(dut)
    await bench.start()
    for rng in seeds(4, dut):
        bench.models = []
        scales = await fill_scales(bench, machine, rng)
        model = Emitted(bench, machine, rng, any_pattern(rng), scales)
        bench.models = [model]
        await bench.cycle(CYCLES)
        model.stopped = True
        await bench.cycle(WRITE_DELAY + 200)
        assert model.compared > 100
