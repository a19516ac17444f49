# SPDX-License-Identifier: Apache-2.0
"""The bursts that runs of beats are cut into, by section 2 of the timing contract."""

from __future__ import annotations

import numpy as np

from vdla.hardware import timing as contract
from vdla.hardware.config import Config
from vdla.hardware.isa import COL, Opcode
from vdla.simulator.timing.wait_table import dma_runs
from vdla.support.arrays import Ints


def bursts_of_runs(config: Config, first: Ints, beats: Ints) -> Ints:
    """The bursts of contiguous beats from some beat addresses on; 0 for none."""
    page, most = contract.page_beats(config), config.burst_beats
    head = np.minimum(beats, page - first % page)
    pages, tail = (beats - head) // page, (beats - head) % page
    result: Ints = -(-head // most) + pages * -(-page // most) - (-tail // most)
    return result


def bursts_of(config: Config, linked: Ints) -> Ints:
    """The bursts of each LOAD and STORE of linked columns; 0 for others."""
    runs = dma_runs(config, linked)
    moves = np.isin(linked[:, COL["opcode"]], (Opcode.LOAD, Opcode.STORE)) & (runs["run"] > 0)
    rows = np.flatnonzero(moves)
    count = runs["y_runs"][rows] * runs["z_runs"][rows]
    owner = np.repeat(rows, count)
    number = np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count)
    z, y = number // runs["y_runs"][owner], number % runs["y_runs"][owner]
    first = runs["base"][owner] + z * runs["z_stride"][owner] + y * runs["y_stride"][owner]
    result = np.zeros(len(linked), np.int64)
    np.add.at(result, owner, bursts_of_runs(config, first, runs["run"][owner]))
    return result


def bursts_of_stream(config: Config, beat: int, instructions: int, beats: int) -> Ints:
    """The bursts of the stream that begin in each of its instructions, of `beats` beats each."""
    page, end = contract.page_beats(config), beat + instructions * beats
    begins, at = [], beat
    while at < end:
        begins.append(at)
        at = min(at + config.burst_beats, end, (at // page + 1) * page)
    owner = (np.array(begins, np.int64) - beat) // max(beats, 1)
    return np.bincount(owner.astype(np.intp), minlength=instructions).astype(np.int64)
