# SPDX-License-Identifier: Apache-2.0
"""The bytes that LOAD and STORE instructions move, from their fields."""

from __future__ import annotations

import numpy as np

from vdla.hardware.config import Config
from vdla.hardware.isa import COL, Buffer, Opcode
from vdla.support.arrays import Ints


def entry_beats(config: Config, columns: Ints) -> Ints:
    """The DRAM beats per entry of each LOAD or STORE; 0 for other instructions."""
    by_buffer = np.array(config.entry_bytes, np.int64) // config.axi_bytes
    opcode = columns[:, COL["opcode"]]
    load = by_buffer[np.minimum(columns[:, COL["buffer"]], len(by_buffer) - 1)]
    load = np.where(columns[:, COL["widen"]] > 0, by_buffer[Buffer.OUT], load)
    store = np.where(opcode == Opcode.STORE, by_buffer[Buffer.OUT], 0)
    return np.where(opcode == Opcode.LOAD, load, store)


def moved_bytes(config: Config, columns: Ints) -> Ints:
    """The bytes of a tensor that each LOAD or STORE moves; 0 for other instructions."""
    entries = columns[:, COL["z_size"]] * columns[:, COL["y_size"]] * columns[:, COL["x_size"]]
    moved: Ints = entries * entry_beats(config, columns) * config.axi_bytes
    return moved
