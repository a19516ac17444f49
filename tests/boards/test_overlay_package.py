# SPDX-License-Identifier: Apache-2.0
"""The wheel of a bitstream: what is in it, its version, and its installation without a network."""

from __future__ import annotations

import json
import zipfile
from configparser import ConfigParser
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.numpy_alone import install, numpy_alone, run

from vdla.boards.board import BoardError, load_board
from vdla.boards.on_board_wheel import build_wheel
from vdla.boards.overlay_files import write_overlay
from vdla.boards.overlay_package import OverlayPackage
from vdla.commands.on_board import selftest_command
from vdla.runtime.diagnosis.check_programs import simulated_programs
from vdla.runtime.diagnosis.known_program import known_bytes
from vdla.support.version import VERSION

Z2 = load_board("pynq_z2")
CONFIG = Z2.config()
ASKED = """
import sys
from pathlib import Path

from vdla.commands.on_board.device_choice import bitstreams, machine_in
from vdla.runtime.devices.overlay import find_bitstream

(bitstream,) = bitstreams()
config = machine_in(bitstream)
assert find_bitstream("device pynq", config, None) == bitstream.resolve()
print(config.name, config.fingerprint, bitstream.read_bytes() == Path(sys.argv[1]).read_bytes())
"""


@pytest.fixture
def package(tmp_path: Path) -> OverlayPackage:
    """The package of a PYNQ-Z2, with an example that is none."""
    path = write_overlay(Z2, CONFIG, tmp_path / "built")
    return OverlayPackage(
        board=Z2,
        config=CONFIG,
        build="0123456789ab",
        bitstream=path.read_bytes(),
        handoff=path.with_suffix(".hwh").read_bytes(),
        examples={"dense.vdla": b"program"},
        programs=b"programs",
    )


def test_pynq_finds_bitstreams_and_notebooks_by_entry_points(package: OverlayPackage, tmp_path: Path) -> None:
    path = package.write(tmp_path / "dist")
    stem = path.name.removesuffix("-py3-none-any.whl")
    with zipfile.ZipFile(path) as archive:
        names, read = archive.namelist(), {name: archive.read(name) for name in archive.namelist()}
    assert set(names) == {
        *(f"vdla_pynq_z2/{name}" for name in ("__init__.py", "LICENSE", "README.md")),
        *(f"vdla_pynq_z2/pynq_z2/pynq_z2.{suffix}" for suffix in ("bit", "hwh", "json")),
        f"vdla_pynq_z2/pynq_z2/{CONFIG.fingerprint}.npz",
        *(f"vdla_pynq_z2/notebooks/{name}.ipynb" for name in ("1_selftest", "2_program", "3_network")),
        *(f"vdla_pynq_z2/notebooks/{name}" for name in ("__init__.py", "dense.vdla", "machine.json")),
        *(f"{stem}.dist-info/{name}" for name in ("METADATA", "WHEEL", "entry_points.txt", "RECORD")),
        f"{stem}.dist-info/licenses/LICENSE",
    }  # fmt: skip
    entries = ConfigParser()
    entries.read_string(read[f"{stem}.dist-info/entry_points.txt"].decode())
    assert dict(entries["pynq.overlays"]) == {"vdla_pynq_z2": "vdla_pynq_z2"}
    assert dict(entries["pynq.notebooks"]) == {"vdla_pynq_z2": "vdla_pynq_z2.notebooks"}
    machine = json.loads(read["vdla_pynq_z2/pynq_z2/pynq_z2.json"])
    assert (machine["name"], machine["fingerprint"]) == ("pynq_z2", CONFIG.fingerprint)
    metadata = read[f"{stem}.dist-info/METADATA"].decode()
    assert f"Requires-Dist: vdla-board=={VERSION}\n" in metadata
    assert "(xc7z020clg400-1) at 100 MHz" in metadata and "build 0123456789ab" in metadata


def test_other_bytes_have_another_version(package: OverlayPackage, tmp_path: Path) -> None:
    first, again = (package.write(tmp_path / name) for name in "ab")
    assert first.name == again.name and first.read_bytes() == again.read_bytes()
    assert first.name.startswith(f"vdla_pynq_z2-{VERSION}+bit")
    other = replace(package, bitstream=package.bitstream + b"\0").write(tmp_path)
    assert other.name != first.name


@pytest.mark.parametrize("name", ["my machine", "board", "größe"])
def test_names_that_cannot_be_imported(name: str, package: OverlayPackage) -> None:
    with pytest.raises(BoardError) as error:
        replace(package, config=replace(CONFIG, name=name))
    assert str(error.value) == (
        "board package: name of the machine must be letters, digits and underscores, and not board, got "
        f"{name!r}; rename it in the file of --config"
    )


@pytest.mark.slow
def test_the_wheels_install_without_a_network_and_replace_older_ones(package: OverlayPackage, tmp_path: Path) -> None:
    python = numpy_alone(tmp_path / "venv")
    board = build_wheel(tmp_path / "dist")
    (tmp_path / "first.bit").write_bytes(package.bitstream)
    install(python, board, package.write(tmp_path / "dist"))
    asked = ("-W", "error", "-c", ASKED)
    assert run(python, *asked, tmp_path / "first.bit", cwd=tmp_path) == f"pynq_z2 {CONFIG.fingerprint} True\n"
    run(python, "-m", "pip", "check", "--disable-pip-version-check", cwd=tmp_path)
    rebuilt = replace(package, bitstream=package.bitstream + b"\0")
    (tmp_path / "second.bit").write_bytes(rebuilt.bitstream)
    install(python, board, rebuilt.write(tmp_path / "again"))
    assert run(python, *asked, tmp_path / "second.bit", cwd=tmp_path).split()[-1] == "True"
    listed = run(python, "-m", "vdla_board", "info", cwd=tmp_path).splitlines()[-1].split()
    assert listed[0].endswith("/vdla_pynq_z2/pynq_z2/pynq_z2.bit") and listed[1:3] == ["pynq_z2", CONFIG.fingerprint]


def test_the_package_brings_the_programs_of_the_self_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selftest_command, "installed_bitstreams", lambda: [tmp_path / "pynq_z2.bit"])
    assert selftest_command.known_programs(CONFIG) == []
    (tmp_path / f"{CONFIG.fingerprint}.npz").write_bytes(known_bytes(simulated_programs(CONFIG)))
    assert [known.name for known in selftest_command.known_programs(CONFIG)][:2] == ["tokens", "loads with padding"]
