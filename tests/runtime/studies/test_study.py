# SPDX-License-Identifier: Apache-2.0
"""What studies return in Python is what their commands print, write and draw."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from helpers.extension_files import again

import vdla
from vdla.cli import main
from vdla.commands.console import output
from vdla.networks.digits import digits
from vdla.runtime.studies.compiled_verdict import CompiledVerdict, NetworkFigures, OperatorPlace, OperatorVerdict
from vdla.runtime.studies.explanation import Explanation
from vdla.runtime.studies.exploration import Exploration
from vdla.runtime.studies.study import DrawnStudy, Study
from vdla.runtime.studies.verdict import ExtensionVerdict
from vdla.support.text_table import TextTable, text_table

Capture = pytest.CaptureFixture[str]

LAYER = """

def layer():
    return vdla.definitions.dense(rows=6, in_features=16, out_features=16).output
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("study")
    (path / "again.py").write_text(again() + LAYER)
    return path


def dense() -> vdla.te.Tensor:
    return vdla.definitions.dense(rows=6, in_features=16, out_features=16)


@pytest.fixture(scope="module")
def verdict(folder: Path) -> ExtensionVerdict:
    return vdla.evaluate(folder / "again.py", [dense()], "tiny", workers=0, energy="45nm")


@pytest.fixture(scope="module")
def exploration() -> Exploration:
    return vdla.explore([dense()], "tiny", {"block_in": [2, 4, 8]}, energy="7nm", name="layer")


