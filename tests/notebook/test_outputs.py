# SPDX-License-Identifier: Apache-2.0
"""What notebooks show: well-formed, escaped, bounded, without scripts, in a style of its own."""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from helpers.source_tree import source_files

import vdla
from vdla import devices, te, templates
from vdla.charts.fragment import MOST_LINES, MOST_ROWS
from vdla.networks.registry import NETWORKS
from vdla.notebook.runs import MOST_INSTRUCTIONS
from vdla.runtime.executor.profile import profile_of
from vdla.simulator.verify import Finding, Kind, Verdict

TINY = vdla.Config.preset("tiny")
MOST_BYTES = 64 * 1024


@cache
def objects() -> dict[str, Any]:
    """What a user holds in a notebook, by the name of its class."""
    operator = templates.dense(TINY, rows=16, in_features=32, out_features=16)
    rng = np.random.default_rng(0)
    arrays = operator.pack(rng.integers(-8, 8, (16, 32)), rng.integers(-8, 8, (16, 32)), multiplier=1.0)
    result = vdla.simulate(operator.program, arrays)
    with vdla.open_device("sim", TINY) as one, vdla.open_device("sim", TINY) as other:
        comparison = devices.compare(operator.program, arrays, (one, other))
    a = te.placeholder((8, 8), "int8", "a")
    schedule = vdla.Schedule(te.create_function([a], [te.compute((8, 8), lambda i, j: a[i, j] < 3, "c")], "less"))
    schedule.split("i", factor=4)
    images = rng.random((2, 1, 8, 8), np.float32)
    model = vdla.compile(NETWORKS["digits"].build(), "pynq_z1", calibration=images)
    run = model.run({"image": images[:1]})
    mapped = vdla.map_expression(vdla.definitions.dense(rows=8, in_features=8, out_features=8).output, TINY)
    verdict = vdla.verify(operator.program)
    profile = profile_of(model.artifact, [run])
    found = [TINY, operator, mapped, operator.program, verdict, result, result.statistics, result.trace, comparison]
    return {type(each).__name__: each for each in [*found, schedule, schedule.fn, model, run, profile]}


NAMES = (
    "Comparison", "Config", "Function", "MappedOperator", "Model", "NetworkProfile", "NetworkResult", "Operator",
    "Program", "Result", "RunStats", "RunTrace", "Schedule", "Verdict",
)  # fmt: skip


def shown(value: Any) -> str:
    html = value._repr_html_()
    assert isinstance(html, str)
    return html


def text_of(html: str) -> str:
    """The text without the style, its parts apart."""
    root = ElementTree.fromstring(html)
    style = root.find("style")
    assert style is not None
    root.remove(style)
    return " ".join(root.itertext())


