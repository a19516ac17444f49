# SPDX-License-Identifier: Apache-2.0
"""A Python without Numba and LLVM, as WebAssembly has it: a process that takes itself for one."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_PRELUDE = """
import sys

ABSENT = {"numba", "llvmlite", "ml_dtypes", "onnx", "rich", "packaging", "argcomplete", "fcntl"}

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ABSENT:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.platform = "wasi"
sys.meta_path.insert(0, Blocker())
for name in ABSENT & set(sys.modules):
    del sys.modules[name]
sys.path.insert(0, sys.argv.pop(1))
"""


def run_plain(script: str, *arguments: object) -> str:
    """The output of a script in such a process, which may import `helpers`."""
    command = [sys.executable, "-c", _PRELUDE + script, str(ROOT / "tests"), *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout
