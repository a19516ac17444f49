# SPDX-License-Identifier: Apache-2.0
"""A program that is debugged, with what it is run on; a network has several, one behind another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from vdla.hardware.program import Program
from vdla.support.arrays import Array, Ints


@dataclass(frozen=True, slots=True, eq=False)
class ProgramRun:
    """A program with the arrays of its inputs; of a network, the name of its region and its layers.

    `layer_of` has the number of the layer of each instruction, -1 for those of none.
    """

    region: str | None
    program: Program
    inputs: Mapping[str, Array]
    layers: tuple[str, ...]
    layer_of: Ints

    @staticmethod
    def alone(program: Program, inputs: Mapping[str, Array]) -> ProgramRun:
        """The run of a program that belongs to no network."""
        return ProgramRun(None, program, dict(inputs), (), np.full(len(program), -1))
