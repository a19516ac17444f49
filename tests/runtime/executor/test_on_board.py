# SPDX-License-Identifier: Apache-2.0
"""A compiled network runs where neither LLVM nor ONNX nor the compiler is installed."""

import subprocess
import sys

import numpy as np
import pytest
from helpers.plans import expected, small_artifact

BLOCKER = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"numba", "llvmlite", "onnx", "ml_dtypes", "xgboost", "rich", "cocotb"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocker())
"""
SCRIPT = """
import numpy as np

import vdla

with vdla.load(sys.argv[1]) as model:
    np.save(sys.argv[3], model(np.load(sys.argv[2])))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="loads ELF objects")
def test_with_numpy_alone(tmp_path):
    small_artifact().save(tmp_path / "m.vdla")
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    np.save(tmp_path / "x.npy", x)
    arguments = [str(tmp_path / name) for name in ("m.vdla", "x.npy", "y.npy")]
    done = subprocess.run([sys.executable, "-c", BLOCKER + SCRIPT, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert np.allclose(np.load(tmp_path / "y.npy"), expected(x), atol=1e-5)
