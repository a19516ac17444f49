# SPDX-License-Identifier: Apache-2.0
"""`vdla doctor` with missing requirements: its output and exit code."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from helpers.stub_cuda import StubCuda
from packaging import markers

from vdla.cli import main
from vdla.commands import FINDING, OK, console, doctor_command
from vdla.commands.doctor_command import DoctorFinding

Capture = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch


@pytest.fixture(autouse=True)
def quick(monkeypatch: Patch) -> Iterator[None]:
    """Skips the self-test and the description of the machine; widens the lines."""
    console.output.cache_clear()
    monkeypatch.setattr(doctor_command, "_machine", list)
    monkeypatch.setattr("vdla.commands.doctor_command.self_test", list)
    monkeypatch.setenv("COLUMNS", "400")
    yield
    console.output.cache_clear()


def lines(capsys: Capture) -> list[str]:
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("case", ["only", "other", "none", "module"])
def test_doctor_names_the_command_that_runs(case: str, tmp_path: Path, monkeypatch: Patch, capsys: Capture) -> None:
    own, other = tmp_path / "own" / "vdla", tmp_path / "other" / "vdla"
    for script in (own, other) if case != "module" else (other,):
        script.parent.mkdir()
        script.touch(mode=0o755)
    (tmp_path / "own").mkdir(exist_ok=True)
    (tmp_path / "own" / "activate").touch()
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path / "own"))
    path = {"only": own.parent, "other": other.parent, "none": tmp_path, "module": tmp_path}[case]
    monkeypatch.setenv("PATH", str(path))
    monkeypatch.setattr(doctor_command, "_tools", list)
    monkeypatch.chdir(tmp_path)
    main(["doctor"])
    expected = {
        "only": f"command {own}",
        "other": f"command {own} PATH has another one first: {other}",
        "none": f"command {own} not on PATH: source own/activate",
        "module": "command python -m vdla not installed as vdla: pip install -e .",
    }
    assert expected[case] in lines(capsys)


def test_a_requirement_that_is_missing_is_a_finding(monkeypatch: Patch, capsys: Capture) -> None:
    version = importlib.metadata.version

    def without_rich(name: str) -> str:
        if name == "rich":
            raise importlib.metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(importlib.metadata, "version", without_rich)
    assert main(["doctor"]) == FINDING
    assert "rich missing pip install rich" in lines(capsys)


def test_a_missing_extra_is_not_a_finding(monkeypatch: Patch, capsys: Capture) -> None:
    requirements = ["numpy>=1.26", 'nowhere>=2; extra == "opencl"', 'numpy; extra == "dev"']
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: requirements)
    assert main(["doctor"]) == OK
    said = lines(capsys)
    assert 'opencl missing nowhere pip install "vdla[opencl]"' in said
    assert "dev complete: numpy" in said


REQUIREMENTS = [
    "numpy>=1.26",
    "nowhere-a>=2; python_version < '3.10'",
    "tomli>=2; python_version < '3.11' and extra == 'remote'",
    'nowhere-b; sys_platform == "linux" and platform_machine == "x86_64" and extra == "opencl"',
    "nowhere-c; (sys_platform == 'none' or implementation_name == 'none') and extra == 'opencl'",
    "nowhere-d[full]!=3,>=2; extra == 'tune' or extra == 'ray'",
    "nowhere-e ; 'linux' not in sys_platform and extra == 'ray'",
    "rich; platform_system != 'Darwin' and extra == 'tune'",
    "nowhere-f; extra != 'tune' and extra == 'none'",
]
ENVIRONMENTS = {
    "3.10": (["nowhere-b"], ["tomli"], ["nowhere-d", "rich"]),
    "3.11": (["nowhere-b"], [], ["nowhere-d", "rich"]),
    "3.14": (["nowhere-b"], [], ["nowhere-d", "rich"]),
}


@pytest.mark.parametrize("python", ENVIRONMENTS)
def test_a_requirement_of_another_python_or_machine_is_not_needed(python: str, monkeypatch: Patch) -> None:
    own = {**markers.default_environment(), "python_version": python, "sys_platform": "linux"}
    own |= {"platform_machine": "x86_64", "platform_system": "Linux"}
    monkeypatch.setattr(markers, "default_environment", lambda: own)
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: REQUIREMENTS)
    needed = tuple(doctor_command._requirements(extra) for extra in ("opencl", "remote", "tune"))
    assert needed == ENVIRONMENTS[python]
    assert doctor_command._requirements("ray") == ["nowhere-d"]
    assert doctor_command._requirements("") == ["numpy"]
    monkeypatch.setattr(doctor_command, "_version", lambda name: None)
    remote = doctor_command._extra("remote").state
    assert remote == ("missing tomli" if python == "3.10" else "needs nothing here")


def test_without_packaging_the_doctor_says_so(monkeypatch: Patch, capsys: Capture) -> None:
    version = importlib.metadata.version

    def without_packaging(name: str) -> str:
        if name == "packaging":
            raise importlib.metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setitem(sys.modules, "packaging.requirements", None)
    monkeypatch.setattr(importlib.metadata, "version", without_packaging)
    assert main(["doctor"]) == FINDING
    assert "packaging missing pip install packaging" in lines(capsys)


def test_sources_that_are_not_installed_are_a_finding(monkeypatch: Patch, capsys: Capture) -> None:
    def nothing(name: str) -> NoReturn:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "requires", nothing)
    monkeypatch.setattr(importlib.metadata, "metadata", nothing)
    assert main(["doctor"]) == FINDING
    assert "vdla not installed pip install -e . in the folder of the sources" in lines(capsys)


def test_a_finding_of_the_self_test_sets_the_exit_code(monkeypatch: Patch) -> None:
    monkeypatch.setattr(
        "vdla.commands.doctor_command.self_test", lambda: [DoctorFinding("convolution", "wrong", False)]
    )
    assert main(["doctor"]) == FINDING


def test_cuda_devices_are_listed(stub_cuda: StubCuda) -> None:
    stub_cuda.set_devices(2)
    assert [f"{found.what}: {found.state}" for found in doctor_command._cuda()] == [
        "cuda device: Stub GPU 0, compute capability 8.6, driver for CUDA 12.4",
        "cuda device: Stub GPU 1, compute capability 8.6, driver for CUDA 12.4",
    ]


def test_a_machine_without_cuda_is_told_what_is_missing(stub_cuda: StubCuda) -> None:
    stub_cuda.set_devices(0)
    (found,) = doctor_command._cuda()
    assert (found.state, found.healthy) == ("none", True)
    assert found.advice == "the machine must have a device, got none"
