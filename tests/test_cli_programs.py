"""Program files on the command line: assemble, disassemble, verify, run."""

from __future__ import annotations

from pathlib import Path

import pytest

from vdla.cli import main
from vdla.commands import BAD_INPUT, OK
from vdla.hardware.asm import disassemble
from vdla.hardware.program import Program

Capture = pytest.CaptureFixture[str]

TEXT = """\
.config name=tiny block_in=4 block_out=4 axi_bits=32
.config inp_kib=1 wgt_kib=1 scl_kib=1 uop_kib=1 acc_kib=1 out_kib=1
.tensor x role=input dtype=int8 shape=4x4 nbytes=16
load inp dram=x+0x1 x_size=2 signal=compute
sync compute wait=load
"""


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "kernel.s"
    path.write_text(TEXT)
    return path


def complaint(capsys: Capture, *arguments: object) -> str:
    """The one line that the command line says about bad input."""
    assert main([str(argument) for argument in arguments]) == BAD_INPUT
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err.removeprefix("vdla: ").removesuffix("\n")


# --- asm and disasm --------------------------------------------------------------------------------------------------


def test_asm_writes_beside_the_text_and_disasm_gives_it_back(text: Path, capsys: Capture) -> None:
    assert main(["asm", str(text)]) == OK
    program = Program.load(text.with_suffix(".vdla"))
    assert capsys.readouterr().out == f"{text.with_suffix('.vdla')}: 2 instructions, hash {program.hash}\n"
    assert main(["disasm", str(text.with_suffix(".vdla"))]) == OK
    assert capsys.readouterr().out == disassemble(program)


def test_disasm_writes_a_file_that_assembles_to_the_same_bytes(text: Path, tmp_path: Path) -> None:
    first, again, second = tmp_path / "first.vdla", tmp_path / "again.s", tmp_path / "second.vdla"
    assert main(["asm", str(text), "-o", str(first)]) == OK
    assert main(["disasm", str(first), "-o", str(again)]) == OK
    assert main(["asm", str(again), "-o", str(second)]) == OK
    assert first.read_bytes() == second.read_bytes()


def test_asm_names_file_and_line_and_writes_nothing(text: Path, capsys: Capture) -> None:
    text.write_text(TEXT.replace("sync compute", "sink compute"))
    message = complaint(capsys, "asm", text)
    assert message.startswith(f"{text}: line 5, column 1: ")
    assert list(text.parent.iterdir()) == [text]


def test_asm_wants_a_text(capsys: Capture) -> None:
    assert complaint(capsys, "asm", "c2.vdla") == "asm: name of the text must end in .s, got c2.vdla"


def test_a_text_must_be_utf8(text: Path, capsys: Capture) -> None:
    text.write_bytes(b"\xff\xfe")
    assert complaint(capsys, "asm", text) == f"{text}: content must be UTF-8 text, got byte 0xff"


@pytest.mark.parametrize("command", ["disasm"])
def test_a_missing_file_is_named(command: str, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "absent.vdla"
    assert complaint(capsys, command, path) .startswith(f"{path}: path must be a ")


@pytest.mark.parametrize("command", ["disasm"])
def test_a_damaged_file_is_refused(command: str, text: Path, capsys: Capture) -> None:
    main(["asm", str(text)])
    path = text.with_suffix(".vdla")
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    capsys.readouterr()
    assert complaint(capsys, command, path).startswith(f"{path}: checksum must be ")
