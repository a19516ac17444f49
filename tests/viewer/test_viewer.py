# SPDX-License-Identifier: Apache-2.0
"""The page in a browser: instructions, keys, mouse, links, search, heat maps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.extensions import sad
from helpers.small_programs import small_gemm

import vdla
from vdla.benchmarks.chromium import BrowserError, Page, browser, open_page
from vdla.compiler.templates import conv2d
from vdla.hardware.asm.disassembler import row_text
from vdla.hardware.config import Config
from vdla.hardware.isa import COL, Unit
from vdla.hardware.program import Program
from vdla.simulator.stats.tokens import NONE, token_givers
from vdla.simulator.timing import time_program
from vdla.simulator.verify.accesses import program_accesses
from vdla.verification.programs.random_programs import random_verified_program

pytestmark = pytest.mark.skipif(browser() is None, reason="needs Chromium")
TINY = Config.preset("tiny")
READY = "window.viewer?.loaded"


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with open_page() as opened:
        yield opened


@pytest.fixture(scope="module")
def program() -> Program:
    """A convolution with tokens in all four queues."""
    return conv2d(TINY, height=8, width=8, in_channels=16, out_channels=16, kernel=3, batch=1).program


@pytest.fixture(scope="module")
def file(program: Program, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("view") / "view.html"
    vdla.view(program, small_gemm(TINY)[0]).save(path)
    return path


@pytest.fixture
def shown(page: Page, file: Path) -> Page:
    """The page of the convolution, and of a product beside it, as it opens."""
    page.open(file, 1200)
    page.until(READY)
    return page


def state(page: Page) -> dict[str, Any]:
    page.until("viewer.pending === undefined")
    value: dict[str, Any] = page.value("({...viewer.state})")
    return value


def where(page: Page) -> tuple[int, int]:
    now = state(page)
    return now["cycle"], now["instruction"]


# --- instructions ---------------------------------------------------------------------------------


def others() -> list[Program]:
    machines = [TINY, Config.preset("int4"), Config.preset("batch4"), vdla.extend(TINY, sad)]
    return [random_verified_program(config, 3, 50) for config in machines]


@pytest.mark.parametrize("number", range(4))
def test_assembly_and_accesses_are_those_of_the_program(page: Page, tmp_path: Path, number: int) -> None:
    program = others()[number]
    vdla.view(program).save(tmp_path / "view.html")
    page.open(tmp_path / "view.html", 1000)
    page.until(READY)
    assert page.value("viewer.recording.count") == len(program)
    texts = page.value("Array.from({length: viewer.recording.count}, (_, k) => viewer.recording.assembly(k))")
    assert texts == [row_text(program, k) for k in range(len(program))]
    said = page.value("Array.from({length: viewer.recording.count}, (_, k) => viewer.recording.accesses(k))")
    for accesses, wanted in zip(said, program_accesses(program).accesses, strict=True):
        sets = [(int(one.buffer), one.writes, members(one.where)) for _, one in wanted if one.buffer is not None]
        spans = [(one["buffer"], one["writes"], [range(*ends) for ends in one["ranges"]]) for one in accesses]
        assert [(buffer, writes, [e for span in entries for e in span]) for buffer, writes, entries in spans] == [
            one for one in sets if one[2]
        ]


def members(where: Any) -> list[int]:
    return list(range(where.start, where.stop)) if isinstance(where, slice) else [int(entry) for entry in where]


def test_reasons_name_the_last_event_first(shown: Page, program: Program) -> None:
    stats, givers = time_program(program), token_givers(program.columns)
    reasons = shown.value("Array.from({length: viewer.recording.count}, (_, k) => viewer.recording.reasons(k))")
    for k, found in enumerate(reasons):
        assert found[0]["ready"] == max(one["ready"] for one in found) <= stats.starts[k]
        named = {one["instruction"] for one in found if one["text"].startswith("a token")}
        assert named == {int(giver) for giver in givers[k] if giver != NONE}
        late = [giver for giver in named if stats.ends[giver] + 1 == stats.starts[k]]
        assert not late or found[0]["instruction"] in late


@pytest.mark.parametrize("unit", list(Unit))
def test_cycles_spent_before_a_cycle(shown: Page, program: Program, unit: Unit) -> None:
    stats = time_program(program)
    of_unit = program.columns[:, COL["unit"]] == unit
    starts, ends = stats.starts[of_unit], stats.ends[of_unit]
    for cycle in np.linspace(0, stats.total_cycles, 40).astype(int).tolist():
        wanted = int(np.maximum(0, np.minimum(ends + 1, cycle) - starts).sum())
        assert shown.value(f"[...viewer.recording.lanes[{int(unit)}].spent({cycle})].reduce((a, b) => a + b)") == wanted


# --- steps ----------------------------------------------------------------------------------------


def test_keys_step_by_cycle_and_back(shown: Page) -> None:
    shown.press("ArrowRight")
    shown.press("ArrowRight", shift=True)
    assert state(shown)["cycle"] == 11
    shown.press("ArrowLeft")
    shown.press("ArrowLeft", shift=True)
    shown.press("ArrowLeft")
    assert state(shown)["cycle"] == 0
    shown.press("End")
    assert state(shown)["cycle"] == shown.value("viewer.recording.head.cycles - 1")


def test_keys_step_by_instruction_and_by_unit(shown: Page, program: Program) -> None:
    stats = time_program(program)
    for k in range(1, 6):
        shown.press("n")
        assert where(shown) == (stats.starts[k], k)
    shown.press("p")
    assert where(shown) == (stats.starts[4], 4)
    units = program.columns[:, COL["unit"]]
    later = np.flatnonzero(units == units[4])
    later = later[later > 4]
    for k in later[:5]:
        shown.press("ArrowDown")
        assert where(shown) == (stats.starts[k], k)
    shown.press("ArrowUp")
    assert where(shown) == (stats.starts[later[3]], later[3])


def test_keys_step_by_token(shown: Page, program: Program) -> None:
    stats, givers = time_program(program), token_givers(program.columns)
    takers = sorted(
        np.flatnonzero((givers != NONE).any(axis=1)).tolist(),
        key=lambda k: (stats.starts[k], program.columns[k, COL["unit"]]),
    )
    visited = []
    for _ in takers:
        shown.press("t")
        visited.append(where(shown)[1])
    assert visited == takers
    shown.press("t")
    assert where(shown)[1] == takers[-1]
    for k in takers[-2:-6:-1]:
        shown.press("T", shift=True)
        assert where(shown)[1] == k


def test_a_key_goes_to_what_an_instruction_waited_for(shown: Page, program: Program) -> None:
    stats, givers = time_program(program), token_givers(program.columns)
    late = (stats.ends[givers] + 1 == stats.starts[:, None]) & (givers != NONE)
    k = int(np.flatnonzero(late.any(axis=1))[0])
    shown.value(f"viewer.choose({k})")
    shown.press("w")
    assert where(shown)[1] in givers[k][late[k]]


def test_keys_follow_the_critical_path(shown: Page) -> None:
    begins = shown.value("[...viewer.recording.path.begins]")
    instructions = shown.value("[...viewer.recording.path.instructions]")
    for step in range(1, 5):
        shown.press("c")
        assert where(shown) == (begins[step], instructions[step])
    shown.press("C", shift=True)
    assert where(shown) == (begins[3], instructions[3])


def test_the_window_zooms_and_follows_the_cursor(shown: Page) -> None:
    whole = state(shown)
    for _ in range(4):
        shown.press("+", "+")
    near = state(shown)
    assert near["to"] - near["from"] == pytest.approx(max(20, (whole["to"] - whole["from"]) / 16))
    shown.press("End")
    moved = state(shown)
    assert moved["from"] <= moved["cycle"] < moved["to"] and moved["from"] > near["from"]
    shown.press("f")
    assert (state(shown)["from"], state(shown)["to"]) == (whole["from"], whole["to"])


# --- the mouse, links, search ---------------------------------------------------------------------


def test_a_click_chooses_the_instruction_below_it(shown: Page) -> None:
    k = shown.value("viewer.recording.lanes[1].members[3]")
    middle = f"(viewer.recording.start[{k}] + viewer.recording.end[{k}]) / 2"
    x, y = shown.value(
        f"""(() => {{ const box = viewer.canvas.getBoundingClientRect(), {{scale, places}} = viewer.timeline;
        return [box.x + scale.x({middle}), box.y + places[0].lanes[1] + 5] }})()"""
    )
    shown.click(x, y)
    now = state(shown)
    assert now["instruction"] == k
    assert abs(now["cycle"] - shown.value(middle)) <= shown.value("1 + 1 / viewer.timeline.scale.rate")


def test_links_are_read_and_written(page: Page, file: Path) -> None:
    page.open(file, 1200, link="cycle=300&instruction=7&run=1&from=200&to=500")
    page.until(READY)
    now = state(page)
    assert (now["cycle"], now["instruction"], now["from"], now["to"], now["active"]) == (300, 7, 200, 500, 0)
    page.press("ArrowRight")
    page.until("location.hash.includes('cycle=301')")
    assert page.value("location.hash") == "#cycle=301&instruction=7&run=1&from=200&to=500"
    page.open(file, 1200, link="instruction=2&run=2")
    page.until(READY)
    assert (state(page)["active"], state(page)["instruction"]) == (1, 2)
    page.open(file, 1200, link="cycle=-3&instruction=99999999&from=x&run=7")
    page.until(READY)
    assert state(page)["instruction"] == 0


def search(page: Page, words: str, shift: bool = False) -> int:
    page.value(f"viewer.search.box.value = {words!r}; viewer.search.box.focus()")
    page.value(f"viewer.search.go({-1 if shift else 1})")
    return where(page)[1]


def test_search_by_opcode_text_number_and_cycle(shown: Page, program: Program) -> None:
    texts = [row_text(program, k) for k in range(len(program))]
    stores = [k for k, text in enumerate(texts) if text.startswith("store ")]
    assert [search(shown, "STORE"), search(shown, "store ")] == stores[:2]
    assert search(shown, "store ", shift=True) == stores[0]
    assert search(shown, "store ", shift=True) == stores[-1]
    assert shown.value("viewer.search.output.value") == f"{len(stores)} of {len(stores)}"
    assert search(shown, "12") == 12 and search(shown, "#3") == 3
    search(shown, "cycle 40")
    assert state(shown)["cycle"] == 40
    wide = [k for k, text in enumerate(texts) if text.startswith("load inp") and "sram" in text]
    shown.value("viewer.choose(0)")
    assert search(shown, "load inp sram") == next(k for k in wide if k)
    lines = [k for k in range(len(program)) if "intrinsic=load_wgt" in program.source_lines[program.source_of[k]]]
    shown.value("viewer.choose(0)")
    assert search(shown, "intrinsic=load_wgt") == lines[0]
    search(shown, "no such text")
    assert shown.value("viewer.search.output.value") == "none"


# --- buffers, two runs ----------------------------------------------------------------------------


def naive_planes(program: Program, buffer: int, used: int, columns: int) -> list[np.ndarray]:
    """[live, read, written], float[entry, column]: the cycles in every column."""
    stats, accesses = time_program(program), program_accesses(program).accesses
    planes = [np.zeros((used, stats.total_cycles)) for _ in range(3)]
    written, last = np.zeros(used), np.full(used, -1.0)
    for k in np.argsort(stats.starts, kind="stable"):
        begin, end = int(stats.starts[k]), int(stats.ends[k]) + 1
        for _, access in accesses[k]:
            for entry in members(access.where) if access.buffer == buffer else ():
                if access.writes:
                    planes[0][entry, int(written[entry]) : int(max(written[entry], last[entry]))] += 1
                    written[entry], last[entry] = (end if last[entry] > begin else begin), -1
                    planes[2][entry, begin:end] += 1
                else:
                    last[entry] = end
                    planes[1][entry, begin:end] += 1
    for entry in range(used):
        planes[0][entry, int(written[entry]) : int(max(written[entry], last[entry]))] += 1
    edges = np.linspace(0, stats.total_cycles, columns + 1)
    sums = [np.concatenate([np.zeros((used, 1)), np.cumsum(plane, axis=1)], axis=1) for plane in planes]
    cycles = np.arange(stats.total_cycles + 1)
    return [np.diff(np.stack([np.interp(edges, cycles, row) for row in plane]), axis=1) for plane in sums]


@pytest.mark.parametrize("buffer", range(6))
def test_heat_maps_are_the_shares_of_live_read_and_written_entries(shown: Page, program: Program, buffer: int) -> None:
    columns = 60
    pass_ = f"heatPass(viewer.recording, {{from: 0, to: viewer.recording.head.cycles, width: {columns}}})"
    said = shown.value(
        f"""inSlices({pass_}, () => true).then((states) => {{ const one = states[{buffer}];
        return [one.rows, one.entries, ...[one.live, one.reads, one.writes].map((plane) => [...plane.steps])] }})"""
    )
    rows, used = said[:2]
    per_column = time_program(program).total_cycles / columns
    for plane, steps in zip(naive_planes(program, buffer, used, columns), said[2:], strict=True):
        wanted = np.zeros((rows, columns))
        np.add.at(wanted, np.arange(used) * rows // used, plane * rows / used / per_column)
        np.testing.assert_allclose(np.reshape(steps, (rows, columns + 2))[:, :columns], wanted, atol=2e-3)


def test_two_runs_are_one_above_the_other(shown: Page) -> None:
    tops = shown.value("viewer.timeline.places.map((place) => place.lanes[1])")
    assert len(tops) == 2 and tops[0] < tops[1]
    shown.press("Tab")
    assert state(shown)["active"] == 1
    assert shown.value("viewer.recording === viewer.recordings[1]")
    shown.press("Tab")
    assert state(shown)["active"] == 0
    assert shown.value("document.title") == shown.value("viewer.recordings.map((one) => one.head.title).join(' and ')")


@pytest.mark.parametrize("width", [480, 1400])
def test_nothing_is_wider_than_the_window(page: Page, file: Path, width: int) -> None:
    page.open(file, width)
    page.until(READY)
    assert page.value("document.documentElement.scrollWidth") <= width


def test_an_exception_of_the_page_is_an_error(shown: Page) -> None:
    with pytest.raises(BrowserError) as error:
        shown.value("absent.name")
    assert str(error.value).startswith("browser: absent.name must have a value, got ReferenceError")
