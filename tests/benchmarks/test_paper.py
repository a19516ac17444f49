# SPDX-License-Identifier: Apache-2.0
"""The figures of the paper: each with small networks, its claims, its page."""

import json

import pytest

from vdla.benchmarks.paper import page
from vdla.benchmarks.paper.figure import PaperClaim, bars
from vdla.benchmarks.paper.figures import FIGURES, PaperError, figure, run
from vdla.cli import main

NUMBERS = [4, 7, 10, 12, 14, 15, 16, 17, 18, 19, 21]
LIBRARIES = {14: "onnxruntime", 15: "onnxruntime", 16: "onnxruntime", 17: "onnxruntime", 7: "pyopencl", 19: "pyopencl"}


def test_every_figure_that_measures_something_is_known():
    assert [one.number for one in FIGURES.values()] == NUMBERS
    assert list(FIGURES) == [f"figure{number}" for number in NUMBERS]


@pytest.mark.sampled
@pytest.mark.long
@pytest.mark.parametrize("number", NUMBERS)
def test_a_figure_is_measured_and_drawn(number):
    if number in LIBRARIES:
        pytest.importorskip(LIBRARIES[number])
    result, picture = run(f"figure{number}", small=True)
    claims = [row for row in result.rows if "claim" in row]
    rows = [row for row in result.rows if "claim" not in row]
    assert rows and claims and result.figures["claims"] == len(claims)
    assert result.figures["claims_that_hold"] == sum(row["holds"] for row in claims)
    assert picture.startswith("<svg") and picture.count("<title>") >= len(rows)
    assert result.receipt["command"] == f"vdla paper figure{number} --small --seed 0 --json -"
    assert json.loads(result.json())["benchmark"] == f"paper figure{number}"


def test_latency_hiding_has_the_cycles_of_the_layers_benchmark():
    from vdla.benchmarks.layers import PRESET
    from vdla.compiler.operators.workloads import resnet18_layers
    from vdla.hardware.config import Config
    from vdla.runtime.diagnosis.layers import layer_operator, measure

    result, _ = run("figure10", small=True)
    layer = resnet18_layers()[-1]
    config = Config.preset(PRESET)
    row = next(row for row in result.rows if row.get("layer") == layer.name)
    for threads, column in ((1, "cycles_one_thread"), (2, "cycles")):
        assert row[column] == measure(layer, layer_operator(layer, config, threads), 0).stats.total_cycles
    gain = next(row for row in result.rows if str(row.get("claim", "")).startswith("gain"))
    pairs = [(row["utilisation"], row["utilisation_one_thread"]) for row in result.rows if "layer" in row]
    assert gain["here"] == pytest.approx(max(two for two, _ in pairs) - max(one for _, one in pairs), abs=1e-3)


def test_a_claim_holds_from_its_least_number_on():
    assert PaperClaim("faster", "> 1", 1.0, 1.0).row() == {"claim": "faster", "paper": "> 1", "here": 1.0, "holds": 1}
    assert not PaperClaim("faster", "> 1", 0.999, 1.0).holds


def test_bars_are_as_long_as_their_numbers():
    rows = [{"name": "a", "ours": 1.0, "theirs": 4.0}, {"name": "b", "ours": 2.0}]
    drawn = bars("times", "ms", rows, "name", {"ours": "VDLA", "theirs": "other"})
    widths = [float(part.split('"')[0]) for part in drawn.split('width="')[1:]]
    assert any(a == pytest.approx(4 * b) for a in widths for b in widths)
    assert "a, other: 4 ms" in drawn and "b, VDLA: 2 ms" in drawn and "b, other" not in drawn


def test_an_unknown_figure_is_refused_before_anything_runs():
    with pytest.raises(PaperError) as error:
        figure("figure11")
    assert str(error.value).startswith("paper: figure must be one of figure4, figure7, figure10, ")


def test_the_command_lists_and_measures(capsys, tmp_path):
    assert main(["paper"]) == 0
    assert set(FIGURES) <= set(capsys.readouterr().out.split())
    made = tmp_path / "figure10.json", tmp_path / "figure10.svg"
    assert main(["paper", "figure10", "--small", "--json", str(made[0]), "--picture", str(made[1])]) == 0
    assert json.loads(made[0].read_text())["receipt"]["small"] is True
    assert made[1].read_text().startswith("<svg")


def test_the_page_has_the_table_of_the_records():
    records = json.loads(page.RECORDS.read_text())
    text = page.PAGE.read_text()
    assert page.page(text, records) == text
    assert [name for name in FIGURES if name in records] == list(records)


def test_results_of_small_networks_are_not_recorded():
    result = {"benchmark": "paper figure10", "rows": [], "receipt": {"small": True, "command": "vdla paper figure10"}}
    with pytest.raises(SystemExit) as error:
        page.recorded([result], {})
    assert str(error.value) == "paper: results must be of whole networks, got vdla paper figure10"
