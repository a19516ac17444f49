# SPDX-License-Identifier: Apache-2.0
"""The build of the playground where npm fails; what Python answers, outside a browser."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from vdla.playground import build
from vdla.playground.build import PlaygroundError, build_playground
from vdla.playground.session import answer


def test_a_missing_npm_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PlaygroundError, match=r"^playground: npm must be installed, got none \(apt-get install npm\)$"):
        build_playground(tmp_path / "playground")
    assert not (tmp_path / "playground").exists()


def test_a_failure_of_npm_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    npm = tmp_path / "npm"
    npm.write_text("#!/bin/sh\necho 'npm error network'\nexit 1\n", encoding="utf-8")
    npm.chmod(npm.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(build.shutil, "which", lambda name: str(npm))
    with pytest.raises(PlaygroundError) as error:
        build_playground(tmp_path / "playground")
    assert str(error.value) == "playground: npm ci must work, got npm error network; it needs a network once"


def test_packages_have_exact_versions_and_hashes() -> None:
    wanted = json.loads((build._BROWSER / "package.json").read_text(encoding="utf-8"))
    locked = json.loads((build._BROWSER / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    for name, version in {**wanted["dependencies"], **wanted["devDependencies"]}.items():
        assert locked[f"node_modules/{name}"]["version"] == version
    for name, package in locked.items():
        if name:
            assert package["integrity"].startswith("sha512-"), name


def test_an_answer_is_a_file_of_json(tmp_path: Path) -> None:
    request, reply = tmp_path / "request.json", tmp_path / "reply.json"
    request.write_text(json.dumps({"kind": "check", "name": "tiling", "text": "def tile():\n    return 4, 16\n"}))
    answer(str(request), str(reply))
    text = (
        "tiling: solved in 13780 cycles (limit 14000, the best known); "
        "verified, right on 5 sets of data, proven for all inputs"
    )
    assert json.loads(reply.read_text()) == {"text": text, "solved": True, "cycles": 13780}
