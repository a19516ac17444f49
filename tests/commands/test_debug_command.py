# SPDX-License-Identifier: Apache-2.0
"""The commands of `vdla debug`: scripts, standard input, a terminal, exact messages."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import vdla
from vdla.cli import main
from vdla.commands import BAD_INPUT, OK
from vdla.debugger.shell import Shell, commands_of
from vdla.hardware.asm import assemble

TEXT = """\
.program "small"
.config preset=tiny
.tensor x role=input dtype=int8 shape=8x4
.tensor y role=output dtype=int32 shape=8x4
.uop first last

load uop dram=uops
load inp dram=x x_size=8 signal=compute
vector mov source=inp operand=src loop1=8 acc1=1 src1=1 wait=load emit=raw signal=store
store dram=y x_size=32 wait=compute
"""
SESSION = """\
breakpoint 1: vector (cycle 96)
breakpoint 1, cycle 96 of 176, instruction 2: vector mov emit=raw loop1=8 acc1=1 src1=1 source=inp wait=load signal=store @2
cycle 96 of 176, instruction 2: vector mov emit=raw loop1=8 acc1=1 src1=1 source=inp wait=load signal=store @2
from: line 2: small.s:9: vector mov source=inp operand=src loop1=8 acc1=1 src1=1 wait=load emit=raw signal=store
on the critical path
instruction 2 ended in cycle 123
cycle 124 of 176, instruction 3: store dram=y x_size=32 wait=compute @3
acc[0:2]: int32[2, 1, 4]
[[[-43  12 -94  20]]

 [[-43 -82 -54   2]]]
breakpoint 1, cycle 96 of 176, instruction 2: vector mov emit=raw loop1=8 acc1=1 src1=1 source=inp wait=load signal=store @2
cycle 0 of 176, the start
cycle 176 of 176, the end
       0  load uop dram=uops @0
       1  load inp dram=x x_size=8 signal=compute @1
*      2  vector mov emit=raw loop1=8 acc1=1 src1=1 source=inp wait=load signal=store @2
 >     3  store dram=y x_size=32 wait=compute @3
     0  small.s:7: load uop dram=uops
     1  small.s:8: load inp dram=x x_size=8 signal=compute
     2  small.s:9: vector mov source=inp operand=src loop1=8 acc1=1 src1=1 wait=load emit=raw signal=store
>    3  small.s:10: store dram=y x_size=32 wait=compute
"""  # noqa: E501
REST = """\
cycle 96 of 176, instruction 2: vector mov emit=raw loop1=8 acc1=1 src1=1 source=inp wait=load signal=store @2
fetch: 4 of 4 instructions dispatched
load: all instructions ended
compute: instruction 2 (VECTOR) runs until cycle 123
store: instruction 3 (STORE) waits for a token of compute_to_store from instruction 2 (VECTOR), there in cycle 124
queues: load_to_compute 0, compute_to_load 0, compute_to_store 0, store_to_compute 0
2: vector mov emit=raw loop1=8 acc1=1 src1=1 source=inp wait=load signal=store @2
starts in cycle 96, after
  a token of load_to_compute from instruction 1 (LOAD): cycle 96
  the command from fetch: cycle 56
  its turn behind instruction 0 (LOAD): cycle 25
cycles of its unit: busy 28, wait_load_to_compute 18
cycle 176 of 176, the end
cycle 0 of 176, the start
cycle 0 of 176, the start
no breakpoints
breakpoint 1: :8 (cycle 40)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "small.s").write_text(TEXT, encoding="utf-8")
    assemble(TEXT, "small.s").save(tmp_path / "small.vdla")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], commands: str, *words: str) -> str:
    assert main(["debug", "small.s", "--execute", commands, *words]) == OK
    return capsys.readouterr().out


def test_a_session(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        said(capsys, "break vector; run; where; finish; print acc[0:2]; back; reverse; go end; list 1; source")
        == SESSION
    )


def test_what_follows(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "go 2; status; why; step unit 2; go start; where; breakpoints; break :8; delete 1") == REST


def test_short_names_and_comments(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "# nothing;; b vector; r; s; rc; c; w; q; foo") != said(capsys, "q")
    assert said(capsys, "b vector; r; s cycle 2; rc; c") == said(
        capsys, "break vector; run; step cycle 2; reverse; continue"
    )


def test_inputs_are_random_from_a_seed_or_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save("x.npy", np.arange(32, dtype=np.int8).reshape(8, 4))
    assert said(capsys, "go end; print y[1]", "--input", "x=x.npy") == (
        "cycle 176 of 176, the end\ny[1]: int32[4]\n[4 5 6 7]\n"
    )
    assert said(capsys, "go end; print y") == said(capsys, "go end; print y", "--seed", "0")
    assert said(capsys, "go end; print y") != said(capsys, "go end; print y", "--seed", "1")


