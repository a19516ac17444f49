# SPDX-License-Identifier: Apache-2.0
"""Proofs of the RTL by temporal induction, with the solver of Yosys.

A harness of hardware/formal assumes the contract of its module's users and asserts the module's.
The outcome depends on script, sources and the version of Yosys only, so it is cached.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from vdla.hardware.config import PRESETS, Buffer, Config
from vdla.hardware.fpga.yosys import YosysError, run_yosys, yosys_version
from vdla.hardware.generate import svgen
from vdla.hardware.generate.rtl_files import FOLDER, PACKAGE, TOP, needed_files
from vdla.hardware.isa import Opcode, layout
from vdla.support.cache import build_once, user_cache
from vdla.verification.programs.random_machines import FOUR_PORTS, TWO_PORTS

FORMAL = FOLDER.parent / "formal"
TINY = "tiny"
MACHINES: Mapping[str, Config] = {**PRESETS, **{machine.name: machine for machine in (TWO_PORTS, FOUR_PORTS)}}
"""What proofs are for, by name: the presets, and machines with as many ports as there may be."""
FAILED = "proof did fail"
"""How Yosys says that it refutes a proof."""
_FREE = """\
hierarchy -top {top}
proc
cutpoint -blackbox
setundef -undriven -anyseq
"""
"""Signals that nothing drives take any value in each cycle."""
PROVED = "Induction step proven: SUCCESS!"

ABSTRACT = FORMAL / "abstract"
"""Modules by what is proved of them, in place of the real ones in proofs of their users."""

SCRIPT = """
read_slang --threads 1 --top {top} -D SYNTHESIS {options} {sources}
{free}prep -top {top} -flatten
{cut}memory_map
async2sync
chformal -lower
opt_clean
sat -tempinduct -prove-asserts -set-assumes -seq 1 -verify -maxsteps 10 {top}
"""

_OPAQUE: Mapping[str, tuple[str, ...]] = {
    "vdla_fetch_proof": ("vdla_check", "vdla_read_monitor"),
    "vdla_proof": (
        *("vdla_axil", "vdla_registers", "vdla_counters", "vdla_fetch", "vdla_load", "vdla_compute", "vdla_store"),
        "vdla_counter_queue",
    ),
}
"""Modules whose outputs take any value in a proof."""
_CUTS: Mapping[str, tuple[str, ...]] = {
    "vdla_requantise_lane_proof": ("u_lane.low_product_q", "u_lane.high_product_q"),
}
"""Registers that take any value in a proof, as far as its harness does not restrict them."""
_ABSTRACT: Mapping[str, tuple[str, ...]] = {
    "vdla_read_port_proof": ("vdla_fifo",),
    "vdla_read_ports_proof": ("vdla_fifo", "vdla_read_port"),
    "vdla_proof": ("vdla_fifo", "vdla_read_port"),
}


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
    for path in _files(proof, rtl):
        shutil.copy(ABSTRACT / path.name if path.stem in _abstract(proof.top) else path, folder)
    machine = MACHINES[proof.preset]
    if proof.top in _OPAQUE:  # no array, whose primitives at twice the clock are those of a vendor
        machine = replace(machine, array_rate=1)
    (folder / PACKAGE).write_text(svgen.render(machine), encoding="utf-8")


def prove(proof: InductionProof, folder: Path, rtl: Path = FOLDER) -> str:
    """What Yosys says of a proof with the sources of a folder; YosysError if it refutes it."""
    names = [PACKAGE, *(path.name for path in _files(proof, rtl))]
    script = _script(proof, names)
    inputs = [yosys_version(), script, *((folder / name).read_text(encoding="utf-8") for name in names)]
    key = hashlib.sha256("\0".join(inputs).encode()).hexdigest()[:24]
    path = build_once(user_cache("proofs") / f"{proof.top}-{key}", lambda empty: _outcome(folder, script, empty))
    said = path.read_text(encoding="utf-8")
    if said.startswith(FAILED):
        raise YosysError(said)
    return said


def _script(proof: InductionProof, names: Iterable[str]) -> str:
    """What Yosys does with the files of a proof."""
    parameters = [f"-G {name}={value}" for name, value in proof.parameters.items()]
    opaque = _OPAQUE.get(proof.top, ())
    cut = _CUTS.get(proof.top, ()) if proof.parameters.get("Cut", 1) else ()
    return SCRIPT.format(
        top=proof.top,
        options=" ".join([*parameters, *(f"--blackboxed-module {name}" for name in opaque)]),
        sources=" ".join(names),
        free=_FREE.format(top=proof.top) if opaque or _abstract(proof.top) else "",
        cut="".join(f"cutpoint w:{name}\n" for name in cut),
    )


def _files(proof: InductionProof, rtl: Path) -> list[Path]:
    """The harness and the modules that it needs; the name of the machine is a word of its own."""
    roots = [FORMAL / f"{proof.top}.sv", *([rtl / f"{TOP}.sv"] if proof.top == f"{TOP}_proof" else [])]
    return needed_files(*roots, folder=rtl)


def _abstract(top: str) -> tuple[str, ...]:
    """The modules in whose place a proof has abstract ones."""
    return _ABSTRACT.get(top, ())


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

PORT_PROOFS = ("vdla_read_port_proof", "vdla_read_ports_proof")
"""Of machines with several read ports."""


def entry_shifts(config: Config) -> list[int]:
    """The parameter MaxShift of the burst cutters of load, compute and store."""
    beats = [nbytes // config.axi_bytes for nbytes in (max(config.entry_bytes), config.out_entry_bytes)]
    return sorted({beat.bit_length() - 1 for beat in beats})


def of_tiny() -> list[InductionProof]:
    """A proof of every harness for the preset `tiny`, of queues and units for other sizes too, of
    several read ports for the least machine that has them.
    """
    return [
        *(InductionProof("vdla_fifo_proof", {"Depth": depth}) for depth in (1, 2, 3, 5)),
        *(InductionProof("vdla_command_queue_proof", {"Depth": depth}) for depth in (1, 3, 4)),
        *(InductionProof("vdla_counter_queue_proof", {"Depth": depth}) for depth in (8, 11)),
        *(InductionProof("vdla_unit_control_proof", {"InFlight": limit, "Depth": 9}) for limit in (4, 5, 8)),
        InductionProof("vdla_slice_proof"),
        InductionProof("vdla_read_arbiter_proof"),
        *(InductionProof("vdla_requantise_lane_proof", {"Cut": cut}) for cut in (0, 1)),
        *(
            InductionProof("vdla_burst_cutter_proof", {"MaxShift": shift})
            for shift in entry_shifts(Config.preset(TINY))
        ),
        InductionProof("vdla_pad_walker_proof"),
        InductionProof("vdla_store_proof"),
        InductionProof("vdla_load_engine_proof"),
        InductionProof("vdla_fetch_proof"),
        *(InductionProof(top, preset=TWO_PORTS.name) for top in PORT_PROOFS),
        InductionProof("vdla_proof"),
    ]


def of_presets() -> list[InductionProof]:
    """A proof for each other set of parameters that the presets give a module that is proved, and
    those of the ports for a machine with four.

    What does not depend on the configuration, as the unit control and the arbiter of one port, is
    not among them.
    """
    proofs: dict[Hashable, InductionProof] = {}
    first = (TINY, TWO_PORTS.name)
    for name in (*first, *PRESETS):
        for key, proof in _of_preset(name, MACHINES[name]):
            proofs.setdefault((proof.top, *key), proof)
    others = [proof for proof in proofs.values() if proof.preset not in first]
    return [*others, *(InductionProof(top, preset=FOUR_PORTS.name) for top in (*PORT_PROOFS, "vdla_proof"))]


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
    yield (config.out_bits,), InductionProof("vdla_requantise_lane_proof", {"Cut": 1}, name)
    yield (*port, config.axi_ports), InductionProof("vdla_fetch_proof", preset=name)
    yield (*port, config.axi_ports), InductionProof("vdla_proof", preset=name)
    if config.axi_ports > 1:
        for top in PORT_PROOFS:
            yield (*port, config.axi_ports), InductionProof(top, preset=name)
