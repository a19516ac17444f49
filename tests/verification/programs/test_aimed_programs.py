# SPDX-License-Identifier: Apache-2.0
"""Programs aimed at a field: valid, with the field at its extremes; a difference that they find."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from helpers.extensions import lut

import vdla
from vdla.cli import main
from vdla.commands import BAD_INPUT, FINDING, OK
from vdla.hardware.asm import assemble
from vdla.hardware.config import Config
from vdla.hardware.isa import COL, Opcode, isa_of
from vdla.hardware.program import Program
from vdla.runtime.devices import registry
from vdla.runtime.devices.sim import SimDevice
from vdla.simulator.stats import RunStats
from vdla.simulator.verify import verify
from vdla.verification.programs.aimed_programs import AimError, aim_of, aimed_program

TINY = Config.preset("tiny")
EXTENDED = vdla.extend(TINY, lut)
FIXED = {"store.pop_next", "store.push_next", "lut.init", "lut.src", "lut.src0", "lut.src1"}
"""Fields with one valid value."""


def every_field(config: Config) -> list[str]:
    formats = isa_of(config).formats.values()
    return [f"{encoding.name.lower()}.{slot.field.name}" for encoding in formats for slot in encoding.values]


@pytest.mark.sampled
@pytest.mark.parametrize("form", [encoding.name.lower() for encoding in isa_of(EXTENDED).formats.values()])
def test_every_field_of_every_form_can_be_aimed_at(form: str) -> None:
    for name in (name for name in every_field(EXTENDED) if name.startswith(f"{form}.")):
        aim, values = aim_of(EXTENDED, name), set[int]()
        assert str(aim) == name
        for seed in range(8):
            program = aimed_program(EXTENDED, aim, seed, 30)
            assert verify(program).ok and len(program) >= 30
            values |= set(aim.values(program))
            if len(values) > 1:
                break
        assert name in FIXED if len(values) < 2 else name not in FIXED, name


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("preset", "name", "low", "high"),
    [
        ("pynq_z1", "load.y_after", 0, 255),
        ("tiny", "load.pad_value", -(1 << 31), (1 << 31) - 1),
        ("tiny", "load.y_stride", 0, (1 << 24) - 1),
        ("tiny", "store.x_size", 1, TINY.out_depth),
        ("tiny", "vector.imm", -(1 << 15), (1 << 15) - 1),
        ("int4", "gemm.clip_lo", -8, 7),
        ("tiny", "gemm.loop1", 1, 511),
        ("batch4", "vector.acc", 0, Config.preset("batch4").acc_depth - 1),
    ],
)
def test_the_extremes_that_a_machine_allows_are_reached(preset: str, name: str, low: int, high: int) -> None:
    config = Config.preset(preset)
    aim = aim_of(config, name)
    values = {value for seed in range(4) for value in aim.values(aimed_program(config, aim, seed))}
    assert (min(values), max(values)) == (low, high)


def test_a_program_depends_on_its_arguments_alone() -> None:
    aim = aim_of(TINY, "gemm.scl0")
    assert aimed_program(TINY, aim, 5).hash == aimed_program(TINY, aim, 5).hash
    assert aimed_program(TINY, aim, 5).hash != aimed_program(TINY, aim, 6).hash


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "lod.y_after",
            "form of --random must be one of load, store, gemm, vector, sync, got lod (did you mean load?)",
        ),
        ("", "form of --random must be one of load, store, gemm, vector, sync, got nothing"),
        ("sync", "field of sync must be one of pop_prev, pop_next, push_prev, push_next, unit, got nothing"),
        (
            "sync.unot",
            "field of sync must be one of pop_prev, pop_next, push_prev, push_next, unit, got unot "
            "(did you mean unit?)",
        ),
        ("sync.opcode", "field of sync must be one of pop_prev, pop_next, push_prev, push_next, unit, got opcode"),
    ],
)
def test_a_wrong_name_lists_the_names(text: str, message: str) -> None:
    with pytest.raises(AimError) as error:
        aim_of(TINY, text)
    assert str(error.value) == f"compare: {message}"


# --- the command ----------------------------------------------------------------------------------


class Wrong(SimDevice):
    """A simulator that corrupts what it stores if any LOAD has much padding below its rows."""

    name = "rtl"
    limit = 200

    def __init__(self, config: Config, memory_bytes: int, assertions: bool = False) -> None:
        super().__init__(config, memory_bytes)

    def _run(self, program: Program, addresses: Mapping[str, int]) -> RunStats:
        stats = super()._run(program, addresses)
        table = program.columns
        wrong = (table[:, COL["opcode"]] == Opcode.LOAD) & (table[:, COL["y_after"]] >= self.limit)
        if wrong.any():
            self.memory[addresses["out"]] ^= 0x55
        return stats


@pytest.fixture
def wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "DEVICES", {"sim": SimDevice, "rtl": Wrong})


def test_a_difference_is_shrunk_to_the_instruction_that_makes_it(
    wrong: None, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["compare", "sim", "rtl", "--random", "load.y_after", "--preset", "tiny", "--seed", "3"]
    assert main(words) == FINDING
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("different: load.y_after: ") and lines[0].endswith(" differs")
    assert lines[1].startswith("memory: byte 0 of out: sim ")
    smallest = assemble(Path("load.y_after.s").read_text(encoding="utf-8"))
    assert len(smallest) == 1
    row = smallest.columns[0]
    assert row[COL["opcode"]] == Opcode.LOAD and row[COL["y_after"]] >= Wrong.limit
    assert row[[COL["y_before"], COL["x_before"], COL["x_after"], COL["sram"]]].tolist() == [0, 0, 0, 0]
    assert lines[-3].endswith("instructions to 1:") and lines[-2].startswith("  load ")
    assert lines[-1] == "wrote load.y_after.s; vdla compare sim rtl load.y_after.s runs it again"
    assert verify(smallest).ok


def test_another_field_does_not_find_it_and_says_what_was_compared(
    wrong: None, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["compare", "sim", "rtl", "--random", "sync.unit", "--preset", "tiny", "--programs", "2", "-o", "x.s"]
    Wrong.limit, before = 1 << 20, Wrong.limit
    try:
        assert main(words) == OK
    finally:
        Wrong.limit = before
    said = capsys.readouterr().out
    assert said.startswith("equal: sync.unit: 2 programs, ") and said.endswith(" 3 values from 0 to 2\n")
    assert not Path("x.s").exists()


@pytest.mark.rtl
@pytest.mark.parametrize("name", ["load.y_after", "store.z_stride", "vector.imm"])
def test_the_simulator_equals_the_rtl(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["compare", "sim", "rtl", "--random", name, "--preset", "tiny", "--programs", "2"]) == OK
    assert capsys.readouterr().out.startswith(f"equal: {name}: 2 programs, ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sim", "sim"], "PROGRAM must be given, or --random FORM.FIELD, got neither"),
        (["sim", "sim", "p.vdla", "--random", "sync.unit"], "PROGRAM must be left out with --random, got p.vdla"),
        (["sim", "sim", "p.vdla", "--preset", "tiny"], "--preset must be left out without --random, got tiny"),
        (["sim", "sim", "p.vdla", "--programs", "3"], "--programs must be left out without --random, got 3"),
        (["sim", "sim", "--random", "sync.unit", "--timeout", "9"], "--timeout must be left out with --random, got 9"),
        (["sim", "pynq", "--random", "sync.unit"], "devices must be of sim, rtl with --random, got pynq"),
        (["sim", "sim", "--random", "sync.unit", "-o", "no/x.s"], "folder of --output must exist, got no"),
        (
            ["sim", "sim", "--random", "store.push_next", "--preset", "tiny"],
            "store.push_next must have more than one valid value to be driven, got 0 alone",
        ),
    ],
)
def test_wrong_arguments(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["compare", *words]) == BAD_INPUT
    assert capsys.readouterr().err.splitlines()[-1] == f"vdla: compare: {message}"
