# SPDX-License-Identifier: Apache-2.0
"""Extensions that a configuration names and a package brings, by entry points."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from vdla.compiler.extensions import extend
from vdla.hardware import extensions
from vdla.hardware.config import Config, ConfigError

MISSING = "must be loaded, with vdla.load_extension or --extension FILE"
SAD = Path(__file__).parents[2] / "examples" / "sad" / "sad.py"


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A configuration as files have it, of an extension that is not loaded."""
    made = extend(Config.preset("tiny"), SAD).to_dict()
    monkeypatch.setattr(extensions, "_LOADED", {})
    return made


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, module: str, entry: str, text: str) -> None:
    """A package with an entry point, which can be imported."""
    (folder / f"{module}.py").write_text(text)
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{extensions.ENTRY_POINTS}]\n{entry} = {module}:declare\n")
    monkeypatch.syspath_prepend(folder)


@pytest.mark.parametrize("entry", ["sad", "matching"])
def test_an_installed_extension_is_loaded_by_its_entry_point(
    entry: str, named: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entry point has the name of the instruction, or another one."""
    install(tmp_path, monkeypatch, f"installed_{entry}", entry, SAD.read_text())
    config = Config.from_dict(named)
    assert [f"{part.name}#{part.digest}" for part in config.extensions] == named["extensions"]
    assert config.extensions[0].place.startswith(str(tmp_path))


def test_another_version_is_not_used(named: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, "installed_later", "sad", SAD.read_text().replace("latency=3", "latency=4"))
    (label,) = named["extensions"]
    rule = f"extension {label} {MISSING}; extension sad must have digest {label.partition('#')[2]}, got "
    with pytest.raises(ConfigError, match=rule):
        Config.from_dict(named)


def test_an_entry_point_that_fails_is_named(
    named: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, "installed_broken", "sad", "import nothing_of_this_name\n")
    rule = r"extension sad: entry point installed_broken:declare must load, got ModuleNotFoundError: No module named"
    with pytest.raises(ConfigError, match=rule):
        Config.from_dict(named)


def test_without_the_compiler_an_extension_must_be_loaded(
    named: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a board, which has no compiler to read declarations."""

    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    install(tmp_path, monkeypatch, "installed_unread", "sad", SAD.read_text())
    monkeypatch.setattr(extensions, "import_module", missing)
    with pytest.raises(ConfigError, match=f"{MISSING}; none is loaded$"):
        Config.from_dict(named)
