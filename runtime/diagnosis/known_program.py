# SPDX-License-Identifier: Apache-2.0
"""Programs with the results that a working device gives, in one file for a board.

A board has no simulator: the wheel for boards brings these files, a machine each. Needs NumPy only.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.hardware.program import Program
from vdla.simulator.stats import RunStats

Array = npt.NDArray[Any]
_PROGRAM, _INPUT, _OUTPUT = "program", "input", "output"


@dataclass(frozen=True, slots=True)
class KnownProgram:
    """A program, what it shows to work, its packed inputs, and its results.

    `statistics` are those of the simulator, where it ran here.
    """

    name: str
    program: Program
    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]
    statistics: RunStats | None = None


def known_bytes(programs: Iterable[KnownProgram]) -> bytes:
    """The content of a file of programs; the same programs give the same bytes."""
    arrays: dict[str, Array] = {}
    for known in programs:
        arrays[f"{known.name}/{_PROGRAM}/"] = np.frombuffer(known.program.to_bytes(), np.uint8)
        for kind, values in ((_INPUT, known.inputs), (_OUTPUT, known.outputs)):
            arrays |= {f"{known.name}/{kind}/{name}": array for name, array in values.items()}
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)  # type: ignore[arg-type]
    return content.getvalue()


def read_known(path: str | PathLike[str]) -> list[KnownProgram]:
    """The programs in a file, in their order."""
    result: dict[str, KnownProgram] = {}
    with np.load(path, allow_pickle=False) as file:
        for key in file.files:
            name, kind, tensor = key.split("/", 2)
            if kind == _PROGRAM:
                result[name] = KnownProgram(name, Program.from_bytes(file[key].tobytes(), f"{path}: {name}"), {}, {})
            else:
                values = result[name].inputs if kind == _INPUT else result[name].outputs
                assert isinstance(values, dict)
                values[tensor] = file[key]
    return list(result.values())