def test_commands_of_standard_input(folder: Path) -> None:
    words = [sys.executable, "-m", "vdla", "debug", "small.vdla", "--dram", "read_latency=90"]
    result = subprocess.run(words, input="go 1\n\nquit\ngo 2", capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (OK, "")
    assert "instruction 1: load inp dram=x x_size=8 signal=compute @1\n" in result.stdout
    assert result.stdout.count("\n") == 1


def test_a_terminal_goes_on_after_an_error(folder: Path) -> None:
    """Typed at a terminal of its own: errors are printed, an empty line repeats a step."""
    leader, follower = pty.openpty()
    process = subprocess.Popen([sys.executable, "-m", "vdla", "debug", "small.s"], stdin=follower, stdout=follower)
    os.close(follower)
    os.write(leader, b"brek 2\nstep 2\n\nquit\n")
    output = b""
    while True:
        try:
            part = os.read(leader, 1 << 16)
        except OSError:  # the other end is closed
            break
        output += part
    os.close(leader)
    assert process.wait() == OK
    text = output.decode().replace("\r", "")
    assert "small for tiny: 4 instructions, takes 176 cycles; help lists the commands" in text
    assert "got brek (did you mean break?)" in text
    assert "instruction 1: load inp" in text and "instruction 3: store" in text


def test_the_help_names_every_command() -> None:
    out = io.StringIO()
    shell = Shell(vdla.debug(assemble(TEXT), {"x": np.zeros((8, 4), np.int8)}), out)
    shell.script(["help"])
    first = {line.split()[0] for line in out.getvalue().splitlines() if line and line[0] != " "}
    assert set(shell.commands()) - first == {"delete", "layers"}  # which stand beside breakpoints and regions
    assert shell.completenames("rev") == ["reverse "]
    assert list(commands_of("a; b\nc")) == ["a", " b", "c"]


@pytest.mark.parametrize(
    ("commands", "message"),
    [
        ("foo", "a command must be one of back, break, breakpoints, delete, finish, go, help, layers, list, print, "
                "quit, regions, reverse, run, source, status, step, where, why, got foo"),
        ("stp", "a command must be one of back, break, breakpoints, delete, finish, go, help, layers, list, print, "
                "quit, regions, reverse, run, source, status, step, where, why, got stp (did you mean step?)"),
        ("run 3", "run must be written alone, got 3"),
        ("delete x", "delete must have a number, got x"),
        ("go", "an instruction must be a number from 0 to 3, got nothing"),
        ("go cycle x", "go cycle must have a number, got x"),
        ("step sideways", "a step must be to one of instruction, unit, line, token, cycle, got sideways"),
        ("why", "an instruction must have started, got none; write why N"),
        ("print z", "a place must be one of inp, wgt, scl, uop, acc, out, raw, x, y, uops, got z"),
        ("break :99", "a line must be from 1 to 10, that of the last instruction, got 99"),
    ],
)  # fmt: skip
def test_a_script_ends_at_a_wrong_command(
    folder: Path, capsys: pytest.CaptureFixture[str], commands: str, message: str
) -> None:
    assert main(["debug", "small.s", "--execute", f"{commands}; go end"]) == BAD_INPUT
    assert capsys.readouterr() == ("", f"vdla: debug: {message}\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["absent.vdla"], "absent.vdla: no such file"),
        (["C6"], "C6: no such file; compile C6 first: vdla compile C6 -o c6.vdla"),
        (["small.s", "--input", "z=absent.npy"], "absent.npy: no such file"),
    ],
)
def test_wrong_arguments(folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    assert main(["debug", *words]) == BAD_INPUT
    assert capsys.readouterr().err.startswith(f"vdla: {message}")


def test_a_program_out_of_bounds_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "beyond.s").write_text(TEXT.replace("dram=x x", "dram=x+90 x"), encoding="utf-8")
    assert main(["debug", "beyond.s", "--execute", "run"]) == BAD_INPUT
    error = capsys.readouterr().err
    assert error.startswith("vdla: debug: a program must access memory within its bounds, got program small: refused")


def test_a_network(digits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(digits / "one.npy", np.load(digits / "x.npy")[:1])
    words = [
        "debug",
        str(digits / "digits.vdla"),
        "--execute",
        "regions; layers; break layer conv2; run; where; go end",
    ]
    assert main([*words, "--input", str(digits / "one.npy")]) == OK
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(">    1  region 1, ")
    assert lines[0].endswith(" cycles: conv1, conv2, pool, conv3, conv4, add, average, logits")
    assert lines[1].startswith("  conv1: from instruction ")
    stop = next(number for number, line in enumerate(lines) if line.startswith("breakpoint 1: layer conv2 (cycle "))
    assert lines[stop + 1].startswith("breakpoint 1, region 1, cycle ")
    assert lines[stop + 3] == "layer: conv2"
    assert lines[-1].startswith("region 1, cycle ") and lines[-1].endswith(", the end")


def test_a_network_is_fed_the_arrays_of_a_seed(digits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def said_of(*words: str) -> str:
        assert main(["debug", str(digits / "digits.vdla"), "--execute", "go end; print out", *words]) == OK
        return capsys.readouterr().out

    assert said_of() == said_of("--seed", "0") != said_of("--seed", "1")


def test_a_network_on_another_memory_takes_longer(digits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["debug", str(digits / "digits.vdla"), "--execute", "where", "--dram", "read_latency=300"])
    slow = capsys.readouterr().out
    main(["debug", str(digits / "digits.vdla"), "--execute", "where"])
    assert int(slow.split()[5].strip(",")) > int(capsys.readouterr().out.split()[5].strip(","))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--input", "x.npy"], "inputs of a network must be for one run, got those for 3"),
        (["--execute", "go region 2"], "a region must be a number from 1 to 1, got 2"),
        (["--execute", "go region x"], "go region must have a number, got x"),
        (["--execute", "regions 1"], "regions must be written alone, got 1"),
        (["--execute", "layers 1"], "layers must be written alone, got 1"),
    ],
)
def test_wrong_words_of_a_network(
    digits: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    monkeypatch.chdir(digits)
    assert main(["debug", "digits.vdla", *words]) == BAD_INPUT
    assert capsys.readouterr().err == f"vdla: debug: {message}\n"


def test_a_program_is_a_region_without_layers(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "regions; layers") == (">    1  small, 4 instructions, 176 cycles\nno layers in this program\n")
