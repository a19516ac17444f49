# SPDX-License-Identifier: Apache-2.0
"""A second closed form: the busy cycles of a candidate's busiest unit.

It only ranks, and is not a bound. It counts padding and hidden transfers of instructions, and so
exceeds the run of `tile_timeline.py` by up to a tenth; with one virtual thread it adds all reads to
the computation, up to twice the time of the run.
"""

from __future__ import annotations

import numpy as np

from vdla.compiler.operators.vdla.tile_candidates import Candidates
from vdla.compiler.operators.vdla.tile_rates import Floats
from vdla.compiler.operators.vdla.tiling_problem import TilingProblem
from vdla.hardware import timing
from vdla.hardware.config import Config
from vdla.hardware.isa.formats import instruction_bytes


def busiest_unit(config: Config, problem: TilingProblem, c: Candidates) -> Floats:
    """The cycles of each candidate, float64[n]."""
    chunks, cols, rows, batches, groups = c.iterations(problem)
    tiles, passes = batches * rows * cols, np.where(c.by_blocks, c.in_blocks, 1)
    per_byte = config.dram.beat_cycles / config.axi_bytes
    latency = config.dram.read_latency + timing.read_delay(config)
    depth = timing.ISSUE_DELAY + timing.compute_depth(config)
    sums = problem.taps * problem.kept * problem.in_blocks * problem.step + problem.after
    computation = batches * problem.out_blocks * problem.results(problem.rows, problem.cols) * sums
    entry = config.inp_entry_bytes * per_byte
    window = problem.unit * problem.inputs * entry
    high, wide = (
        (extent - count) * step + count * span
        for extent, count, step, span in (
            (problem.rows, rows, problem.row_step, problem.row_span),
            (problem.cols, cols, problem.col_step, problem.col_span),
        )
    )
    weights = problem.weights * config.wgt_entry_bytes * per_byte
    blocks = problem.window_blocks(problem.out_blocks, problem.in_blocks) * np.where(problem.separate, 1, groups)
    loads = problem.out_blocks * problem.in_blocks * np.where(c.keep_weights, 1, tiles)
    commands = tiles * chunks * (groups + passes * problem.out_blocks * np.where(c.keep_weights, 1, 2))
    fetched = (commands + 2 * tiles * problem.out_blocks) * instruction_bytes(config) * per_byte
    reads = batches * blocks * high * wide * window + loads * weights + fetched
    result = (config.acc_entry_bytes if problem.raw else config.out_entry_bytes) * per_byte * config.axi_ports
    results = problem.results(c.rows, c.cols) * result
    stored = problem.results(problem.rows, problem.cols) * result
    writes = batches * problem.out_blocks * (stored + rows * cols * problem.phases * (timing.STORE_SETUP + 1))
    one = problem.results(c.rows, c.cols) * c.in_blocks * problem.taps * problem.kept * problem.step
    part = problem.window_blocks(c.out_blocks, c.in_blocks) / passes
    first = 2 * latency + part * problem.window(c.rows, c.cols) * entry / c.strips + c.in_blocks / passes * weights
    last = depth + results / c.strips + config.dram.write_latency
    computed = first + computation + last + np.where((c.threads == 1) & (c.strips == 1), reads, 0)
    read, written = 2 * latency + reads + one + last, first + one + writes
    return np.asarray(np.maximum(computed, np.maximum(read, written)), np.float64)
