# SPDX-License-Identifier: Apache-2.0
"""`vdla networks` writes models that ONNX Runtime loads, and refuses what it cannot write."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from vdla.cli import main
from vdla.commands import BAD_INPUT, OK
from vdla.networks.registry import KNOWN, NETWORKS

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_model_is_written_under_its_name(folder: Path, capsys: Capture) -> None:
    assert main(["networks", "deep_q_network", "--small", "--seed", "7", "--batch", "3"]) == OK
    said = "deep_q_network.onnx: small variant of deep Q network, 15,534 parameters\n"
    assert capsys.readouterr().out == said
    chosen = NETWORKS["deep_q_network"]
    assert onnx.load(folder / "deep_q_network.onnx") == chosen.build(batch=3, seed=7, **chosen.small)


def test_the_list_shows_small_variants(capsys: Capture) -> None:
    assert main(["networks", "--small"]) == OK
    networks, decoders = capsys.readouterr().out.split("\n\n")
    rows = [line.split() for table in (networks, decoders) for line in table.splitlines()[2:]]
    assert [row[0] for row in rows] == list(KNOWN)
    assert ["15,534", "255,744"] in [row[-2:] for row in rows]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("deep_q_network --batch 0", "networks: --batch must be a positive number or a name, got 0"),
        ("deep_q_network --batch 1.5", "networks: --batch must be a positive number or a name, got 1.5"),
        ("deep_q_network -o absent/x.onnx", "networks: folder of --output must exist, got absent"),
    ],
)
def test_wrong_arguments_are_refused(words: str, message: str, folder: Path, capsys: Capture) -> None:
    assert main(["networks", *words.split()]) == BAD_INPUT
    assert capsys.readouterr().err == f"vdla: {message}\n"
    assert list(folder.iterdir()) == []


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr("vdla.commands.networks_command.find_spec", lambda name: None)
    assert main(["networks"]) == BAD_INPUT
    assert capsys.readouterr().err == "vdla: networks: onnx must be installed, got none (pip install onnx)\n"
