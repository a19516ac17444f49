# SPDX-License-Identifier: Apache-2.0
"""Where there is no Numba, as in a browser, programs have the same results and the same cycles."""

import json

import pytest
from helpers.executed import executed
from helpers.extensions import sad
from helpers.plain_process import run_plain

import vdla
from vdla.hardware.config import Config
from vdla.verification.programs.random_programs import random_verified_program

# Prints what `executed` says of every program of a folder.
SCRIPT = """
import json
from pathlib import Path

import vdla
from helpers.executed import executed
from helpers.extensions import sad
from vdla.hardware.config import Config
from vdla.hardware.program import load

vdla.extend(Config.preset("tiny"), sad)
paths = sorted(Path(sys.argv[1]).glob("*.vdla"))
print(json.dumps({path.stem: executed(load(path), int(path.stem)) for path in paths}))
"""


def machine(name):
    return vdla.extend(Config.preset("tiny"), sad) if name == "extended" else Config.preset(name)


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["pynq_z1", "tiny", "int4", "batch4", "extended"])
def test_random_programs_have_the_results_and_the_cycles_of_compiled_code(name, tmp_path):
    programs = {seed: random_verified_program(machine(name), seed, 20) for seed in range(3)}
    for seed, program in programs.items():
        program.save(tmp_path / f"{seed}.vdla")
    plain = json.loads(run_plain(SCRIPT, tmp_path))
    assert plain == {str(seed): executed(program, seed) for seed, program in programs.items()}
