# SPDX-License-Identifier: Apache-2.0
"""The program of a region, with what is known of its tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vdla.hardware.program import Program

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, eq=False)
class RegionProgram:
    """A program, its constants and the values of the network in its activations, by tensor, and the
    number of source lines of each node.
    """

    program: Program
    constants: Mapping[str, Array]
    activations: Mapping[str, str]
    lines: Sequence[int]