@pytest.fixture(autouse=True)
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Commands print into a pipe, whatever terminal a test before had."""
    monkeypatch.delenv("COLUMNS", raising=False)
    output.cache_clear()
    yield
    output.cache_clear()


@pytest.fixture(scope="module")
def network() -> vdla.Model:
    images = np.random.default_rng(0).random((8, 1, 8, 8), np.float32)
    return vdla.compile(digits(), "pynq_z1", calibration=images)


def printed(capsys: Capture, *words: str) -> list[str]:
    """The lines of a command, without spaces at their ends and empty lines."""
    assert main(list(words)) == 0
    return [line.rstrip() for line in capsys.readouterr().out.splitlines() if line.strip()]


def lines_of(study: Study) -> list[str]:
    return [line.rstrip() for line in str(study).splitlines() if line.strip()]


def same(one: list[str], other: list[str]) -> bool:
    """Whether lines have the same words; the widths of columns are free."""
    return [line.split() for line in one] == [line.split() for line in other]


def test_a_verdict_prints_what_the_command_prints(verdict: ExtensionVerdict, folder: Path, capsys: Capture) -> None:
    words = ["evaluate", str(folder / "again.py"), "--layers", f"{folder / 'again.py'}:layer", "--preset", "tiny"]
    shown = printed(capsys, *words, "--workers", "1", "--energy", "45nm", "--all")
    mine = [line.replace("dense", "layer") for line in lines_of(verdict)]
    assert sorted(map(str.split, mine)) == sorted(map(str.split, shown))  # notes come last in an object
    assert [table.title for table in verdict.tables()] == ["again on tiny", "energy by 45nm, estimated"]
    assert json.loads(json.dumps(verdict.to_dict()))["energy"]["coefficients"] == "45nm"
    check_drawn(verdict)


def test_an_exploration_prints_what_the_command_prints(
    exploration: Exploration, folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    words = ["explore", "--layers", "again.py:layer", "--preset", "tiny", "--sweep", "block_in=2,4,8"]
    shown = printed(capsys, *words, "--workers", "1", "--energy", "7nm", "--all")
    mine = [line.replace("layer on", "again.py:layer on") for line in lines_of(exploration)]
    assert sorted(map(str.split, mine)) == sorted(map(str.split, shown))
    document = json.loads(json.dumps(exploration.to_dict()))
    assert [machine["rejected"] is None for machine in document["machines"]] == [False, True, True]
    check_drawn(exploration)


def check_drawn(study: DrawnStudy) -> None:
    """A picture that is in the page, and what a notebook shows; both say that energies are
    estimated.
    """
    picture, page = study.picture(), study.page()
    assert picture.startswith("<svg") and picture in page
    shown = study._repr_html_()  # type: ignore[attr-defined]
    assert "nm, estimated" in page and "nm, estimated" in shown and "<svg" in shown


def test_an_explanation_prints_what_the_command_prints(network: vdla.Model, folder: Path, capsys: Capture) -> None:
    path = folder / "digits.vdla"
    network.save(path)
    found = vdla.explain(path)
    shown = printed(capsys, "explain", str(path))
    assert sorted(map(str.split, lines_of(found))) == sorted(map(str.split, shown))
    assert main(["explain", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(found.to_dict()))
    assert vdla.explain(network).to_dict() == found.to_dict() == Explanation(network.artifact).to_dict()
    assert repr(found) == f"<Explanation of digits, machine pynq_z1: {len(found.tables()[0].rows)} operators>"
    assert "digits runs" in found._repr_html_()  # type: ignore[operator]


def test_only_networks_are_explained(folder: Path) -> None:
    with pytest.raises(vdla.Error) as error:
        vdla.explain(3)  # type: ignore[arg-type]
    assert str(error.value) == "explain: model must be a compiled network or its file, got int"
    with pytest.raises(vdla.Error, match=r"again\.py"):
        vdla.explain(folder / "again.py")


def compiled() -> CompiledVerdict:
    before, after = OperatorPlace("vdla", 200, None), OperatorPlace("vdla", 100, None)
    figures = [
        NetworkFigures(cycles=cycles, programs=1, operators=2, macs=9, macs_on_machine=9, times=None)
        for cycles in (300, 200)
    ]
    operators = (
        OperatorVerdict(name="conv", op="vdla.QConv", before=before, after=after, extensions=("again",), reason=""),
        OperatorVerdict(name="add", op="vdla.QAdd", before=after, after=after, extensions=(), reason="be a product"),
    )
    return CompiledVerdict(
        network="net", machine="tiny", extensions=("again",), before=figures[0], after=figures[1], operators=operators
    )


def test_a_compiled_network_is_shown_with_its_reasons() -> None:
    found = compiled()
    assert [table.rows[0] for table in found.tables()] == [
        ("cycles", "300", "200"),
        ("QConv", "conv", "200", "100", "2.00", "again"),
    ]
    assert found.notes()[1] == "add: not used: it must be a product"
    assert "where it is not used" in found._repr_html_()  # type: ignore[operator]
    assert repr(found) == "<CompiledVerdict on again, net on tiny: runs 1 operators>"


def test_a_table_aligns_its_columns() -> None:
    made = text_table("sizes", ["name", "kind", "n"], [("a", "long", "5")], 2)
    assert str(made) == "sizes\nname  kind  n\na     long  5"
    assert str(TextTable("", ("a",), (("10",),))) == "a\n10"
    assert "<td" in made._repr_html_()  # type: ignore[operator]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: vdla.evaluate("again.py", ["C5"], "tini"), "config: preset must be one of "),
        (lambda: vdla.evaluate("again.py", ["C5"], "tiny", part="xc7"), "part: name must be one of xc7z010, "),
        (lambda: vdla.evaluate("again.py", ["C5"], "tiny", energy="28nm"), "energy: coefficients must be one of "),
        (lambda: vdla.explore([], "tiny", {"block_in": [4]}), "explore: layers must be at least one, got none"),
        (
            lambda: vdla.explore(["C5"], "tiny", {"block_in": [4]}, energy="28nm"),
            "energy: coefficients must be one of ",
        ),
    ],
)
def test_wrong_arguments_are_refused_before_the_work(call: object, text: str) -> None:
    with pytest.raises(vdla.Error, match=f"^{text}"):
        call()  # type: ignore[operator]
