# SPDX-License-Identifier: Apache-2.0
"""What the benchmark of boards says where a package is missing."""

from __future__ import annotations

import subprocess
import sys

WITHOUT = """
import sys

sys.modules["cryptography"] = None
import vdla
from vdla.benchmarks.board import benchmark

benchmark.require_pynq = lambda: None
try:
    benchmark.run()
except vdla.Error as error:
    print(error)
"""


def test_a_missing_package_is_named_before_anything_runs() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=False)
    wanted = 'bench board: cryptography must be installed, got none (pip install "vdla[remote]")\n'
    assert (done.stdout, done.stderr) == (wanted, "")
