# SPDX-License-Identifier: Apache-2.0
"""`vdla view`: what it takes, what it writes, its errors."""

from __future__ import annotations

import base64
import json
import re
import zlib
from pathlib import Path

import numpy as np
import pytest
from helpers.small_programs import small_gemm

from vdla.cli import main
from vdla.commands import BAD_INPUT, OK
from vdla.hardware.asm import disassemble
from vdla.hardware.config import Config
from vdla.runtime.executor.artifact import Artifact
from vdla.simulator.timing import time_program

TINY = Config.preset("tiny")
CONV = ["conv2d", "--shape", "height=8", "width=8", "in_channels=8", "out_channels=8", "kernel=3", "--preset", "tiny"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a program as file and as text."""
    program, _, _ = small_gemm(TINY)
    program.save(tmp_path / "gemm.vdla")
    (tmp_path / "gemm.s").write_text(disassemble(program), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def heads(path: Path) -> list[dict]:
    """What the page says of each run."""
    found = re.findall(r'id="head\d">(.*?)</script>', path.read_text(encoding="utf-8"))
    return [json.loads(text) for text in found]


def starts(path: Path, number: int = 0) -> list[int]:
    text = path.read_text(encoding="utf-8")
    one = next(column for column in heads(path)[number]["times"] if column["name"] == "start")
    data = re.search(rf'id="times{number}">(.*?)</script>', text)
    assert data is not None
    content = zlib.decompress(base64.b64decode(data[1]))
    values = np.frombuffer(content, one["stored"], one["count"], one["place"]).astype(np.int64)
    return (values if one["stored"] == one["type"] else np.cumsum(values)).tolist()


@pytest.mark.parametrize("name", ["gemm.vdla", "gemm.s"])
def test_a_program_and_its_text(folder: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    program = small_gemm(TINY)[0]
    stats = time_program(program)
    assert main(["view", name]) == OK
    said = f"{program.name}: {stats.total_cycles:,} cycles, {len(program)} instructions\nwrote view.html\n"
    assert capsys.readouterr().out == said
    assert starts(folder / "view.html") == stats.starts.tolist()


def test_a_template_beside_a_program_with_another_memory(folder: Path) -> None:
    assert main(["view", "gemm.vdla", "--with", "gemm.s", "-o", "two.html", "--dram", "read_latency=90"]) == OK
    one, other = heads(folder / "two.html")
    assert [one["title"], other["title"]] == ["gemm.vdla", "gemm.s"]  # whose programs have one name
    assert one["cycles"] == other["cycles"] > time_program(small_gemm(TINY)[0]).total_cycles
    assert main(["view", *CONV, "-o", "conv.html"]) == OK
    assert heads(folder / "conv.html")[0]["title"] == "conv2d"
    assert main(["view", "c9", "-o", "c9.html"]) == OK
    assert heads(folder / "c9.html")[0]["title"] == "C9"


def test_all_programs_of_a_network(digits: Path, tmp_path: Path) -> None:
    assert main(["view", str(digits / "digits.vdla"), "-o", str(tmp_path / "net.html")]) == OK
    artifact, head = Artifact.load(digits / "digits.vdla"), heads(tmp_path / "net.html")[0]
    assert [part["name"] for part in head["parts"]] == [program.name for program in artifact.programs]
    assert head["cycles"] == sum(time_program(program).total_cycles for program in artifact.programs)
    assert len(head["operators"]) > 3


@pytest.mark.rtl
def test_the_run_of_the_rtl_is_that_of_the_simulator(folder: Path) -> None:
    assert main(["view", "gemm.vdla", "--device", "rtl"]) == OK
    assert starts(folder / "view.html") == time_program(small_gemm(TINY)[0]).starts.tolist()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["absent.vdla"], "absent.vdla: no such file (did you mean gemm.vdla?)"),
        (["c99"], "view: program must be a file, or one of ..., got c99 (did you mean C9?)"),
        (["gemm.vdla", "--with", "absent.s"], "absent.s: no such file"),
        (["gemm.vdla", "--preset", "tiny"], "view: --preset must be left out for a file, got tiny"),
        (["gemm.vdla", "-o", "no/view.html"], "view: folder of --output must exist, got no"),
        (["C9", "--shape", "kernel=1"], "view C9: --shape must be left out for a named layer, got kernel=1"),
        (["gemm.vdla", "--bitstream", "x.bit"], "view: --device must be pynq with --bitstream x.bit, got sim"),
    ],
)
def test_wrong_arguments(folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    assert main(["view", *words]) == BAD_INPUT
    before, _, after = f"vdla: {message}\n".partition("...")
    error = capsys.readouterr().err
    assert error.startswith(before) and error.endswith(after)
    assert not (folder / "view.html").exists()


def test_a_comparison_writes_the_runs_of_both_devices(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "sim", "sim", "gemm.vdla", "--view", "both.html"]) == OK
    assert capsys.readouterr().out.splitlines()[-1] == "wrote both.html"
    program = small_gemm(TINY)[0]
    assert [head["title"] for head in heads(folder / "both.html")] == [f"{program.name} on sim"] * 2
    assert starts(folder / "both.html", 1) == time_program(program).starts.tolist()


@pytest.mark.parametrize(
    ("line", "hint"),
    [("sync load wait=compute", True), ("load inp dram=x+99 x_size=4", False)],
    ids=["hangs", "bounds"],
)
def test_a_program_that_hangs_is_left_to_the_debugger(
    folder: Path, capsys: pytest.CaptureFixture[str], line: str, hint: bool
) -> None:
    head = '.program "p"\n.config preset=tiny\n.tensor x role=input dtype=int8 shape=8x4\n'
    (folder / "p.s").write_text(head + line + "\n", encoding="utf-8")
    assert main(["view", "p.s"]) == BAD_INPUT
    message = capsys.readouterr().err
    assert message.startswith("vdla: view: a program must pass vdla verify, got program p: refused, 1 finding")
    assert message.endswith("; vdla debug shows how far it runs\n") == hint
