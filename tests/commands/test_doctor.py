"""`vdla doctor` where something is missing: what it says, and its exit code."""

from __future__ import annotations

import importlib.metadata
from typing import NoReturn

import pytest

from vdla.cli import main
from vdla.commands import FINDING, OK, doctor_command
from vdla.commands.finding import Finding

Capture = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch


@pytest.fixture(autouse=True)
def quick(monkeypatch: Patch) -> None:
    """Without the self-test and the machine."""
    monkeypatch.setattr(doctor_command, "_machine", list)
    monkeypatch.setattr("vdla.commands.self_test.self_test", list)
    monkeypatch.setenv("COLUMNS", "200")


def lines(capsys: Capture) -> list[str]:
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def test_a_requirement_that_is_missing_is_a_finding(monkeypatch: Patch, capsys: Capture) -> None:
    version = importlib.metadata.version

    def without_rich(name: str) -> str:
        if name == "rich":
            raise importlib.metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(importlib.metadata, "version", without_rich)
    assert main(["doctor"]) == FINDING
    assert "rich missing pip install rich" in lines(capsys)


def test_an_extra_that_is_missing_is_none(monkeypatch: Patch, capsys: Capture) -> None:
    requirements = ["numpy>=1.26", 'nowhere>=2; extra == "gpu"', 'numpy; extra == "dev"']
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: requirements)
    assert main(["doctor"]) == OK
    said = lines(capsys)
    assert 'gpu missing nowhere pip install "vdla[gpu]"' in said
    assert "dev complete: numpy" in said


def test_sources_that_are_not_installed_are_a_finding(monkeypatch: Patch, capsys: Capture) -> None:
    def nothing(name: str) -> NoReturn:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "requires", nothing)
    monkeypatch.setattr(importlib.metadata, "metadata", nothing)
    assert main(["doctor"]) == FINDING
    assert "vdla not installed pip install -e . in the folder of the sources" in lines(capsys)


def test_what_the_self_test_finds_is_the_exit_code(monkeypatch: Patch) -> None:
    monkeypatch.setattr("vdla.commands.self_test.self_test", lambda: [Finding("convolution", "wrong", False)])
    assert main(["doctor"]) == FINDING
