"""The tests and proofs of the modules, run on the defects that the whole machine does not show.

The tests of a repository's `tests/hardware` build one copy of the RTL with all defects of a module,
of which a run activates one; a proof reads a copy with one.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from vdla.verification.rtl_mutants.defects import Defect
from vdla.verification.rtl_mutants.design import DesignError, SourceFile
from vdla.verification.rtl_mutants.environment import ARGUMENT_VARIABLE, FOLDER_VARIABLE
from vdla.verification.rtl_mutants.guarded import PLUSARG, write_guarded, write_mutated

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


_WHOLE = Benches(("test_machine",))
_COMPUTE = Benches(("test_compute",))
_EMIT = Benches(("test_emit",), "tiny or odd")
_LEAVES = Benches(("test_leaves",), "bench")
_STORE = Benches(("test_store",), "tiny or batch4")
_PORTS = Benches(("test_read_ports",), "bench")
_GEMM = Benches(("test_gemm_core",), "clock and (tiny or block_in_2 or int4) or latency and (tiny or int4)")
BENCHES: Mapping[str, Benches] = {
    "vdla": _WHOLE,
    "vdla_accumulator": _COMPUTE,
    "vdla_accumulator_lane": _COMPUTE,
    "vdla_accumulator_load": _COMPUTE,
    "vdla_adder_tree": _GEMM,
    "vdla_alu": Benches(("test_arithmetic",), "alu"),
    "vdla_axil": Benches(("test_axil",), "bench"),
    "vdla_beat_placer": Benches(("test_beat_placer", "test_load"), "tiny or odd"),
    "vdla_burst_cutter": Benches(("test_burst_cutter",), "tiny or odd"),
    "vdla_burst_limit": Benches(("test_read_arbiter",), "bench", "vdla_read_arbiter_proof"),
    "vdla_check": Benches(("test_check",), "tiny or full"),
    "vdla_command_queue": replace(_LEAVES, proof="vdla_command_queue_proof"),
    "vdla_compute": _COMPUTE,
    "vdla_compute_pkg": Benches(("test_arithmetic", "test_compute"), "alu or compute and tiny"),
    "vdla_control": Benches(("test_control",), "bench"),
    "vdla_copy": _COMPUTE,
    "vdla_core": _WHOLE,
    "vdla_counter_queue": replace(_LEAVES, proof="vdla_counter_queue_proof"),
    "vdla_counters": Benches(("test_counters",), "bench"),
    "vdla_delay": _EMIT,
    "vdla_emit": _EMIT,
    "vdla_fetch": Benches(("test_fetch",)),
    "vdla_fifo": replace(_LEAVES, proof="vdla_fifo_proof"),
    "vdla_gemm_core": _GEMM,
    "vdla_gemm_double": _GEMM,
    "vdla_gemm_pkg": _GEMM,
    "vdla_gemm_single": _GEMM,
    "vdla_gemm_start": _GEMM,
    "vdla_gemm_sum": _GEMM,
    "vdla_index": Benches(("test_sequencer",)),
    "vdla_inp_buffer": _COMPUTE,
    "vdla_load": Benches(("test_load",)),
    "vdla_load_engine": Benches(("test_load",)),
    "vdla_mac": _GEMM,
    "vdla_mac_double": _GEMM,
    "vdla_out_buffer": _EMIT,
    "vdla_pad_walker": Benches(("test_pad_walker",), "tiny or odd"),
    "vdla_pipeline": _COMPUTE,
    "vdla_product": Benches(("test_arithmetic",), "alu"),
    "vdla_ram": _LEAVES,
    "vdla_read_arbiter": Benches(("test_read_arbiter",), "bench", "vdla_read_arbiter_proof"),
    "vdla_read_monitor": Benches(("test_read_monitor",), "bench"),
    "vdla_read_port": _PORTS,
    "vdla_read_ports": _PORTS,
    "vdla_registers": Benches(("test_register_file",), "bench"),
    "vdla_requantise": _EMIT,
    "vdla_requantise_lane": Benches(("test_arithmetic",), "requantiser", "vdla_requantise_lane_proof"),
    "vdla_scl_buffer": _EMIT,
    "vdla_select": _EMIT,
    "vdla_sequencer": Benches(("test_sequencer",)),
    "vdla_slice": Benches(("test_read_arbiter",), "bench", "vdla_slice_proof"),
    "vdla_store": _STORE,
    "vdla_store_engine": _STORE,
    "vdla_unit_control": Benches(("test_unit_control",), "bench", "vdla_unit_control_proof"),
    "vdla_uop_buffer": _COMPUTE,
    "vdla_wgt_buffer": _COMPUTE,
}


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
        if found := _failure(tests, folder, 0):
            raise DesignError(f"rtl_mutants: the tests of {module} must pass without a defect, got {found}")
        for number, defect in enumerate(chosen, 1):
            yield defect, _failure(tests, folder, number) or _refutation(files, benches.proof, defect)


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
    environment = os.environ | {FOLDER_VARIABLE: str(folder)}
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
    found = re.search(r"^FAILED \S*/(\S+)", done.stdout, re.MULTILINE)
    return "" if done.returncode == 0 else found[1] if found else "a test fails"
