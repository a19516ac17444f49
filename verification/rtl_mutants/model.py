# SPDX-License-Identifier: Apache-2.0
"""RTL with many defects, each selected at run time by its number; with 0 it is the original.

    (vdla_mutant_pkg::active == 7 ? (a - b) : (a + b))

The number is read once, when the simulation starts, from the argument +vdla_mutant=7.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from vdla.hardware.config import Config
from vdla.hardware.generate.build_hash import build_hash
from vdla.runtime.devices.rtl import RtlModel
from vdla.runtime.devices.rtl_build import BuildOptions, build_library
from vdla.verification.rtl_mutants.defects import Defect
from vdla.verification.rtl_mutants.design import SourceFile

SELECTOR = "vdla_mutant_pkg"
PLUSARG = "vdla_mutant"

SELECTOR_TEXT = f"""\
// The number of the active defect, 0 for none.

package {SELECTOR};
  function automatic int unsigned chosen();
    int unsigned number;
    if (!$value$plusargs("{PLUSARG}=%d", number)) number = 0;
    return number;
  endfunction

  int unsigned active = chosen();
endpackage
"""


def write_guarded(files: Iterable[SourceFile], numbered: Mapping[int, Defect], folder: Path) -> None:
    """Writes all files with the defects behind their numbers, and the package of the selector."""
    (folder / f"{SELECTOR}.sv").write_text(SELECTOR_TEXT, encoding="utf-8")
    for file in files:
        mine = {number: defect for number, defect in numbered.items() if defect.module == file.module}
        _write(folder / file.place, guarded(file.text, mine))


def write_mutated(files: Iterable[SourceFile], defect: Defect, folder: Path) -> None:
    """Writes all files, with one defect in place of the original."""
    for file in files:
        _write(folder / file.place, mutated(file.text, defect) if file.module == defect.module else file.text)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")


def mutated(text: str, defect: Defect) -> str:
    """The text of a file with one defect in place of the original."""
    begin, end = defect.span
    after = defect.after if defect.is_statement else f"({defect.after})"
    return text[:begin] + after + text[end:]


def guarded(text: str, numbered: Mapping[int, Defect]) -> str:
    """The text of a file with each defect behind its number."""
    # Outer places first; of two defects of one place, the first is the outer.
    order = sorted(numbered.items(), key=lambda item: (item[1].span[0], -item[1].span[1]))
    return _guarded(text, (0, len(text)), order)


def _guarded(text: str, place: tuple[int, int], order: Sequence[tuple[int, Defect]]) -> str:
    """The text of a place with the defects within it, which are in order."""
    begin, end = place
    parts = []
    rest = list(order)
    while rest:
        number, defect = rest[0]
        first, last = defect.span
        within = [item for item in rest[1:] if item[1].span[1] <= last]
        parts += [text[begin:first], _selected(number, defect, _guarded(text, defect.span, within))]
        begin, rest = last, rest[1 + len(within) :]
    return "".join(parts) + text[begin:end]


def _selected(number: int, defect: Defect, original: str) -> str:
    condition = f"{SELECTOR}::active == {number}"
    if defect.is_statement:
        return f"begin if ({condition}) {defect.after} else {original} end"
    return f"({condition} ? ({defect.after}) : ({original}))"


# --- model ----------------------------------------------------------------------------------------
# A model of the machine with many defects; each run activates one.


ORIGINAL = 0
"""The number of no defect."""


@dataclass(frozen=True, slots=True)
class MutantModel:
    """The library of a machine, the build that it shows, and its defects by number."""

    config: Config
    library: Path
    build: str
    defects: Mapping[int, Defect]

    def activated(self, number: int) -> RtlModel:
        """The model with one defect, or the original one."""
        return RtlModel(self.library, f"+{PLUSARG}={number}", self.build)


def build_model(config: Config, files: Sequence[SourceFile], chosen: Sequence[Defect]) -> MutantModel:
    """The model of a machine with the chosen defects; assertions are compiled in."""
    numbered = dict(enumerate(chosen, ORIGINAL + 1))
    with tempfile.TemporaryDirectory() as folder:
        write_guarded(files, numbered, Path(folder))
        library = build_library(config, BuildOptions(assertions=True, rtl=Path(folder)))
        build = build_hash(config, Path(folder))
    return MutantModel(config, library, build, numbered)
