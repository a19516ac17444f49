# SPDX-License-Identifier: Apache-2.0
"""Several extensions in one verdict: each alone, and all on one machine."""

from __future__ import annotations

from pathlib import Path

import pytest

import vdla
from vdla.cli import main
from vdla.hardware.config import Config
from vdla.runtime.studies.joint_verdict import evaluate_several
from vdla.runtime.studies.layers import EvaluateError

SOURCE = """
import vdla
from vdla import te


def wide(value):
    return te.cast("int32", value)


def term(x, w):
    return {term}


def declare(config):
    inp = te.placeholder((config.batch, config.block_in), config.inp_dtype, "inp")
    wgt = te.placeholder((config.block_out, config.block_in), config.wgt_dtype, "wgt")
    i = te.reduce_axis(config.block_in, "i")
    value = lambda b, o: te.sum(term(wide(inp[b, i]), wide(wgt[o, i])), axis=i)
    output = te.compute((config.batch, config.block_out), value, "acc")
    scopes = {{"inp": "inp", "wgt": "wgt", "acc": "acc"}}
    return vdla.Extension(name="{name}", doc="Own.", output=output, scopes=scopes)


def of_{name}():
    a, b = te.placeholder((6, 8), "int8", "a"), te.placeholder((8, 8), "int8", "b")
    k = te.reduce_axis(8, "k")
    return te.compute((6, 8), lambda n, m: te.sum(term(wide(a[n, k]), wide(b[m, k])), axis=k), "layer")
"""


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr("vdla.runtime.studies.layer_cycles.user_cache", lambda kind: tmp_path / kind)
    terms = {"apart": "te.abs(x - w)", "squared": "x * x + w"}
    for name, term in terms.items():
        (tmp_path / f"{name}.py").write_text(SOURCE.format(name=name, term=term), encoding="utf-8")
    return [str(tmp_path / f"{name}.py") for name in terms]


def test_each_extension_helps_its_layer_and_both_help_both(
    sources: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    layers = [f"{source}:of_{Path(source).stem}" for source in sources]
    assert main(["evaluate", *sources, "--preset", "tiny", "--workers", "1", "--layers", *layers]) == 0
    out = capsys.readouterr().out.splitlines()
    rows = [[cell for cell in line.split("  ") if cell] for line in out if line.startswith("of_")]
    assert [[cell.strip() == "not used" for cell in row[3:]] for row in rows] == [
        [False, True, False],
        [True, False, False],
    ]
    assert out[-3:] == [
        "apart: takes fewer cycles on 1 of 2 layers",
        "squared: takes fewer cycles on 1 of 2 layers",
        "together: takes fewer cycles on 2 of 2 layers",
    ]


def test_extensions_that_no_machine_has_together_are_judged_alone(sources: list[str]) -> None:
    verdict = evaluate_several([sources[0], sources[0]], ["C12"], Config.preset("tiny"), workers=0)
    assert verdict.together is None and "apart" in verdict.reason
    assert list(verdict.to_dict()) == ["apart", "together"]


def test_one_extension_has_a_verdict_of_its_own() -> None:
    with pytest.raises(EvaluateError, match="evaluate_several: extensions must be at least two, got 1"):
        vdla.evaluate_several(["one.py"], ["C2"], Config.preset("tiny"))


def test_what_only_one_extension_can_have_is_refused(sources: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", *sources, "--html", "page.html"]) == 2
    assert capsys.readouterr().err.endswith(
        "evaluate: --html must be left out with several extensions, got page.html\n"
    )
