# SPDX-License-Identifier: Apache-2.0
"""Proofs that a mutant is equivalent: Yosys shows that its module computes what the original does.

Both sides start in the same state and get the same inputs; every register and output stays equal,
by induction over up to SEQUENCE cycles. A module with parameters is proved within the modules
without parameters that use it, so that it has the parameters of the machine. RAMs are cut out: the
inputs of their ports must be equal, and their outputs take any value, equal on both sides.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from vdla.hardware.config import Config
from vdla.hardware.fpga.yosys import YosysError, run_yosys
from vdla.hardware.generate import svgen
from vdla.hardware.generate.extension_files import extension_rtl_files, machine_paths
from vdla.hardware.generate.rtl_files import EXTENSION_FOLDER, FOLDER, PACKAGE, TOP, needed_files, rtl_files
from vdla.verification.rtl_mutants.defects import Defect
from vdla.verification.rtl_mutants.model import mutated

RAM = "vdla_ram"
"""The module that proofs leave out."""
SEQUENCE = 3
MOST_SECONDS = 120.0
"""Of a proof; one that takes longer fails."""
_TOO_LARGE = {TOP, "vdla_core"}

_READ = """
read_slang --threads 1 --top {top} -D SYNTHESIS {opaque} {sources}
prep -top {top} -flatten
expose -evert t:{ram}*
memory_map
opt -full
rename {top} {side}
design -stash {side}
"""
# What changes constants alone often leaves the same cells.
_WRITE = """
read_slang --threads 1 --top {top} -D SYNTHESIS {opaque} {sources}
hierarchy -top {top}
proc
opt_clean
setattr -unset src *
setattr -mod -unset src *
write_rtlil {side}.il
"""
_PROVE = """
design -copy-from gold -as gold gold
design -copy-from gate -as gate gate
equiv_make gold gate equiv
hierarchy -top equiv
equiv_struct
equiv_simple -short
equiv_induct -seq {sequence}
equiv_status -assert
"""


def is_equivalent(config: Config, defect: Defect) -> bool:
    """Whether the machine of a configuration is proved to be the same with a defect.

    What only machines with extensions have is not proved: its users are generated.
    """
    if defect.of_extensions or not (FOLDER / f"{defect.module}.sv").exists():
        return False
    tops = proof_tops(defect.module)
    return not _TOO_LARGE & set(tops) and all(_is_equivalent(config, defect, top) for top in tops)


def proof_tops(module: str) -> list[str]:
    """The modules without parameters, closest to a module, within which its defects are proved."""
    if module.endswith("_pkg"):
        return [TOP]
    result: set[str] = set()
    pending = [module]
    while pending:
        name = pending.pop()
        if _has_parameters(name):
            pending += _users(name)
        else:
            result.add(name)
    return sorted(result)


def _has_parameters(module: str) -> bool:
    text = (FOLDER / f"{module}.sv").read_text(encoding="utf-8")
    return re.search(rf"^module {module}\b[^(;]*#\(", text, re.MULTILINE) is not None


def _users(module: str) -> Iterable[str]:
    uses = re.compile(rf"^\s*{module}\s*(#\(|\w+ \()", re.MULTILINE)
    return [path.stem for path in FOLDER.glob("*.sv") if uses.search(path.read_text(encoding="utf-8"))]


def _is_equivalent(config: Config, defect: Defect, top: str) -> bool:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / PACKAGE).write_text(svgen.render(config), encoding="utf-8")
        reads = {}
        for side in ("gold", "gate"):
            sources = _sources(config, defect if side == "gate" else None, top, folder / side)
            files = " ".join([PACKAGE, *(str(source.relative_to(folder)) for source in sources)])
            opaque = "" if defect.module == RAM else f"--blackboxed-module {RAM}"
            reads[side] = {"top": top, "sources": files, "side": side, "opaque": opaque}
        proof = "".join(_READ.format(ram=RAM, **read) for read in reads.values()) + _PROVE.format(sequence=SEQUENCE)
        try:
            for read in reads.values():
                run_yosys(folder, _WRITE.format(**read), lambda line: None, MOST_SECONDS)
            if len({(folder / f"{side}.il").read_text(encoding="utf-8") for side in reads}) > 1:
                run_yosys(folder, proof, lambda line: None, MOST_SECONDS)
        except YosysError:
            return False
    return True


def _sources(config: Config, defect: Defect | None, top: str, folder: Path) -> list[Path]:
    """The files of a machine that a module needs, written to a folder, perhaps with a defect."""
    rtl = folder / "rtl"
    (rtl / EXTENSION_FOLDER).mkdir(parents=True)
    for path in (*rtl_files(), *extension_rtl_files()):
        text = path.read_text(encoding="utf-8")
        if defect is not None and path.stem == defect.module:
            text = mutated(text, defect)
        (rtl / path.relative_to(FOLDER)).write_text(text, encoding="utf-8")
    for path in machine_paths(config, folder, rtl):
        if path.parent != folder:
            shutil.copy(path, folder)
    return needed_files(folder / f"{top}.sv", folder=folder)
