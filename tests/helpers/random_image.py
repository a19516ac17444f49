# SPDX-License-Identifier: Apache-2.0
"""A linked program and a DRAM image of random tensors, for tests below the level of `simulate`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vdla.hardware.isa import columns
from vdla.hardware.program import Program
from vdla.simulator.simulate import dram_image
from vdla.verification.programs.random_data import random_arrays


def random_image(program: Program, seed: int) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """The linked columns of the program, and the DRAM image that they address."""
    linked, dram = dram_image(program, random_arrays(program, seed))
    return columns(program.config, linked), dram
