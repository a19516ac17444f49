# SPDX-License-Identifier: Apache-2.0
"""`vdla pack` and `vdla unpack`: plain arrays to a program's and back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from vdla import Config, templates
from vdla.cli import main
from vdla.commands import BAD_INPUT, OK

Capture = pytest.CaptureFixture[str]
RNG = np.random.default_rng(3)
DATA = RNG.integers(-128, 128, (3, 18, 5, 6), np.int8)
WEIGHT = RNG.integers(-128, 128, (7, 18, 3, 3), np.int8)


@pytest.fixture(scope="module", params=["tiny", "batch4"])
def operator(request: pytest.FixtureRequest) -> templates.Operator:
    shape = {"batch": 3, "height": 5, "width": 6, "in_channels": 18, "out_channels": 7, "kernel": 3, "pads": 1}
    return templates.conv2d(Config.preset(request.param), **shape)


@pytest.fixture
def folder(operator: templates.Operator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    operator.program.save("conv.vdla")
    np.save("x.npy", DATA)
    np.save("w.npy", WEIGHT)
    return tmp_path


def test_packed_arrays_are_those_of_the_template(operator: templates.Operator, folder: Path) -> None:
    assert main(["pack", "conv.vdla", "--input", "data=x.npy", "weight=w.npy", "-o", "packed"]) == OK
    wanted = operator.pack(DATA, WEIGHT, np.zeros(7, np.int32), np.full(7, 0.01))
    for name in ("data", "weight"):
        assert np.array_equal(np.load(folder / "packed" / f"{name}.npy"), wanted[name].reshape(-1).reshape(
            operator.program.tensor(name).shape))  # fmt: skip


def test_unpacking_gives_the_plain_array_back(operator: templates.Operator, folder: Path) -> None:
    result = operator.program.tensor("output")
    packed = RNG.integers(-128, 128, result.shape, np.int8)
    np.save("y.npy", packed)
    words = ["unpack", "conv.vdla", "--input", "output=y.npy", "--shape", "output=3x7x5x6", "-o", "plain"]
    assert main(words) == OK
    assert np.array_equal(np.load(folder / "plain" / "output.npy"), operator.unpack({"output": packed}))


@pytest.mark.parametrize(("words", "message"), [
    ("pack conv.vdla --input data=w.npy", "pack: N, C, H, W of data must be blocks of "),
    ("pack conv.vdla --input dat=x.npy", "program conv2d: tensor must be one of "),
    ("unpack conv.vdla --input output=x.npy", "unpack: output must be ["),
    ("unpack conv.vdla --input output=x.npy --shape out=1x2", "unpack: --shape must name one of output, got out"),
    ("unpack conv.vdla --input output=x.npy --shape output=1xa", "unpack: --shape: output must be an integer, got 'a'"),
])  # fmt: skip
def test_wrong_arrays(words: str, message: str, folder: Path, capsys: Capture) -> None:
    assert main(words.split()) == BAD_INPUT
    assert capsys.readouterr().err.startswith(f"vdla: {message}")
