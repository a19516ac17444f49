# SPDX-License-Identifier: Apache-2.0
"""Features of tiled operators: what their loop nests look like, in columns, for the cost model.

After AutoTVM (Chen et al., Learning to Optimize Tensor Programs, section 4): the length of each
loop and its annotation, and for each operand at each level the touched bytes and the reuse. All but
flags and shares are base-2 logarithms, so that shapes and machines compare.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.operators.vdla.tile_candidates import Candidates
from vdla.compiler.operators.vdla.tiling_problem import LOOPS, TilingProblem
from vdla.compiler.tune.tile_nest import LEVELS, OPERANDS, Floats, TileNest
from vdla.hardware.config import Config

_LENGTHS = {
    "sections": "sections, each with its own output blocks",
    "groups": "groups of output blocks",
    "batches": "batches",
    "rows": "rows of tiles",
    "cols": "tiles in a row",
    "chunks": "chunks of input blocks",
    "blocks": "output blocks of a tile",
    "lines": "rows of a tile",
    "pixels": "columns of a tile",
    "inputs": "input blocks of a chunk",
    "taps": "kernel positions, times phases",
}
_DEPTHS = {"window": "inp", "weights": "wgt", "sums": "acc"}
_SPLIT = {"out_blocks": "output blocks", "rows": "rows", "cols": "columns", "in_blocks": "input blocks"}


@dataclass(frozen=True, slots=True)
class FeatureColumn:
    """A column: its name, and what it is."""

    name: str
    meaning: str


def _documented() -> Iterator[FeatureColumn]:
    """Every feature, in the order of `tile_features`."""
    yield FeatureColumn("estimate", "log2 of the estimated cycles")
    yield FeatureColumn("estimate over steps", "log2 of the estimated cycles over the steps of the core intrinsic")
    for name, meaning in _LENGTHS.items():
        yield FeatureColumn(f"length {name}", f"log2 of the iterations over {meaning}")
    yield FeatureColumn("threads", "log2 of the virtual threads")
    for name in LOOPS:
        yield FeatureColumn(f"threads over {name}", f"1 if several virtual threads share the loop over {name}, else 0")
    yield FeatureColumn("keep weights", "1 if weights stay on the chip for all tiles of a group, else 0")
    yield FeatureColumn("by blocks", "1 if a chunk is loaded and added one input block at a time, else 0")
    yield FeatureColumn("strips", "log2 of the strips in which tiles that wait for transfers are computed")
    for level in LEVELS:
        for operand in OPERANDS:
            yield FeatureColumn(
                f"bytes {operand} {level}", f"log2 of 1 + the bytes of {operand} touched {_inside(level)}"
            )
            yield FeatureColumn(
                f"reuse {operand} {level}", f"log2 of core steps for each entry of {operand} {_inside(level)}"
            )
        yield FeatureColumn(f"intensity {level}", f"log2 of core steps for each touched byte {_inside(level)}")
    for level in LEVELS[1:]:
        yield FeatureColumn(f"executions {level}", f"log2 of how often the nest executes the body of a {level}")
    for what in ("window loads", "weight loads", "stores", "core steps"):
        yield FeatureColumn(f"calls {what}", f"log2 of 1 + the {what} that the nest executes")
    for operand in ("window", "weights", "stores"):
        yield FeatureColumn(f"port {operand}", f"cycles of the memory port for {operand}, over the core steps")
    for operand, buffer in _DEPTHS.items():
        yield FeatureColumn(f"full {operand}", f"the share of the {buffer} buffer that {operand} and its copies fill")
    for name, meaning in _SPLIT.items():
        yield FeatureColumn(f"uneven {name}", f"{meaning} of all tiles over the actual {meaning}, minus 1")
    for name, meaning in _SPLIT.items():
        yield FeatureColumn(f"last {name}", f"log2 of the {meaning} of the last tile over those of a whole one")
    yield FeatureColumn("first loads", "log2 of 1 + the port's cycles for what the first core step waits for")
    yield FeatureColumn("last store", "log2 of 1 + the port's cycles for results after the last core step")
    for name, meaning in (("latency", "read latency of the memory, in cycles"), ("beat", "bytes per cycle of a port")):
        yield FeatureColumn(f"machine {name}", f"log2 of the {meaning}")


def _inside(level: str) -> str:
    return "in the whole nest" if level == "nest" else f"in one iteration of a {level}"


FEATURES = tuple(_documented())


def tile_features(
    config: Config, problem: TilingProblem, candidates: Candidates, estimates: Floats
) -> NDArray[np.float32]:
    """[candidate, feature]: the features of tilings of one problem."""
    nest = TileNest(problem, candidates)
    columns = [
        *_estimates(nest, estimates),
        *_loops(nest),
        *_touched(nest, config),
        *_traffic(nest, config),
        *_space(nest, config),
        *_ends(nest, config),
        *_machine(nest, config),
    ]
    return np.stack(columns, axis=1).astype(np.float32)


def _estimates(nest: TileNest, estimates: Floats) -> Iterator[Floats]:
    yield np.log2(estimates)
    yield np.log2(estimates / nest.steps("nest"))


def _loops(nest: TileNest) -> Iterator[Floats]:
    """Lengths and annotations."""
    c = nest.candidates
    yield from (np.log2(nest.extents[name]) for name in _LENGTHS)
    yield np.log2(c.threads)
    yield from (np.asarray((c.threads > 1) & (c.over == place), np.float64) for place in range(len(LOOPS)))
    yield np.asarray(c.keep_weights, np.float64)
    yield np.asarray(c.by_blocks, np.float64)
    yield np.log2(c.strips)


def _touched(nest: TileNest, config: Config) -> Iterator[Floats]:
    """Bytes, reuse and intensity at each level, and how often each is executed."""
    for level in LEVELS:
        steps, total = nest.steps(level), np.zeros(len(nest.candidates))
        for operand in OPERANDS:
            entries = nest.touched(operand, level)
            size = entries * _entry_bytes(config, operand)
            total = total + size
            yield np.log2(1 + size)
            yield np.log2(steps / np.maximum(entries, 1))
        yield np.log2(steps / total)
    yield from (np.log2(nest.executions(level)) for level in LEVELS[1:])


def _ends(nest: TileNest, config: Config) -> Iterator[Floats]:
    """How much smaller the last tiles are; what is moved before the first and after the last
    computation.
    """
    p, c = nest.problem, nest.candidates
    last = {name: nest.last(name) for name in _SPLIT}
    yield from (np.log2(last[name] / getattr(c, name)) for name in _SPLIT)
    blocks = np.where(c.by_blocks, 1, c.in_blocks)
    window = p.window_blocks(c.out_blocks, blocks) * p.window(c.rows, c.cols) * config.inp_entry_bytes / c.strips
    weights = blocks * p.weights * config.wgt_entry_bytes
    results = p.results(last["rows"], last["cols"]) * _result_bytes(config, p) / c.strips
    yield from (np.log2(1 + size * _cycles_of_byte(config)) for size in (window + weights, results))


def _cycles_of_byte(config: Config) -> float:
    return config.dram.beat_cycles / config.axi_bytes


def _result_bytes(config: Config, problem: TilingProblem) -> int:
    return config.acc_entry_bytes if problem.raw else config.out_entry_bytes


def _entry_bytes(config: Config, operand: str) -> int:
    sizes = {"window": config.inp_entry_bytes, "weights": config.wgt_entry_bytes, "sums": config.acc_entry_bytes}
    return sizes[operand]


def _traffic(nest: TileNest, config: Config) -> Iterator[Floats]:
    """Calls of intrinsics, and what they move through the port of the memory."""
    p, c = nest.problem, nest.candidates
    chunks, steps = nest.executions("chunk"), nest.steps("nest")
    # Kept weights are loaded in the first tile of a group, chunk by chunk.
    weight_chunks = np.where(c.keep_weights, nest.executions("group") * -(-p.in_blocks // c.in_blocks), chunks)
    stores = nest.executions("tile") * c.out_blocks
    calls = (chunks * p.inputs, weight_chunks * c.out_blocks * bool(p.weights), stores, steps)
    yield from (np.log2(1.0 + count) for count in calls)
    moved = (
        chunks * nest.touched("window", "chunk") * config.inp_entry_bytes,
        weight_chunks * nest.touched("weights", "chunk") * config.wgt_entry_bytes,
        stores * p.results(c.rows, c.cols) * _result_bytes(config, p),
    )
    yield from (size * _cycles_of_byte(config) / steps for size in moved)


def _space(nest: TileNest, config: Config) -> Iterator[Floats]:
    """Shares of the buffers, by how much whole tiles exceed extents."""
    p, c = nest.problem, nest.candidates
    weights = nest.touched("weights", "chunk") * np.where(c.keep_weights, -(-p.in_blocks // c.in_blocks), c.threads)
    yield nest.touched("window", "chunk") * c.threads / config.inp_depth
    yield weights / config.wgt_depth
    yield nest.touched("sums", "tile") * np.where(c.over == LOOPS.index("chunks"), 1, c.threads) / config.acc_depth
    for name in _SPLIT:
        whole, tile = getattr(p, name), getattr(c, name)
        yield -(-whole // tile) * tile / whole - 1


def _machine(nest: TileNest, config: Config) -> Iterator[Floats]:
    yield np.full(len(nest.candidates), np.log2(1.0 + config.dram.read_latency))
    yield np.full(len(nest.candidates), np.log2(1 / _cycles_of_byte(config)))
