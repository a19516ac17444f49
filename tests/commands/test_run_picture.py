# SPDX-License-Identifier: Apache-2.0
"""The picture of a run over its schedule: its rows, the cycles of its blocks, README's picture."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from helpers.documents import plain_commands
from helpers.drawn_charts import axis, check_texts, drawn_marks

from vdla.cli import main
from vdla.commands import OK
from vdla.commands.run_picture import run_picture, schedule_lines
from vdla.compiler.operators.workloads import workload
from vdla.hardware.config import Config
from vdla.hardware.program import Program
from vdla.runtime.diagnosis.layers import layer_operator
from vdla.simulator.timing import time_program

ROOT = Path(__file__).resolve().parents[2]
PICTURE = ROOT / "docs" / "run.svg"


@pytest.fixture(scope="module")
def program() -> Program:
    return layer_operator(workload("C11"), Config.preset("pynq_z1"), 2).program


def test_the_lines_are_the_intrinsics_and_the_loops_around_them(program: Program) -> None:
    lines = schedule_lines(program)
    intrinsics = [line for line in lines if line.source is not None]
    assert {line.source for line in intrinsics} == set(program.source_of.tolist())
    assert not any("range(1)" in line.text for line in lines)
    for before, line in pairwise(lines):
        assert line.depth <= before.depth + 1


def slices(svg: str) -> Iterator[tuple[str, int, int]]:
    """Row, first and last cycle as the tooltips say."""
    for mark in drawn_marks(ElementTree.fromstring(svg), "rect"):
        first, last = mark.title.rpartition("cycles ")[2].replace(",", "").split(" to ")
        yield mark.row, int(first), int(last)


def test_every_block_is_drawn_at_its_cycles(program: Program) -> None:
    stats = time_program(program)
    svg = run_picture(program, stats)
    tree = ElementTree.fromstring(svg)
    scale = axis(tree, "x")
    marks = drawn_marks(tree, "rect")
    for mark, (_, first, last) in zip(marks, slices(svg), strict=True):
        scale.check(mark.at["x"], first, 2, mark.title)
        if mark.at["width"] > 0.5:
            scale.check(mark.at["x"] + mark.at["width"], last + 1, 2, mark.title)
    check_texts(svg)


def test_the_rows_of_the_schedule_hold_all_instructions(program: Program) -> None:
    stats = time_program(program)
    rows: dict[str, list[tuple[int, int]]] = {}
    for row, first, last in slices(run_picture(program, stats)):
        rows.setdefault(row, []).append((first, last))
    for number, line in enumerate(schedule_lines(program)):
        if line.source is not None:
            mine = program.source_of == line.source
            assert min(first for first, _ in rows[str(number)]) == stats.starts[mine].min()
            assert max(last for _, last in rows[str(number)]) == stats.ends[mine].max()


def test_the_readmes_commands_draw_its_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """The commands as README has them, up to the one that draws."""
    monkeypatch.chdir(tmp_path)
    drawn = next(words for words in plain_commands() if "--picture" in words)
    compiled = next(words for words in plain_commands() if words[0] == "compile" and drawn[1] in words)
    assert main(compiled) == OK
    assert main(drawn) == OK
    now = Path(drawn[drawn.index("--picture") + 1]).read_text(encoding="utf-8")
    if request.config.getoption("--update-golden"):
        PICTURE.write_text(now, encoding="utf-8")
    assert now == PICTURE.read_text(encoding="utf-8")
