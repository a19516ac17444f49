# SPDX-License-Identifier: Apache-2.0
"""The tests and proofs of the modules, run on the defects that the whole machine does not show.

The tests of a repository's `tests/hardware` build one copy of the RTL with all defects of a module,
and each run activates one of them; a proof reads a copy with a single defect.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from vdla.verification.rtl_mutants.defects import Defect
from vdla.verification.rtl_mutants.design import DesignError, SourceFile
from vdla.verification.rtl_mutants.machines import ARGUMENT_VARIABLE, FOLDER_VARIABLE
from vdla.verification.rtl_mutants.model import PLUSARG, write_guarded, write_mutated

ROOT = Path(__file__).resolve().parent.parent.parent
TESTS = ROOT / "tests" / "hardware"
MOST_SECONDS = 300.0
"""Of the tests of a module; what takes longer hangs."""
LATE = f"the tests take more than {MOST_SECONDS:g} s"


@dataclass(frozen=True, slots=True)
class Benches:
    """The test files of a module, those of its tests that pytest's -k chooses, and the harness of
    its proof.
    """

    files: tuple[str, ...]
    keyword: str = "tiny"
    proof: str = ""


_OF_MODULES: Mapping[Benches, str] = {
    Benches(("test_machine",), proof="vdla_proof"): "vdla vdla_core",
    Benches(("test_compute",)): (
        "vdla_accumulator vdla_accumulator_lane vdla_accumulator_load vdla_compute vdla_copy vdla_inp_buffer "
        "vdla_pipeline vdla_uop_buffer vdla_wgt_buffer"
    ),
    Benches(("test_gemm_core",), "clock and (tiny or block_in_2 or int4) or latency and (tiny or int4)"): (
        "vdla_adder_tree vdla_gemm_core vdla_gemm_double vdla_gemm_pkg vdla_gemm_single vdla_gemm_start vdla_gemm_sum "
        "vdla_mac vdla_mac_double"
    ),
    Benches(("test_emit",), "tiny or odd"): (
        "vdla_delay vdla_emit vdla_out_buffer vdla_requantise vdla_scl_buffer vdla_select"
    ),
    Benches(("test_arithmetic",), "alu"): "vdla_alu vdla_product",
    Benches(("test_arithmetic", "test_compute"), "alu or compute and tiny"): "vdla_compute_pkg",
    Benches(("test_arithmetic",), "requantiser", "vdla_requantise_lane_proof"): "vdla_requantise_lane",
    Benches(("test_axil",), "bench"): "vdla_axil",
    Benches(("test_beat_placer", "test_load"), "tiny or odd"): "vdla_beat_placer",
    Benches(("test_burst_cutter",), "tiny or odd", "vdla_burst_cutter_proof"): "vdla_burst_cutter",
    Benches(("test_check",), "tiny or full"): "vdla_check",
    Benches(("test_control",), "bench", "vdla_proof"): "vdla_control",
    Benches(("test_counters",), "bench"): "vdla_counters",
    Benches(("test_fetch",), proof="vdla_fetch_proof"): "vdla_fetch",
    Benches(("test_leaves",), "bench"): "vdla_ram",
    Benches(("test_leaves",), "bench", "vdla_command_queue_proof"): "vdla_command_queue",
    Benches(("test_leaves",), "bench", "vdla_counter_queue_proof"): "vdla_counter_queue",
    Benches(("test_leaves",), "bench", "vdla_fifo_proof"): "vdla_fifo",
    Benches(("test_load",)): "vdla_load",
    Benches(("test_load",), proof="vdla_load_engine_proof"): "vdla_load_engine",
    Benches(("test_pad_walker",), "tiny or odd", "vdla_pad_walker_proof"): "vdla_pad_walker",
    Benches(("test_read_arbiter",), "bench", "vdla_read_arbiter_proof"): "vdla_burst_limit vdla_read_arbiter",
    Benches(("test_read_arbiter",), "bench", "vdla_slice_proof"): "vdla_slice",
    Benches(("test_read_monitor",), "bench"): "vdla_read_monitor",
    Benches(("test_read_ports",), "bench", "vdla_read_port_proof"): "vdla_read_port",
    Benches(("test_read_ports",), "bench", "vdla_read_ports_proof"): "vdla_read_ports",
    Benches(("test_register_file",), "bench"): "vdla_registers",
    Benches(("test_sequencer",)): "vdla_index vdla_sequencer",
    Benches(("test_store",), "tiny or batch4", "vdla_store_proof"): "vdla_store vdla_store_engine",
    Benches(("test_unit_control",), "bench", "vdla_unit_control_proof"): "vdla_unit_control",
}
BENCHES: Mapping[str, Benches] = {name: benches for benches, names in _OF_MODULES.items() for name in names.split()}
"""The tests and proofs of each module."""


def available() -> bool:
    """Whether there are tests beside the package: in a repository, not in a wheel."""
    return TESTS.is_dir()


def bench_findings(files: Sequence[SourceFile], module: str, chosen: Sequence[Defect]) -> Iterator[tuple[Defect, str]]:
    """The first failed test of each defect of one module, or an empty string."""
    benches = BENCHES[module]
    tests = [*(str(TESTS / "rtl" / f"{name}.py") for name in benches.files), "-k", benches.keyword]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_guarded(files, dict(enumerate(chosen, 1)), folder)
        passes = False
        for number, defect in enumerate(chosen, 1):
            failure = _failure(tests, folder, number)
            if failure and not passes:  # what finds something must find nothing in the original
                if original := _failure(tests, folder, 0):
                    raise DesignError(f"rtl_mutants: the tests of {module} must pass without a defect, got {original}")
                passes = True
            yield defect, failure or _refutation(files, benches.proof, defect)


def _refutation(files: Sequence[SourceFile], harness: str, defect: Defect) -> str:
    """What the proof of a harness says against a defect."""
    if not harness:
        return ""
    tests = [str(TESTS / "formal" / "test_formal.py"), "-k", f"test_a_harness_is_proved and {harness}"]
    with tempfile.TemporaryDirectory() as name:
        write_mutated(files, defect, Path(name))
        return _failure(tests, Path(name))


def _failure(tests: Sequence[str], folder: Path, number: int | None = None) -> str:
    """The first test that fails on the RTL of a folder; empty if all pass."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--long", "--no-header", "-p", "no:cacheprovider", *tests]
    environment = os.environ | {FOLDER_VARIABLE: str(folder), "VDLA_ALL_SEEDS": "1"}
    if number is not None:
        environment[ARGUMENT_VARIABLE] = f"+{PLUSARG}={number}"
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=MOST_SECONDS
        )
    except subprocess.TimeoutExpired:
        return LATE
    if done.returncode not in (0, 1):
        raise DesignError(f"rtl_mutants: the tests must run, got exit code {done.returncode}: {done.stdout[-500:]}")
    match = re.search(r"^FAILED \S*/(\S+)", done.stdout, re.MULTILINE)
    return "" if done.returncode == 0 else match[1] if match else "a test fails"
