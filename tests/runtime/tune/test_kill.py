# SPDX-License-Identifier: Apache-2.0
"""A run that is killed loses no trial that its log has, and measures none of them again."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from helpers.toy_tuning import ToyMeasurer, toy_run, whole_toy_run

from vdla.runtime.tune.log import read_logs

_RUN = (
    "import sys; sys.path[:] = {path!r}; from helpers.toy_tuning import ToyMeasurer, whole_toy_run; "
    "whole_toy_run({log!r}, ToyMeasurer(busy_s=0.005))"
)


def test_a_killed_run_goes_on(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    process = subprocess.Popen([sys.executable, "-c", _RUN.format(path=sys.path, log=str(log))])
    try:
        while not log.exists() or log.read_bytes().count(b"\n") < 20:
            assert process.poll() is None
            time.sleep(0.005)
    finally:
        process.kill()
        process.wait()
    kept = [entry.trial.point for entry in read_logs(log).of_key(toy_run().key)]
    measured = whole_toy_run(log, ToyMeasurer())
    assert 20 <= len(kept) < 256
    assert Counter(map(str, [*kept, *measured])).most_common(1)[0][1] == 1
    assert len(kept) + len(measured) == 256 == len(read_logs(log))
