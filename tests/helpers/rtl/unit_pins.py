# SPDX-License-Identifier: Apache-2.0
"""The surroundings of a unit: command queue, token queues; packing and unpacking of structs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence

from helpers.rtl.rtl_bench import Bench
from vdla.hardware.config import Config
from vdla.hardware.isa import COL, Buffer, Opcode, Words, columns, instruction_bytes, layout


def field_bits(config: Config, opcode: Opcode, name: str) -> int:
    """The width of a field."""
    return next(slot.width for slot in layout(config)[opcode] if slot.field.name == name)


def split(value: int, widths: Sequence[tuple[str, int]]) -> dict[str, int]:
    """The fields of a packed struct; `widths` lists them from the lowest bit up."""
    result = {}
    for name, width in widths:
        result[name] = value & (1 << width) - 1
        value >>= width
    return result


def join(values: Mapping[str, int], widths: Sequence[tuple[str, int]]) -> int:
    """The packed struct of these fields, missing ones 0; the inverse of `split`."""
    result = shift = 0
    for name, width in widths:
        result |= (values.get(name, 0) & (1 << width) - 1) << shift
        shift += width
    return result


def write_widths(config: Config) -> list[tuple[str, int]]:
    """The fields of a buffer write, from the lowest bit up."""
    beats = max(config.entry_bytes[b] for b in (Buffer.INP, Buffer.WGT, Buffer.SCL, Buffer.ACC)) // config.axi_bytes
    return [
        ("pad_value", 32),
        ("data", config.axi_bits),
        ("beat", max(1, (beats - 1).bit_length())),
        ("index", field_bits(config, Opcode.LOAD, "sram")),
        ("widen", 1),
        ("fill", 1),
        ("buffer", 3),
    ]


def command_widths(config: Config) -> list[tuple[str, int]]:
    """The fields of an entry of a command queue, from the lowest bit up."""
    flags = ("one_plane", "one_row", "has_data", "has_padding", "one_outer", "one_inner", "one_uop")
    plane = 2 * field_bits(config, Opcode.LOAD, "x_size")
    return [("word", 8 * instruction_bytes(config)), ("plane", plane), *((flag, 1) for flag in flags)]


def derived_fields(row: Mapping[str, int]) -> dict[str, int]:
    """What fetch derives from an instruction for its unit; `row` has its columns."""
    if row["opcode"] in (Opcode.GEMM, Opcode.VECTOR):
        uops = row["uop_end"] - row["uop_begin"]
        return {"one_uop": uops == 1, "one_inner": row["loop1"] == 1, "one_outer": row["loop0"] == 1}
    if row["opcode"] not in (Opcode.LOAD, Opcode.STORE):
        return {}
    plane = row["y_size"] * row["x_size"]
    fields = {"plane": plane, "one_row": row["y_size"] == 1, "one_plane": row["z_size"] == 1}
    if row["opcode"] == Opcode.STORE:
        return fields
    pads = any(row[name] for name in ("y_before", "y_after", "x_before", "x_after"))
    return {**fields, "has_data": plane > 0, "has_padding": pads or not plane}


def commands(config: Config, words: Words) -> list[int]:
    """The command queue entry of each word; fields that its format lacks are 0."""
    widths = command_widths(config)
    entries = []
    for values, word in zip(columns(config, words).tolist(), words, strict=True):
        row = {name: values[index] for name, index in COL.items()}
        entries.append(join({"word": int.from_bytes(word.tobytes(), "little"), **derived_fields(row)}, widths))
    return entries


class Commands:
    """The head of the command queue: commands arrive by the pattern and stay until taken."""

    def __init__(self, bench: Bench, queue: Sequence[int], arrives: Iterator[bool]) -> None:
        self.bench, self.queue, self.arrives = bench, deque(queue), arrives
        self.valid = False

    def drive(self) -> None:
        """Offers the next command."""
        self.valid = bool(self.queue) and (self.valid or next(self.arrives))
        self.bench["cmd_valid_i"] = self.valid
        self.bench["cmd_i"] = self.queue[0] if self.valid else 0

    def sample(self) -> None:
        """Drops the command when it is taken."""
        if self.bench["cmd_take_o"]:
            self.queue.popleft()
            self.valid = False


class Tokens:
    """The token queues from and to a neighbour, which pushes and pops by the patterns."""

    def __init__(self, bench: Bench, side: str, available: Iterator[bool], room: Iterator[bool]) -> None:
        self.bench, self.side, self.available, self.room = bench, side, available, room
        self.popped = self.pushed = 0
        self.there = self.free = False

    def drive(self) -> None:
        """Offers a token and space for one; both stay until the unit uses them."""
        self.there = self.there or next(self.available)
        self.free = self.free or next(self.room)
        self.bench[f"{self.side}_available_i"] = self.there
        self.bench[f"{self.side}_room_i"] = self.free

    def sample(self) -> None:
        """Counts pops and pushes of the unit."""
        if self.bench[f"{self.side}_pop_o"]:
            assert self.there, "a token must be there to be popped"
            self.popped, self.there = self.popped + 1, False
        if self.bench[f"{self.side}_push_o"]:
            assert self.free, "a token must find room"
            self.pushed, self.free = self.pushed + 1, False


class Ends:
    """Counts completed instructions."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.count = bench, 0

    def drive(self) -> None:
        """Drives nothing."""

    def sample(self) -> None:
        """Counts an end."""
        self.count += self.bench["ended_o"]


async def run_to_the_end(bench: Bench, ends: Ends, count: int, timeout_cycles: int) -> None:
    """Runs until all instructions have ended, then a few cycles that must be idle."""
    for _ in range(timeout_cycles):
        await bench.cycle()
        if ends.count == count:
            break
    await bench.cycle(20)
    assert ends.count == count, f"{count} instructions must end within {timeout_cycles} cycles, got {ends.count}"
    assert bench["busy_o"] == 0
