"""A model of the machine with many defects in it, of which a run activates one."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from vdla.hardware.config import Config
from vdla.hardware.generate.build_hash import build_hash
from vdla.runtime.devices.rtl import RtlModel
from vdla.runtime.devices.rtl_build import BuildOptions, build_library
from vdla.verification.rtl_mutants.defects import Defect
from vdla.verification.rtl_mutants.design import SourceFile
from vdla.verification.rtl_mutants.guarded import PLUSARG, write_guarded

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
