# SPDX-License-Identifier: Apache-2.0
"""The page of `vdla demo --html`: well-formed, self-contained, and its charts show the run."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from vdla.charts.elements import CHART_STYLE, LEFT, RIGHT
from vdla.cli import main
from vdla.commands import BAD_INPUT, OK
from vdla.commands.run_page import cycle_shares, run_page, runs_roofline, timeline
from vdla.compiler.operators.workloads import workload
from vdla.hardware.config import Config
from vdla.hardware.isa import COL, Unit
from vdla.hardware.program import Program
from vdla.runtime.diagnosis.layers import layer_operator
from vdla.simulator.stats import RunStats
from vdla.simulator.timing.timing import time_program

NAMESPACE = "{http://www.w3.org/2000/svg}"
Run = tuple[Program, RunStats]


@pytest.fixture(scope="module")
def runs() -> dict[str, Run]:
    programs = {n: layer_operator(workload("C11"), Config.preset("pynq_z1"), n).program for n in (2, 1)}
    return {f"{n} <threads>": (program, time_program(program)) for n, program in programs.items()}


def parsed(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


def test_the_page_is_one_well_formed_self_contained_file(runs: dict[str, Run]) -> None:
    page = run_page("a & b", ["a note"], [("equal", ["yes", "no"])], runs)
    body = page.split("</head>")[1].removesuffix("</html>\n")
    tree = ElementTree.fromstring(body)
    assert (
        len(list(tree.iter(f"{NAMESPACE}svg"))) == 1 + 2 + 2 + 2
    )  # a roofline; of each run, two timelines and the shares
    assert "<h1>a &amp; b</h1>" in page
    assert "2 &lt;threads&gt;" in page
    assert not re.search(r"<script|src=|href=|url\(|@import", page)
    assert "prefers-color-scheme: dark" in page


def test_every_class_of_a_chart_has_a_colour(runs: dict[str, Run]) -> None:
    page = run_page("page", [], [], runs)
    used = set(re.findall(r'<(?:rect|circle)[^>]* class="(\w+)"', page))
    assert {name for name in used if f".{name} " not in CHART_STYLE} == set()


def test_the_timeline_shows_every_instruction(runs: dict[str, Run]) -> None:
    program, stats = runs["1 <threads>"]
    svg = timeline(program, stats, 0, stats.total_cycles)
    bars = [bar for bar in parsed(svg).iter(f"{NAMESPACE}rect") if bar.get("class") != "track"]
    titles = [bar.findtext(f"{NAMESPACE}title") or "" for bar in bars]
    merged = [int(count) for title in titles for count in re.findall(r", (\d+) instructions", title)]
    assert len(program) == sum(merged) + sum("instruction " in title for title in titles)
    ends = [float(bar.get("x", "0")) + float(bar.get("width", "0")) for bar in bars]
    assert max(ends) == pytest.approx(RIGHT, abs=1)
    assert min(float(bar.get("x", "0")) for bar in bars) >= LEFT


def test_a_part_of_the_timeline_has_the_instructions_of_its_cycles(runs: dict[str, Run]) -> None:
    program, stats = runs["2 <threads>"]
    begin, end = 10_000, 12_000
    svg = timeline(program, stats, begin, end)
    inside = (stats.ends >= begin) & (stats.starts < end)
    compute = program.columns[:, COL["unit"]] == Unit.COMPUTE
    assert svg.count("GEMM, instruction") == (inside & compute).sum() > 0
    assert ">10,500<" in svg


def test_points_lie_below_the_roof(runs: dict[str, Run]) -> None:
    tree = parsed(runs_roofline({label: stats for label, (_, stats) in runs.items()}))
    roof = next(tree.iter(f"{NAMESPACE}polyline")).get("points", "")
    x, y = zip(*([*map(float, point.split(","))] for point in roof.split()), strict=True)
    for dot in tree.iter(f"{NAMESPACE}circle"):
        assert float(dot.get("cy", "0")) >= np.interp(float(dot.get("cx", "0")), x, y) - 0.1


def test_shares_fill_the_bar_of_each_unit(runs: dict[str, Run]) -> None:
    _, stats = runs["1 <threads>"]
    bars = parsed(cycle_shares(stats)).iter(f"{NAMESPACE}rect")
    widths: dict[str, float] = {}
    for bar in bars:
        widths[bar.get("y", "")] = widths.get(bar.get("y", ""), 0.0) + float(bar.get("width", "0"))
    assert list(widths.values()) == pytest.approx([RIGHT - LEFT] * 4, abs=2)


def test_the_demo_writes_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, trace = tmp_path / "demo.html", tmp_path / "trace.json"
    assert main(["demo", "--layer", "C11", "--html", str(page), "--trace", str(trace)]) == OK
    assert f"charts of both runs: {page}\n" in capsys.readouterr().out
    assert "C11 of ResNet-18" in page.read_text(encoding="utf-8")


def test_a_page_without_a_folder_is_refused_before_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--layer", "C6", "--html", str(tmp_path / "absent" / "demo.html")]) == BAD_INPUT
    assert capsys.readouterr().err == f"vdla: demo: folder of --html must exist, got {tmp_path}/absent\n"
