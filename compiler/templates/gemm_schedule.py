"""The schedule of GEMM-like operators: chunks of input channels inside tiles of output, virtual threads over either.

    for group of output blocks, batch, tile of rows, tile of columns:
        for chunk of input blocks:                              # the innermost tile loop with iterations has the threads
            load the window of the input, padding included
            for output block in the group:
                load its weights for this chunk                 # once a group, if they are kept
                for y, x: for ci, ky, kx: gemm; in the last chunk: requantise
                in the last chunk: store
"""

from __future__ import annotations

from collections.abc import Sequence

from vdla.compiler import ir, te
from vdla.compiler.intrinsics import dma, gemm, requantise
from vdla.compiler.schedule import Schedule
from vdla.compiler.templates.tiling import Problem, Tiling
from vdla.hardware.config import Buffer, Config

TILE_LOOPS = ("groups", "batches", "rows", "cols", "chunks")


def schedule_gemm(config: Config, tensors: Sequence[te.Tensor], problem: Problem, tiling: Tiling, name: str) -> ir.Function:
    """The scheduled, tensorized function of `Convolution.expression`."""
    *inputs, output = tensors
    s = Schedule(te.create_function(inputs, [output], name))
    for buffer, scope in (("padded", "inp"), ("sums", "acc"), ("results", "out")):
        s.set_scope(buffer, scope)
    outer = _tile(s, tiling)
    _place_input(s, outer)
    weights = _place_weights(s, outer, tiling)
    scale = [] if problem.raw else [_place_scale(s, outer)]
    _place_results(s, outer)
    _tensorize(s, config, weights, scale, problem.raw)
    return s.fn


def _tile(s: Schedule, tiling: Tiling) -> dict[str, list[str]]:
    """Split and order the loops of the sums; the tile loops by what they run over, a virtual thread after its loop."""
    n, co, y, x, b, o, ci, ky, kx, i = s.loops("sums")
    group, co = s.split(co, factor=tiling.out_blocks)
    rows, y = s.split(y, factor=tiling.rows)
    cols, x = s.split(x, factor=tiling.cols)
    chunk, ci = s.split(ci, factor=tiling.in_blocks)
    outer = {"groups": [group], "batches": [n], "rows": [rows], "cols": [cols], "chunks": [chunk]}
    if tiling.threads > 1:
        turn, thread = s.split(outer[tiling.over][0], factor=tiling.threads)
        outer[tiling.over] = [turn, thread]
    s.reorder(*(loop for which in TILE_LOOPS for loop in outer[which]), co, y, x, ci, ky, kx, b, o, i)
    if tiling.threads > 1:
        s.vthread(outer[tiling.over][1])
    return outer


def _place_input(s: Schedule, outer: dict[str, list[str]]) -> None:
    s.compute_at("padded", outer["chunks"][-1])


def _place_weights(s: Schedule, outer: dict[str, list[str]], tiling: Tiling) -> str:
    """Weights arrive block by block, just before their first use."""
    weights = s.cache_read("sums", "weight", "wgt")
    s.compute_at(weights, _after(s, outer["chunks"][-1]))
    if tiling.keep:
        s.keep(weights, *outer["batches"], *outer["rows"], *outer["cols"])
        s.annotate(weights, "store_at", outer["groups"][-1])
    else:
        s.annotate(weights, "store_at", outer["chunks"][-1])
    return weights


def _place_scale(s: Schedule, outer: dict[str, list[str]]) -> str:
    return s.cache_read("results", "scale", "scl")


def _place_results(s: Schedule, outer: dict[str, list[str]]) -> None:
    """Each result leaves in the pass that finishes its sum; each output block is stored when it is complete."""
    block = _after(s, outer["chunks"][-1])
    loops = s.loops("sums")
    x = loops[loops.index(block) + 2]
    s.reverse_compute_at("results", x)
    s.reverse_compute_at("output", block)
    tile = outer["cols"][-1]
    for name in ("sums", "results"):
        s.annotate(name, "store_at", tile)
    scale = [name for name in s.blocks() if name.startswith("scale")]
    for name in scale:
        s.compute_at(name, block)
        s.keep(name, *outer["batches"], *outer["rows"], *outer["cols"], *outer["chunks"])
        s.annotate(name, "store_at", outer["groups"][-1])


def _after(s: Schedule, loop: str) -> str:
    """The next loop inwards around the sums."""
    loops = s.loops("sums")
    return loops[loops.index(loop) + 1]


def _tensorize(s: Schedule, config: Config, weights: str, scale: list[str], raw: bool) -> None:
    entry = {"padded": 2, weights: 2, "sums": 3, "results": 2, "output": 2} | dict.fromkeys(scale, 1)
    result = requantise.raw(config) if raw else requantise.requantise(config)
    intrinsics = {
        "padded": dma.load(config, Buffer.INP),
        weights: dma.load(config, Buffer.WGT),
        "sums": gemm.gemm(config),
        "results": result,
        "output": dma.store(config, raw),
    } | dict.fromkeys(scale, dma.load(config, Buffer.SCL))
    for block, intrinsic in intrinsics.items():
        s.tensorize(s.loops(block)[-entry[block]], intrinsic)
