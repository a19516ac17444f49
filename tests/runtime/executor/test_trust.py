# SPDX-License-Identifier: Apache-2.0
"""Files whose hash a user trusts are loaded without a second verification, and no others."""

from __future__ import annotations

import hashlib
import importlib
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.plans import small_artifact
from helpers.small_programs import small_gemm

import vdla
from vdla.commands.on_board import main
from vdla.hardware.config import Config
from vdla.hardware.program import Program, ProgramError
from vdla.runtime.devices.run import run
from vdla.runtime.executor.errors import ArtifactError

verifier = importlib.import_module("vdla.simulator.verify.verify")


@pytest.fixture
def verified(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of programs that are verified; none is remembered from before."""
    names: list[str] = []
    verify = verifier.verify

    def noted(program: Program, config: Config | None = None) -> object:
        names.append(program.name)
        return verify(program, config)

    monkeypatch.setattr(verifier, "_VERIFIED", OrderedDict())
    monkeypatch.setattr(verifier, "verify", noted)
    return names


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A program, and a network that has it."""
    folder = tmp_path_factory.mktemp("trust")
    program, _, _ = small_gemm(Config.preset("tiny"))
    program.save(folder / "p.vdla")
    replace(small_artifact(), programs=(program,)).save(folder / "m.vdla")
    return {"program": folder / "p.vdla", "network": folder / "m.vdla"}


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_trusted_network_is_not_verified(files: dict[str, Path], verified: list[str]) -> None:
    vdla.load(files["network"], trust=sha256(files["network"]).upper())
    assert verified == []


def test_without_trust_it_is(files: dict[str, Path], verified: list[str]) -> None:
    vdla.load(files["network"])
    assert len(verified) == 1


def test_a_trusted_program_runs_without_verification(files: dict[str, Path], verified: list[str]) -> None:
    program = vdla.load(files["program"], trust=sha256(files["program"]))
    _, inputs, out = small_gemm(Config.preset("tiny"))
    assert (run(program, inputs, "sim").outputs["out"] == out).all()
    assert verified == []


def test_other_bytes_are_refused(files: dict[str, Path], verified: list[str]) -> None:
    for (kind, path), error in zip(files.items(), (ProgramError, ArtifactError), strict=True):
        other = sha256(files["network" if kind == "program" else "program"])
        with pytest.raises(error) as refused:
            vdla.load(path, trust=other)
        assert str(refused.value) == f"{path}: SHA-256 must be the trusted {other[:12]}, got {sha256(path)[:12]}"
        for wrong in ("", "12ab", "g" * 64, 7):
            with pytest.raises(error) as refused:
                vdla.load(path, trust=wrong)
            assert str(refused.value) == (f"{path}: trust must be a SHA-256 of 64 hexadecimal digits, got {wrong!r}")
    assert verified == []


def test_the_command_says_what_differs(files: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    path = files["network"]
    assert main(["run", str(path), "--random-inputs", "0", "--trust", "0" * 64]) == 2
    expected = f"vdla_board: {path}: SHA-256 must be the trusted 000000000000, got {sha256(path)[:12]}\n"
    assert capsys.readouterr().err == expected
