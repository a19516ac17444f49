# SPDX-License-Identifier: Apache-2.0
"""A program run on random data: what is left in memory, and when its instructions ran."""

from __future__ import annotations

import hashlib
from typing import Any

from helpers.random_image import random_image
from vdla.hardware.program import Program
from vdla.simulator.function import Engine, token_order
from vdla.simulator.timing import time_program


def executed(program: Program, seed: int) -> dict[str, Any]:
    """Hashes of DRAM and of each buffer, cycles, starts and ends; as JSON has them."""
    columns, dram = random_image(program, seed)
    engine = Engine(program.config, columns, dram)
    engine.run(token_order(columns))
    memories = {"dram": dram} | {buffer.name: array for buffer, array in engine.buffers.contents().items()}
    stats = time_program(program)
    return {
        **{name: hashlib.sha256(array.tobytes()).hexdigest() for name, array in memories.items()},
        "cycles": stats.total_cycles,
        "starts": stats.starts.tolist(),
        "ends": stats.ends.tolist(),
    }