def test_the_names_are_those_of_the_objects() -> None:
    assert sorted(objects()) == list(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_an_output_is_one_piece_without_scripts_or_references(name: str) -> None:
    html = shown(objects()[name])
    root = ElementTree.fromstring(html)
    assert (root.tag, root.get("class")) == ("div", "vdla-html")
    tags = [element.tag.rpartition("}")[2] for element in root.iter()]
    assert not {"script", "img", "link", "iframe"} & set(tags)
    assert tags.count("style") == 1
    assert not [key for element in root.iter() for key in element.attrib if key.startswith("on") or key == "href"]
    assert len(html) < MOST_BYTES
    assert html == shown(objects()[name])


@pytest.mark.parametrize("name", NAMES)
def test_the_style_holds_inside_of_the_output_only(name: str) -> None:
    style = ElementTree.fromstring(shown(objects()[name])).findtext("style") or ""
    selectors = [each.strip() for rule in style.split("}")[:-1] for each in rule.split("{")[0].split(",")]
    assert len(selectors) > 50
    assert [each for each in selectors if not each.startswith("div.vdla-html ")] == []


def test_an_output_says_the_figures_of_its_object() -> None:
    result, cycles = objects()["Result"], objects()["RunStats"].total_cycles
    for words in (f"cycles {cycles:,}", f"instructions of each unit over all {cycles:,} cycles", "output int8"):
        assert words in text_of(shown(result))
    assert "result of dense, not timed" in text_of(
        shown(vdla.simulate(result.program, objects_inputs(), mode="function"))
    )
    assert f"safe: {len(result.program)} instructions verified" in text_of(shown(objects()["Verdict"]))
    assert "1 primitive applied" in text_of(shown(objects()["Schedule"]))
    assert 's.split("i", factor=4, names=("i_o", "i_i"))' in text_of(shown(objects()["Schedule"]))
    assert objects()["Model"].name in text_of(shown(objects()["Model"]))
    assert f"hash {result.program.hash}" in text_of(shown(result.program))
    assert f"sim {cycles:,}" in text_of(shown(objects()["Comparison"]))


def objects_inputs() -> dict[str, Any]:
    tensors = [each for each in objects()["Program"].tensors if each.role in ("input", "weight")]
    return {each.name: np.zeros(each.shape, each.dtype) for each in tensors}


def test_texts_are_escaped() -> None:
    first, *others = objects()["Program"].tensors
    tensors = (replace(first, layout="<i>&"), *others)
    program = replace(objects()["Program"], name="<b>&'x", tensors=tensors)
    assert "program <b>&'x" in text_of(shown(program))
    assert "<i>& 512" in text_of(shown(program))
    assert "<b>" not in shown(program)
    assert "< 3" in text_of(shown(objects()["Function"]))


def test_a_long_run_shows_the_cycles_in_its_middle() -> None:
    operator = templates.conv2d(
        vdla.Config.preset("pynq_z1"), batch=1, height=28, width=28, in_channels=64, out_channels=256, kernel=3, pads=1
    )
    result = vdla.simulate(operator.program, mode="timing")
    assert len(operator.program) > MOST_INSTRUCTIONS
    starts = np.sort(result.statistics.starts)
    first = (len(starts) - MOST_INSTRUCTIONS) // 2
    begin, end = starts[first], starts[first + MOST_INSTRUCTIONS]
    window = f"instructions of each unit over {begin:,} to {end:,} of {result.statistics.total_cycles:,} cycles"
    assert window in text_of(shown(result))
    assert len(shown(result)) < MOST_BYTES


def test_what_is_left_out_is_counted() -> None:
    tensors = objects()["Program"].tensors
    more = tuple(replace(tensors[0], name=f"t{number}") for number in range(100))
    text = text_of(shown(replace(objects()["Program"], tensors=(*tensors, *more), source_lines=("x",) * 100)))
    assert f"… and {len(tensors) + 100 - MOST_ROWS} more rows" in text
    assert f"… and {100 - MOST_LINES} more lines" in text
    findings = tuple(Finding(kind=Kind.RACE, message=f"race {number}", schedule=("x",)) for number in range(20))
    text = text_of(shown(Verdict("p", 9, findings, more=5)))
    assert "refused" in text
    assert "race 15" in text and "race 16" not in text
    assert "… and 9 more findings" in text


def test_a_board_shows_the_repr(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("vdla.notebook")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "vdla.notebook", None)
    assert objects()["Program"]._repr_html_() is None


def test_an_error_inside_of_the_room_is_no_missing_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vdla.notebook.programs", None)
    with pytest.raises(ModuleNotFoundError, match=r"vdla\.notebook\.programs"):
        objects()["Program"]._repr_html_()


def places() -> list[tuple[str, str]]:
    """What the classes of the package name as the functions that show them."""
    calls = [node for file in source_files().values() for node in ast.walk(file.tree) if isinstance(node, ast.Call)]
    named = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "shown_by"]
    return [tuple(argument.value for argument in call.args) for call in named]  # type: ignore[misc]


def test_every_class_names_a_function_and_every_function_shows_a_class() -> None:
    named = places()
    for module, function in named:
        assert callable(getattr(import_module(f"vdla.notebook.{module}"), function))
    room = {name: file.tree for name, file in source_files().items() if name.startswith("notebook.")}
    public = {
        (name.partition(".")[2], node.name)
        for name, tree in room.items()
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and re.fullmatch(r"[a-z]\w*_html", node.name)
    }
    assert public == set(named)
    assert len(named) == len(set(named))
