# SPDX-License-Identifier: Apache-2.0
"""The benchmark without its library."""

from __future__ import annotations

import subprocess
import sys

WITHOUT_PYSLANG = """
import sys
sys.modules["pyslang"] = None
from vdla.cli import main
sys.exit(main(["bench", "rtl_mutants"]))
"""


def test_the_missing_library_is_named() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_PYSLANG], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == 'vdla: bench rtl_mutants: pyslang must be installed, got none (pip install "vdla[rtl]")\n'
