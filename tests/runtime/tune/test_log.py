# SPDX-License-Identifier: Apache-2.0
"""Logs: whole lines or none, one writer, versions; exact texts of refusals."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from helpers.toy_tuning import toy_run

from vdla.runtime.tune.log import PointFeatures, TuningLog, read_logs
from vdla.runtime.tune.trial import Trial, TuningError

OK = Trial({"a": 1, "b": 2}, 125.0, "cycles", seconds=0.5)
FAILED = Trial.failed({"a": 3, "b": 2}, "cycles", "no")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "log.jsonl"
    with TuningLog(file) as log:
        log.append(toy_run(), OK)
        log.append(toy_run(1), FAILED)
    return file


def test_a_log_gives_back_what_was_appended(path: Path) -> None:
    found = read_logs(path).of_key(toy_run().key)
    assert [entry.trial for entry in found] == [OK, FAILED]
    assert [entry.run for entry in found] == [toy_run(), toy_run(1)]
    assert math.isinf(found[1].trial.cost) and not found[1].trial.ok


def test_features_come_back(tmp_path: Path) -> None:
    features = PointFeatures.of(("x", "y"), np.array([1.5, -2.25], np.float32))
    with TuningLog(tmp_path / "log.jsonl") as log:
        log.append(toy_run(), OK, features)
    (entry,) = read_logs(tmp_path).of_key(toy_run().key)
    assert entry.features == features and entry.features.row.tolist() == [1.5, -2.25]
    assert features.names != PointFeatures.of(("y", "x"), features.row).names


def test_a_line_says_where_and_with_what_it_was_measured(path: Path) -> None:
    values = json.loads(path.read_text().splitlines()[0])
    assert set(values["versions"]) == {"python", "vdla", "numpy", "llvmlite"}
    assert {"host", "key", "name", "machine", "space", "search", "seed", "version"} <= set(values)


def test_a_torn_last_line_is_left_out_and_cut_off_by_the_next_writer(path: Path) -> None:
    whole = path.read_bytes()
    torn = whole.splitlines(keepends=True)[1]
    for length in (1, len(torn) // 2, len(torn) - 1):
        path.write_bytes(whole + torn[:length])
        assert len(read_logs(path)) == 2
        with TuningLog(path) as log:
            assert len(log.index) == 2
        assert path.read_bytes() == whole


def test_a_torn_line_alone_is_an_empty_log(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"version":')
    with TuningLog(path) as log:
        log.append(toy_run(), OK)
    assert len(read_logs(path)) == 1


def test_a_log_of_another_version_is_refused_and_left_alone(path: Path) -> None:
    path.write_text(path.read_text().replace('"version":1', '"version":2') + "torn")
    before = path.read_bytes()
    message = f"{path}: line 1: version of the log must be 1, got 2 (made by another vdla)"
    for use in (TuningLog, read_logs):
        with pytest.raises(TuningError) as raised:
            use(path)
        assert str(raised.value) == message
    assert path.read_bytes() == before


@pytest.mark.parametrize("line", ["not JSON", "[]", "3", '{"version":1}', '{"version":1,"point":[]}', "[" * 100_000])
def test_what_is_no_log_is_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(TuningError) as raised:
        read_logs(path)
    got = repr(line) if len(line) <= 40 else f"{line[:40]!r} and more"
    assert str(raised.value) == f"{path}: line 1 must be a trial in JSON, got {got}"


def test_one_run_at_a_time_writes_to_a_log(path: Path) -> None:
    with TuningLog(path), pytest.raises(TuningError) as raised:
        TuningLog(path)
    assert str(raised.value) == f"{path}: log must be free, got one that another run writes to"
    TuningLog(path).close()


def test_folders_and_files_are_read_together(path: Path, tmp_path: Path) -> None:
    (tmp_path / "second.jsonl").write_bytes(path.read_bytes())
    (tmp_path / "notes.txt").write_text("no log")
    assert len(read_logs(tmp_path)) == 4
    assert len(read_logs(tmp_path, path)) == 6


def test_paths_that_cannot_be_used(tmp_path: Path) -> None:
    absent = tmp_path / "absent"
    with pytest.raises(TuningError) as raised:
        read_logs(absent)
    assert str(raised.value) == f"{absent}: no such file"
    with pytest.raises(TuningError) as raised:
        TuningLog(absent / "log.jsonl")
    assert str(raised.value) == (
        f"{absent / 'log.jsonl'}: log must be a writable file, got No such file or directory; "
        "name a file in an existing, writable folder"
    )
