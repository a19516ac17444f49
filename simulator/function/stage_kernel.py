"""The kernel of a stage on the way out: requantised entries of the output buffer, in place.

An instruction writes requantised entries, then the stage replaces each. Its states stay as they are
during the instruction, so it does not matter that results go through it after the last step.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from vdla.hardware.isa import COL, PlugInStage
from vdla.simulator.function import kernels
from vdla.simulator.function.kernel_file import compiled
from vdla.support.arrays import Ints

_HEADER = '''"""The kernel of a stage, generated; see simulator/function/stage_kernel.py."""

import numpy as np

from vdla.simulator.function.extension_arithmetic import (
    divide, pack_entry, remainder, shift_left, shift_right, unpack_entry,
)
from vdla.simulator.support.jit import entry_point, helper


@helper
'''

_LOOP = """

@entry_point
def run(entries, out, bits{states}):
    new = np.zeros(8 * out.shape[1] // bits, np.int8)
    value = np.zeros(len(new), np.int8)
    for k in range(len(entries)):
        unpack_entry(out[entries[k]], bits, value)
        stage(new, value{states})
        pack_entry(new, bits, out[entries[k]])
"""


@lru_cache(maxsize=64)
def stage_kernel(stage: PlugInStage) -> Callable[..., None]:
    """The compiled stage: `run(entries, out, bits)`, and then the flat states in their order."""
    states = "".join(f", state_{port.state.name}" for port in stage.states)
    return compiled(_HEADER + stage.kernel + _LOOP.format(states=states))


def emitted_entries(row: Ints, uops: Ints) -> Ints:
    """The entries of the output buffer that a compute instruction writes, each once."""
    last = uops[uops[:, kernels.U_LAST] != 0, kernels.U_ACC]
    loops = np.add.outer(
        np.arange(row[COL["loop0"]]) * row[COL["acc0"]], np.arange(row[COL["loop1"]]) * row[COL["acc1"]]
    )
    return np.unique(row[COL["out"]] + np.add.outer(loops.ravel(), last))
