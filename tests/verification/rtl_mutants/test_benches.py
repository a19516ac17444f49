# SPDX-License-Identifier: Apache-2.0
"""The tests of the modules find defects that are planted in a copy of the RTL."""

from __future__ import annotations

import pytest

pytest.importorskip("pyslang")

from vdla.hardware.config import Config
from vdla.hardware.generate.rtl_files import FOLDER, rtl_files
from vdla.verification.rtl_mutants.benches import BENCHES, TESTS, bench_findings
from vdla.verification.rtl_mutants.defects import defects
from vdla.verification.rtl_mutants.design import read_design

TINY = Config.preset("tiny")


def test_every_module_has_tests() -> None:
    constants = {"vdla_types_pkg", "vdla_regs_pkg", "vdla_ext_pkg"}
    assert set(BENCHES) == {path.stem for path in rtl_files()} - constants
    assert all((TESTS / "rtl" / f"{name}.py").exists() for benches in BENCHES.values() for name in benches.files)
    proofs = {path.stem for path in (FOLDER.parent / "formal").glob("*.sv")}
    assert {benches.proof for benches in BENCHES.values()} - {""} == proofs


@pytest.mark.rtl
@pytest.mark.long
def test_a_bench_finds_one_defect_and_a_proof_another() -> None:
    files = read_design(TINY)
    lane = next(file for file in files if file.module == "vdla_requantise_lane")
    every = {(defect.kind, defect.before, defect.after): defect for defect in defects(lane)}
    rounds = every["swap", "digits > digit_t'(n)", "(digit_t'(n)) > (digits)"]
    sticks = every["operator", "|(coarse_q[2:0] & ~(3'b111 << rest_q))", "&((coarse_q[2:0] & ~(3'b111 << rest_q)))"]
    found = dict(bench_findings(files, lane.module, [rounds, sticks]))
    assert found[rounds].startswith("test_arithmetic.py::test_the_requantiser_lane_passes_its_bench")
    assert found[sticks].startswith("test_formal.py::test_a_harness_is_proved_by_induction")
