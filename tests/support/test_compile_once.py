# SPDX-License-Identifier: Apache-2.0
"""Of several processes one compiles a function; the others read it from disk."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

MODULE = """
import time
from numba import njit
from numba.core import event
from vdla.support.compile_once import compile_once

@njit(cache=True)
def total(x):
    result = 0
    for i in range(x):
        result += i * x
    return result

class Slow(event.Listener):
    def on_start(self, event):
        pass

    def on_end(self, event):
        time.sleep(1)

if {waits}:
    compile_once(total)
event.register("numba:compile", Slow())
print(total(5), sum(total.stats.cache_misses.values()))
"""


def misses(folder: Path, *, waits: bool) -> list[int]:
    """How often each of three processes that begin at once compiled the function."""
    (folder / "module.py").write_text(MODULE.format(waits=waits))
    environment = os.environ | {"XDG_CACHE_HOME": str(folder / "cache")}
    command = [sys.executable, "module.py"]
    running = [
        subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    said = [process.communicate()[0].split() for process in running]
    assert [words[0] for words in said] == ["50"] * 3
    return [int(words[1]) for words in said]


def test_one_process_compiles_and_the_others_wait(tmp_path: Path) -> None:
    assert sorted(misses(tmp_path, waits=True)) == [0, 0, 1]


def test_without_a_cache_folder_each_process_compiles(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    assert sum(misses(tmp_path, waits=True)) >= 1
