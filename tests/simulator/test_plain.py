# SPDX-License-Identifier: Apache-2.0
"""Where there is no Numba, as in a browser, programs have the same results and the same cycles."""

import hashlib
import json

import pytest
from helpers.extensions import sad
from helpers.plain_process import run_plain
from helpers.random_image import random_image

import vdla
from vdla.hardware.config import Config
from vdla.simulator.function import execute
from vdla.simulator.timing import time_program
from vdla.verification.programs.random_programs import random_verified_program

# Prints DRAM, hashed, and when instructions start and end, for every program of a folder.
SCRIPT = """
import hashlib
import json
from pathlib import Path

import vdla
from helpers.extensions import sad
from helpers.random_image import random_image
from vdla.hardware.config import Config
from vdla.hardware.program import load
from vdla.simulator.function import execute
from vdla.simulator.timing import time_program

vdla.extend(Config.preset("tiny"), sad)
results = {}
for path in sorted(Path(sys.argv[1]).glob("*.vdla")):
    program = load(path)
    columns, dram = random_image(program, int(path.stem))
    execute(program.config, columns, dram)
    stats = time_program(program)
    digest = hashlib.sha256(dram.tobytes()).hexdigest()
    results[path.stem] = [digest, stats.total_cycles, stats.starts.tolist(), stats.ends.tolist()]
print(json.dumps(results))
"""


def machine(name):
    return vdla.extend(Config.preset("tiny"), sad) if name == "extended" else Config.preset(name)


@pytest.mark.parametrize("name", ["pynq_z1", "tiny", "int4", "batch4", "extended"])
def test_random_programs_have_the_results_and_the_cycles_of_compiled_code(name, tmp_path):
    programs = {seed: random_verified_program(machine(name), seed, 20) for seed in range(3)}
    for seed, program in programs.items():
        program.save(tmp_path / f"{seed}.vdla")
    plain = json.loads(run_plain(SCRIPT, tmp_path))
    for seed, program in programs.items():
        columns, dram = random_image(program, seed)
        execute(program.config, columns, dram)
        stats = time_program(program)
        digest = hashlib.sha256(dram.tobytes()).hexdigest()
        wanted = [digest, stats.total_cycles, stats.starts.tolist(), stats.ends.tolist()]
        assert plain[str(seed)] == wanted, seed
