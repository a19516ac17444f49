# SPDX-License-Identifier: Apache-2.0
"""The simulator's dot products on processors with other units, by the features given to Numba."""

import os
import platform
import subprocess
import sys

import pytest

SCRIPT = """
import numpy as np
from helpers.random_image import random_image
from vdla.hardware.config import Config
from vdla.simulator.function import Engine, dot_unit, token_order
from vdla.verification.programs.random_programs import random_draft

for batch, block_in, block_out in [(1, 16, 16), (2, 4, 32)]:
    config = Config(batch=batch, block_in=block_in, block_out=block_out, inp_kib=4, wgt_kib=16, acc_kib=8, out_kib=4)
    for seed in range(4):
        draft = random_draft(config, seed, 40, longest=24)
        columns, dram = random_image(draft.program(draft.needed_tokens), seed)
        engines = [Engine(config, columns, dram.copy(), portable) for portable in (False, True)]
        for engine in engines:
            engine.run(token_order(columns))
        fast, scalar = (engine.buffers for engine in engines)
        assert fast.tiled and not scalar.tiled
        for name in ("dram", "acc", "out"):
            assert np.array_equal(getattr(fast, name), getattr(scalar, name)), (name, seed)
print(dot_unit.UNIT)
"""


@pytest.mark.sampled
@pytest.mark.long
@pytest.mark.skipif(platform.machine() != "x86_64", reason="names features of x86-64")
@pytest.mark.parametrize(
    ("features", "unit"), [("+sse2", "16-bit products"), ("+sse2,+ssse3,+sse4.2,+avx,+avx2", "AVX2")]
)
def test_programs_have_equal_results_without_the_unit_of_this_processor(features, unit):
    environment = {
        **os.environ,
        "NUMBA_CPU_NAME": "generic",
        "NUMBA_CPU_FEATURES": features,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    environment.pop("VDLA_PORTABLE", None)
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment, check=False)
    assert done.stdout.strip() == unit, done.stderr
