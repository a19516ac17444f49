# SPDX-License-Identifier: Apache-2.0
"""Proofs of the RTL by temporal induction, with the solver of Yosys.

A harness of hardware/formal assumes the contract of its module's users and asserts the module's.
The outcome depends on script, sources and the version of Yosys only, so it is cached.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from vdla.hardware.config import PRESETS, Buffer, Config
from vdla.hardware.fpga.yosys import YosysError, run_yosys, yosys_version
from vdla.hardware.generate import svgen
from vdla.hardware.generate.rtl_files import FOLDER, PACKAGE, needed_files
from vdla.hardware.isa import Opcode, layout
from vdla.support.cache import build_once, user_cache

FORMAL = FOLDER.parent / "formal"
TINY = "tiny"
FAILED = "proof did fail"
"""How Yosys says that it refutes a proof."""
PROVED = "Induction step proven: SUCCESS!"

SCRIPT = """
read_slang --threads 1 --top {top} -D SYNTHESIS {parameters} {sources}
prep -top {top} -flatten
memory_map
async2sync
chformal -lower
opt_clean
sat -tempinduct -prove-asserts -set-assumes -seq 1 -verify -maxsteps 10 {top}
"""


@dataclass(frozen=True, slots=True)
class InductionProof:
    """A harness with parameters, for the package of a preset."""

    top: str
    parameters: Mapping[str, int] = field(default_factory=dict)
    preset: str = TINY

    def __str__(self) -> str:
        values = [f"{name}={value}" for name, value in self.parameters.items()]
        return " ".join([self.top, *values, f"on {self.preset}"])


def write_sources(proof: InductionProof, folder: Path, rtl: Path = FOLDER) -> None:
    """Writes the sources of a proof to a folder, modules from `rtl`."""
    for path in needed_files(FORMAL / f"{proof.top}.sv", folder=rtl):
        shutil.copy(path, folder)
    (folder / PACKAGE).write_text(svgen.render(Config.preset(proof.preset)), encoding="utf-8")


def prove(proof: InductionProof, folder: Path, rtl: Path = FOLDER) -> str:
    """What Yosys says of a proof with the sources of a folder; YosysError if it refutes it."""
    options = " ".join(f"-G {name}={value}" for name, value in proof.parameters.items())
    names = [PACKAGE, *(path.name for path in needed_files(FORMAL / f"{proof.top}.sv", folder=rtl))]
    script = SCRIPT.format(top=proof.top, parameters=options, sources=" ".join(names))
    inputs = [yosys_version(), script, *((folder / name).read_text(encoding="utf-8") for name in names)]
    key = hashlib.sha256("\0".join(inputs).encode()).hexdigest()[:24]
    path = build_once(user_cache("proofs") / f"{proof.top}-{key}", lambda empty: _outcome(folder, script, empty))
    said = path.read_text(encoding="utf-8")
    if said.startswith(FAILED):
        raise YosysError(said)
    return said


def _outcome(folder: Path, script: str, empty: Path) -> Path:
    """A file with what Yosys says of a proof, or FAILED and its error if it refutes it."""
    said: list[str] = []
    try:
        run_yosys(folder, script, said.append)
    except YosysError as error:
        if FAILED not in str(error):
            raise
        said = [f"{FAILED}: {error}"]
    path = empty / "said"
    path.write_text("\n".join(said), encoding="utf-8")
    return path


# --- which proofs ---------------------------------------------------------------------------------


def entry_shifts(config: Config) -> list[int]:
    """The parameter MaxShift of the burst cutters of load, compute and store."""
    beats = [nbytes // config.axi_bytes for nbytes in (max(config.entry_bytes), config.out_entry_bytes)]
    return sorted({beat.bit_length() - 1 for beat in beats})


def of_tiny() -> list[InductionProof]:
    """A proof of every harness for the preset `tiny`, of queues and units for other sizes too."""
    return [
        *(InductionProof("vdla_fifo_proof", {"Depth": depth}) for depth in (1, 2, 3, 5)),
        *(InductionProof("vdla_command_queue_proof", {"Depth": depth}) for depth in (1, 3, 4)),
        *(InductionProof("vdla_counter_queue_proof", {"Depth": depth}) for depth in (8, 11)),
        *(InductionProof("vdla_unit_control_proof", {"InFlight": limit, "Depth": 9}) for limit in (4, 5, 8)),
        InductionProof("vdla_slice_proof"),
        InductionProof("vdla_read_arbiter_proof"),
        *(InductionProof("vdla_requantise_lane_proof", {"MultBit": bit}) for bit in (0, 23)),
        *(
            InductionProof("vdla_burst_cutter_proof", {"MaxShift": shift})
            for shift in entry_shifts(Config.preset(TINY))
        ),
        InductionProof("vdla_pad_walker_proof"),
        InductionProof("vdla_store_proof"),
        InductionProof("vdla_load_engine_proof"),
    ]


def of_presets() -> list[InductionProof]:
    """A proof for each other set of parameters that the presets give a module that is proved.

    What does not depend on the configuration, as the unit control and the arbiter of one port, is
    not among them.
    """
    proofs: dict[Hashable, InductionProof] = {}
    for name, config in {TINY: PRESETS[TINY], **PRESETS}.items():
        for key, proof in _of_preset(name, config):
            proofs.setdefault((proof.top, *key), proof)
    return [proof for proof in proofs.values() if proof.preset != TINY]


def _of_preset(name: str, config: Config) -> Iterator[tuple[Iterable[int], InductionProof]]:
    """Each proof with what it depends on of the configuration."""
    width = {slot.field.name: slot.width for slot in layout(config)[Opcode.LOAD]}
    size, sram, port = width["x_size"], width["sram"], (config.axi_bytes, config.burst_beats)
    beats = [config.entry_bytes[buffer] // config.axi_bytes for buffer in Buffer]
    yield (size, sram), InductionProof("vdla_pad_walker_proof", preset=name)
    for shift in entry_shifts(config):
        yield (size, *port, shift), InductionProof("vdla_burst_cutter_proof", {"MaxShift": shift}, name)
    yield (size, *port, config.axi_ports, beats[Buffer.OUT]), InductionProof("vdla_store_proof", preset=name)
    yield (size, sram, *port, config.inp_bits, *beats), InductionProof("vdla_load_engine_proof", preset=name)
    yield (config.token_depth,), InductionProof("vdla_counter_queue_proof", {"Depth": config.token_depth}, name)
    yield (config.command_depth,), InductionProof("vdla_command_queue_proof", {"Depth": config.command_depth}, name)
    yield (config.out_bits,), InductionProof("vdla_requantise_lane_proof", {"MultBit": 23}, name)
