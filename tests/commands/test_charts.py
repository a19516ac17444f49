# SPDX-License-Identifier: Apache-2.0
"""Every mark of every chart is where the table beside it says; charts that lie are found out."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from operator import mul
from unittest import mock
from xml.etree import ElementTree

import pytest
from helpers.chart_data import declare_product, dense, digits, profiled
from helpers.drawn_charts import (
    PIXEL,
    Expected,
    Page,
    axis,
    changed,
    check_bars,
    check_points,
    check_steps,
    check_texts,
    drawn_marks,
    number,
)

from vdla.benchmarks.tune.convergence import SHOWN, picture_of
from vdla.charts.plot import Scale
from vdla.cli import main
from vdla.commands import explore_command, tune_command
from vdla.commands.explore_page import exploration_page
from vdla.commands.profile_page import arena_chart, operator_bars, operators_roofline, profile_page
from vdla.commands.quantise_command import layer_chart
from vdla.commands.run_page import cycle_shares, run_page, timeline
from vdla.commands.verdict_page import verdict_page, verdict_roofline
from vdla.compiler.operators.workloads import workload
from vdla.hardware.config import Config
from vdla.runtime.diagnosis.layers import layer_operator
from vdla.runtime.executor.profile import OperatorProfile
from vdla.runtime.network.quantisation_report import LayerReport, QuantisationReport
from vdla.runtime.studies.exploration import Exploration
from vdla.runtime.studies.report import Point, report_of
from vdla.runtime.studies.verdict import ExtensionVerdict, evaluate
from vdla.simulator.timing.timing import time_program

PYNQ, TINY = Config.preset("pynq_z1"), Config.preset("tiny")
MACHINES = ("block_in=2,4", "block_out=2,4", "axi_bits=32,64")
SEARCH = ["tune", "conv2d", "--preset", "tiny", "--trials", "20", "--search", "random", "--workers", "1"]
SHAPE = ["--shape", "height=6", "width=6", "in_channels=8", "out_channels=8", "kernel=3", "pads=1"]


@dataclass(frozen=True)
class Chart:
    """A chart, and what requires that it shows its figures."""

    svg: str
    check: Callable[[str], object]


def written_out(operator: OperatorProfile) -> OperatorProfile:
    """The same, but that it writes most."""
    if not operator.bytes_read:
        return operator
    return replace(operator, bytes_written=5 * operator.bytes_read, nbytes=6 * operator.bytes_read)


# --- runs -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def runs() -> Mapping[str, tuple]:
    """Two runs of a layer, of which one writes more than it reads."""
    programs = {n: layer_operator(workload("C11"), PYNQ, n).program for n in (2, 1)}
    timed = {f"{n} threads": (program, time_program(program)) for n, program in programs.items()}
    program, stats = timed["1 threads"]
    return timed | {"1 threads": (program, replace(stats, bytes_written=3 * stats.bytes_read))}


def roofline_of_runs(runs: Mapping[str, tuple]) -> Chart:
    page = Page(run_page("page", [], [], runs))
    ((_, *labels), *rows) = page.tables[0]
    cells = {row[0]: dict(zip(labels, row[1:], strict=True)) for row in rows}
    expected = []
    for label, (_, stats) in runs.items():
        at, speed = number(cells["operations per byte"][label]), number(cells["attained"][label])
        exact = 2 * stats.macs / max(stats.bytes_read, stats.bytes_written)
        assert (at, number(cells["bytes moved"][label])) == (round(exact, 1), stats.bytes_read + stats.bytes_written)
        expected.append(Expected(label, at, speed, 0.05, 0.05))
    return Chart(page.charts[0], lambda svg: check_points(svg, expected))


def timeline_of_a_run(runs: Mapping[str, tuple]) -> Chart:
    program, stats = runs["1 threads"]

    def check(svg: str) -> None:
        tree = ElementTree.fromstring(svg)
        scale, marks = axis(tree, "x"), drawn_marks(tree, "rect")
        counts = [re.findall(r", (\d+) instructions", mark.title) for mark in marks]
        assert sum(int(count[0]) if count else 1 for count in counts) == len(program)
        for mark in marks:
            first, last = (number(word) for word in re.findall(r"cycles ([\d,]+) to ([\d,]+)", mark.title)[0])
            if "instruction " in mark.title:
                place = int(re.findall(r"instruction (\d+)", mark.title)[0])
                assert (first, last) == (stats.starts[place], stats.ends[place])
            scale.check(mark.at["x"], first, 1e-6, mark.title)
            if mark.at["width"] > 0.5:
                scale.check(mark.at["x"] + mark.at["width"], last + 1, 1e-6, mark.title)

    return Chart(timeline(program, stats, 0, stats.total_cycles), check)


def shares_of_cycles(runs: Mapping[str, tuple]) -> Chart:
    _, stats = runs["2 threads"]
    bars = []
    for counters in stats.counters.values():
        start = 0
        for counter, cycles in counters.items():
            bars += [(counter, start, cycles)] * bool(cycles)
            start += cycles
        assert start == stats.total_cycles
    return Chart(cycle_shares(stats), lambda svg: check_bars(svg, bars))


# --- profiles -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def profile() -> tuple:
    """The network for digits, of which one operator writes most and one is there twice."""
    artifact, profile = profiled(digits(), PYNQ)
    operators = list(profile.operators)
    (number, *_) = (k for k, operator in enumerate(operators) if operator.utilisation)
    operators[number] = written_out(operators[number])
    return artifact, replace(profile, operators=(*operators, operators[number]))


def cells_of(profile: tuple) -> list[dict[str, str]]:
    (table,) = Page(profile_page(*profile)).tables
    return [dict(zip(table[0], row, strict=True)) for row in table[1:]]


def bars_of_operators(profile: tuple) -> Chart:
    _, figures = profile
    bars = []
    for operator, cells in zip(figures.operators, cells_of(profile), strict=True):
        assert cells["time"] == f"{1e3 * operator.seconds:,.3f} ms"
        bars.append((f"{cells['device']} faint", 0, operator.seconds))
        if cells["utilised"]:
            assert number(cells["utilised"]) == round(100 * operator.utilisation, 1)
            bars.append((cells["device"], 0, operator.seconds * operator.utilisation))
    return Chart(operator_bars(figures), lambda svg: check_bars(svg, bars))


def roofline_of_operators(profile: tuple) -> Chart:
    expected = []
    for cells in cells_of(profile):
        if cells["utilised"]:
            operations = 2 * number(cells["cycles"]) * PYNQ.macs_per_cycle
            nbytes = max(number(cells["read"]), number(cells["written"]))
            used, digits = number(cells["utilised"]) / 100, 0.05 / 100
            at, x_digits = used * operations / nbytes, digits * operations / nbytes
            gops = PYNQ.peak_gops
            expected.append(Expected(cells["name"], at, used * gops, x_digits, digits * gops))
    svg = Page(profile_page(*profile)).charts[1]
    return Chart(svg, lambda svg: check_points(svg, expected))


def memory_of_a_network(profile: tuple) -> Chart:
    plan = profile[0].plan
    held = {
        name: (value.offset, value.offset + math.prod(value.shape or ()) * int(re.findall(r"\d+", value.dtype)[0]) // 8)
        for name, value in plan.values.items()
        if value.alias_of is None and value.offset is not None
    }
    used: dict[str, list[int]] = {}
    for place, names in enumerate([plan.inputs, *((*s.inputs, *s.outputs) for s in plan.steps), plan.outputs], -1):
        for name in filter(None, names):
            root = plan.values[name].alias_of or name
            used.setdefault(root, []).append(place)

    def check(svg: str) -> None:
        tree = ElementTree.fromstring(svg)
        marks, x, y = drawn_marks(tree, "rect"), axis(tree, "x"), axis(tree, "y")
        assert Counter(mark.row for mark in marks) == Counter(name for name in held if name in used)
        for mark in marks:
            (start, end), (first, last) = held[mark.row], (min(used[mark.row]), max(used[mark.row]))
            x.check(mark.at["x"], first - 0.5, 1e-6, mark.title)
            x.check(mark.at["x"] + mark.at["width"] + 0.5, last + 0.5, 1e-6, mark.title)
            y.check(mark.at["y"], end, 1e-6, mark.title)
            if mark.at["height"] > 0.5:
                y.check(mark.at["y"] + mark.at["height"] + 0.5, start, 1e-6, mark.title)

    return Chart(arena_chart(plan), check)


# --- verdicts -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def verdict(tmp_path_factory: pytest.TempPathFactory) -> ExtensionVerdict:
    """Two layers, of which a network has one three times; the other one writes most."""
    folder = tmp_path_factory.mktemp("kept")
    with mock.patch("vdla.runtime.studies.layer_cycles.user_cache", lambda kind: folder / kind):
        verdict = evaluate(declare_product, [dense(8), dense(256, "deep")], TINY)
    first, second = verdict.layers
    outcome = second.before
    assert outcome.cost is not None
    written = replace(outcome, cost=replace(outcome.cost, bytes_written=4 * outcome.cost.bytes_read))
    return replace(verdict, layers=(replace(first, count=3), replace(second, before=written)))


def roofline_of_a_verdict(verdict: ExtensionVerdict) -> Chart:
    page, report = Page(verdict_page(verdict)), report_of(verdict)
    table = {row[0]: row[1:] for row in page.tables[0]}
    rates, expected, sums = (verdict.steps_before, verdict.steps_after), [], []
    for place, (when, rate) in enumerate(zip(("before", "after"), rates, strict=True)):
        sums.append(Counter())
        for cells, layer in zip(page.rows(1), report["layers"], strict=True):
            figures = layer[when if layer["used"] else "before"]
            count, steps = int(cells["x"]), figures["utilisation"] * rate * figures["cycles"]
            shown = {"cycles": figures["cycles"], "steps": steps, "read": figures["bytes_read"]}
            for name, value in (shown | {"written": figures["bytes_written"]}).items():
                sums[-1][name] += count * value
        total = sums[-1]
        at = 2 * total["steps"] / max(total["read"], total["written"])
        speed = 2 * total["steps"] / total["cycles"] * TINY.clock_mhz / 1000
        shown = {"operations a byte": round(at, 1), "GOPS": round(speed, 1)}
        shown |= {"bytes read": total["read"], "bytes written": total["written"]}
        assert {name: number(table[name][place]) for name in shown} == pytest.approx(shown)
        expected.append(Expected(f"all layers {when}", at, speed, 1e-6 * at, 1e-6 * speed))
    for cells, layer in zip(page.rows(1), report["layers"], strict=True):
        for place, (when, rate) in enumerate(zip(("before", "after"), rates, strict=True)):
            figures, used = layer[when], number(cells["used %"].split(" > ")[place]) / 100
            operations = 2 * rate * number(cells[when])
            nbytes, seconds = max(figures["bytes_read"], figures["bytes_written"]), figures["cycles"] / TINY.clock_mhz
            at, speed, digits = used * operations / nbytes, used * operations / seconds / 1000, 0.0005 * operations
            row = f"{layer['layer']} {when}"
            expected.append(Expected(row, at, speed, digits / nbytes, digits / seconds / 1000))
    return Chart(verdict_roofline(verdict), lambda svg: check_points(svg, expected))


# --- sweeps, searches, quantised layers -----------------------------------------------------------


@pytest.fixture(scope="module")
def exploration(tmp_path_factory: pytest.TempPathFactory) -> Exploration:
    """A sweep of machines."""
    folder, sweeps = tmp_path_factory.mktemp("sweep"), []
    source = folder / "layer.py"
    call = "vdla.definitions.dense(rows=6, in_features=16, out_features=16)"
    source.write_text(f"import vdla\n\n\ndef dense():\n    return {call}.output\n")
    words = ["explore", "--layers", f"{source}:dense", "--preset", "tiny", "--sweep", *MACHINES, "--workers", "1"]
    with mock.patch.object(explore_command, "write_study", lambda arguments, found, show: sweeps.append(found)):
        assert main([*words, "--part", "xc7z020", "--log", str(folder / "log")]) == 0
    return sweeps[0]


def machines_of_a_sweep(exploration: Exploration) -> Chart:
    page = Page(exploration_page(exploration))
    fields = page.tables[1][0][: len(MACHINES)]
    named = {", ".join(f"{field}={cells[field]}" for field in fields): cells for cells in page.rows(1)}
    front = {", ".join(f"{field}={cells[field]}" for field in fields) for cells in page.rows(0)}
    most = max(number(cells["DSP"]) for cells in named.values())

    def check(svg: str) -> None:
        drawn = [mark.row for mark in drawn_marks(ElementTree.fromstring(svg), "circle")]
        assert sorted(drawn) == sorted(named)
        rows = [Expected(row, number(named[row]["LUT"]), number(named[row]["frames/s"]), 0, 0.005) for row in drawn]
        for mark in check_points(svg, rows):
            assert mark.class_ == ("front" if mark.row in front else "beaten")
            radius = max(3.0, 14 * math.sqrt(number(named[mark.row]["DSP"]) / most))
            assert mark.at["r"] == pytest.approx(radius, abs=PIXEL)

    return Chart(page.charts[0], check)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> list:
    """The results of tuning two operators, of which a model has one three times."""
    results: list = []
    log = str(tmp_path_factory.mktemp("tuned") / "log")
    with mock.patch.object(tune_command, "_show", lambda arguments, found, is_model: results.extend(found)):
        assert main([*SEARCH, *SHAPE, "--log", log]) == 0
        assert main([*SEARCH, *SHAPE[:-1], "pads=0", "--seed", "3", "--log", log]) == 0
    first, second = results
    return [first, replace(second, operator=replace(second.operator, count=3))]


def tuning_of_a_model(tuned: list) -> Chart:
    counts = [result.operator.count for result in tuned]
    trials = zip(*(result.to_dict()["best_so_far"] for result in tuned), strict=True)
    costs = [math.inf if None in column else sum(map(mul, counts, column)) for column in trials]
    values = [cost / costs[-1] for cost in costs]
    untuned = sum(result.operator.count * result.to_dict()["untuned_cycles"] for result in tuned) / costs[-1]

    def check(svg: str) -> None:
        check_steps(svg, "2 operators", values)
        check_steps(svg, "untuned", [untuned] * len(values))

    return Chart(tune_command.picture_of(tuned), check)


def curves_of_searches() -> Chart:
    costs = {name: [[100.0 + (50 >> k) + 3 * place for k in range(9)]] for place, name in enumerate(SHOWN)}
    best = 90.0

    def check(svg: str) -> None:
        for name, ((*each,),) in costs.items():
            reached = [100 * best / min(each[: trial + 1]) for trial in range(200)]
            check_steps(svg, name, reached)

    return Chart(picture_of([(best, costs)]), check)


def layers_of_a_network() -> Chart:
    layers = [
        LayerReport(name=f"conv{k}", op="Conv", snr_db=7.5 * k, saturated=0, low=0, high=1, alone_db=50 - k)
        for k in range(5)
    ]
    bars = [bar for each in layers for bar in (("network", 0, each.snr_db), ("alone", 0, each.alone_db))]
    report = QuantisationReport("net", (*layers, layers[2]), {"y": 1.0})
    return Chart(layer_chart(report), lambda svg: check_bars(svg, [*bars, *bars[4:6]]))


# --- charts that show their figures ---------------------------------------------------------------

CHARTS: dict[str, tuple[Callable[..., Chart], str]] = {
    "roofline of runs": (roofline_of_runs, "runs"),
    "timeline": (timeline_of_a_run, "runs"),
    "shares of cycles": (shares_of_cycles, "runs"),
    "operators": (bars_of_operators, "profile"),
    "roofline of a profile": (roofline_of_operators, "profile"),
    "memory": (memory_of_a_network, "profile"),
    "roofline of a verdict": (roofline_of_a_verdict, "verdict"),
    "sweep": (machines_of_a_sweep, "exploration"),
    "tuning": (tuning_of_a_model, "tuned"),
    "searches": (curves_of_searches, ""),
    "layers": (layers_of_a_network, ""),
}


def chart_of(name: str, request: pytest.FixtureRequest) -> Chart:
    make, data = CHARTS[name]
    return make(request.getfixturevalue(data)) if data else make()


@pytest.mark.sampled
@pytest.mark.parametrize("name", CHARTS)
def test_marks_are_where_the_table_says(name: str, request: pytest.FixtureRequest) -> None:
    chart = chart_of(name, request)
    chart.check(chart.svg)


@pytest.mark.parametrize("name", CHARTS)
def test_texts_are_apart_and_within_the_picture(name: str, request: pytest.FixtureRequest) -> None:
    check_texts(chart_of(name, request).svg)


# --- charts that lie ------------------------------------------------------------------------------


def mirror(item: ElementTree.Element) -> None:
    """Moves a mark to the other side of the middle."""
    if item.tag.endswith("rect"):
        item.set("x", f"{1004 - float(item.get('x', '')) - float(item.get('width', '')):.2f}")
    elif item.tag.endswith("circle"):
        item.set("cx", f"{1004 - float(item.get('cx', '')):.2f}")
    else:
        corners = (corner.split(",") for corner in item.get("points", "").split())
        item.set("points", " ".join(f"{1004 - float(x):.2f},{y}" for x, y in corners))


def even_out(item: ElementTree.Element) -> None:
    """Gives every bar one length."""
    item.set("width", "100")


SHAPES = {"timeline": "rect", "shares of cycles": "rect", "operators": "rect", "memory": "rect", "layers": "rect"}
SHAPES |= {"tuning": "polyline", "searches": "polyline"}


@pytest.mark.parametrize("name", CHARTS)
def test_mirrored_marks_are_found_out(name: str, request: pytest.FixtureRequest) -> None:
    chart = chart_of(name, request)
    with pytest.raises(AssertionError):
        chart.check(changed(chart.svg, SHAPES.get(name, "circle"), mirror))


@pytest.mark.parametrize("name", CHARTS)
def test_a_mirrored_scale_is_found_out(
    name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    chart_of(name, request)
    straight = Scale.__call__
    monkeypatch.setattr(Scale, "__call__", lambda self, value: self.begin + self.end - straight(self, value))
    with pytest.raises(AssertionError):
        chart = chart_of(name, request)
        chart.check(chart.svg)


@pytest.mark.parametrize("name", [name for name, shape in SHAPES.items() if shape == "rect"])
def test_bars_of_one_length_are_found_out(name: str, request: pytest.FixtureRequest) -> None:
    chart = chart_of(name, request)
    with pytest.raises(AssertionError):
        chart.check(changed(chart.svg, "rect", even_out))


def test_missing_writes_are_found_out(
    request: pytest.FixtureRequest, profile: tuple, verdict: ExtensionVerdict, runs: Mapping[str, tuple]
) -> None:
    _, figures = profile
    read_only = [replace(operator, bytes_written=0) for operator in figures.operators]
    with pytest.raises(AssertionError, match=", x: "):
        chart_of("roofline of a profile", request).check(operators_roofline(PYNQ, read_only))
    with mock.patch.object(Point, "intensity", property(lambda point: 2 * point.steps / point.bytes_read)):
        svg = verdict_roofline(verdict)
    with pytest.raises(AssertionError, match=", x: "):
        chart_of("roofline of a verdict", request).check(svg)
    with mock.patch("vdla.commands.run_page.intensity", lambda stats: 2 * stats.macs / stats.bytes_read):
        svg = Page(run_page("page", [], [], runs)).charts[0]
    with pytest.raises(AssertionError, match=", x: "):
        chart_of("roofline of runs", request).check(svg)


def test_missing_repetitions_are_found_out(
    request: pytest.FixtureRequest, profile: tuple, verdict: ExtensionVerdict, tuned: list
) -> None:
    _, figures = profile
    once = tuple({operator.name: operator for operator in figures.operators}.values())
    assert len(once) < len(figures.operators)
    with pytest.raises(AssertionError):
        chart_of("roofline of a profile", request).check(operators_roofline(PYNQ, once))
    with pytest.raises(AssertionError):
        chart_of("operators", request).check(operator_bars(replace(figures, operators=once)))
    single = replace(verdict, layers=tuple(replace(layer, count=1) for layer in verdict.layers))
    with pytest.raises(AssertionError):
        chart_of("roofline of a verdict", request).check(verdict_roofline(single))
    single_tuned = [replace(result, operator=replace(result.operator, count=1)) for result in tuned]
    with pytest.raises(AssertionError):
        chart_of("tuning", request).check(tune_command.picture_of(single_tuned))
