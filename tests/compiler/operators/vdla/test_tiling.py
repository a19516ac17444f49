# SPDX-License-Identifier: Apache-2.0
"""The tile search: its tilings fit, and it finds one wherever the smallest tile fits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from helpers import reference
from helpers.random_config import random_config
from helpers.seeds import seeds

from vdla.compiler.operators.vdla import tile_candidates, tile_rates, tile_search
from vdla.compiler.operators.vdla.operator import TemplateError
from vdla.compiler.operators.vdla.tile_candidates import Candidates, fitting_candidates
from vdla.compiler.operators.vdla.tile_timeline import estimate, timeline
from vdla.compiler.operators.vdla.tiling import best_choice, best_tiling, fits
from vdla.compiler.operators.vdla.tiling_problem import LOOPS, Tiling, TilingProblem
from vdla.compiler.operators.workloads import workload
from vdla.compiler.templates import depthwise_conv2d
from vdla.compiler.templates.channel_sections import blocks
from vdla.compiler.templates.conv2d import conv2d
from vdla.hardware.config import Config
from vdla.simulator.simulate import Mode, simulate

PLAIN = TilingProblem(
    batches=1, out_blocks=4, in_blocks=1, rows=1, cols=1, taps=1, row_step=1, row_span=1, col_step=1, col_span=1,
    weights=1,
)  # fmt: skip
PYNQ, TINY = Config.preset("pynq_z1"), Config.preset("tiny")


def tilings(config: Config, problem: TilingProblem, threads: int) -> Iterator[Tiling]:
    """All tilings of even sizes that fit the buffers."""
    for candidates in fitting_candidates(config, problem, threads):
        yield from (candidates.tiling(index) for index in range(len(candidates)))


def random_problem(rng: np.random.Generator) -> TilingProblem:
    """A blocked problem of any template."""
    kernel, stride, separate = int(rng.integers(1, 5)), int(rng.integers(1, 4)), bool(rng.integers(2))
    return TilingProblem(
        batches=int(rng.integers(1, 4)),
        out_blocks=int(rng.integers(1, 20)),
        in_blocks=1 if separate else int(rng.integers(1, 20)),
        rows=int(rng.integers(1, 40)),
        cols=int(rng.integers(1, 40)),
        taps=kernel * kernel,
        row_step=stride,
        row_span=kernel,
        col_step=stride,
        col_span=kernel,
        weights=kernel * kernel,
        raw=bool(rng.integers(2)),
        separate=separate,
        through_acc=separate and bool(rng.integers(2)),
        lanes=int(rng.choice([1, 1, 9])),
    )


def smallest_fits(config: Config, problem: TilingProblem) -> bool:
    """Whether the smallest tile fits: one pixel, one output block, one input block."""
    window = problem.window(1, 1)
    slots = 32 // config.out_bits if problem.raw else 1
    return (
        (problem.through_acc or window <= config.inp_depth)
        and problem.weights <= config.wgt_depth
        and problem.phases + (window if problem.through_acc else 0) <= config.acc_depth
        and problem.phases * slots <= config.out_depth
        and problem.lanes <= config.scl_depth
    )


@pytest.mark.parametrize("seed", seeds(range(60), 20))
def test_a_tiling_is_found_exactly_where_the_smallest_tile_fits(seed: int) -> None:
    rng = np.random.default_rng(seed)
    config, problem, threads = random_config(rng, largest_block=16), random_problem(rng), int(rng.integers(1, 4))
    if not smallest_fits(config, problem):
        with pytest.raises(TemplateError, match="must fit the buffers"):
            best_tiling(config, problem, threads)
        return
    chosen = best_tiling(config, problem, threads)
    assert fits(config, problem, chosen)
    assert 1 <= chosen.threads <= threads


@pytest.mark.parametrize("seed", range(6))
def test_candidates_that_run_together_take_the_cycles_of_each_alone(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng)
    every = [*tilings(PYNQ, problem, 1 + seed % 3)]
    chosen = [every[index] for index in rng.integers(len(every), size=9)]
    together = timeline(PYNQ, problem, Candidates.joined([Candidates.of(each) for each in chosen]))
    assert together.tolist() == [estimate(PYNQ, problem, each) for each in chosen]


def test_the_search_knows_the_estimate_of_its_choice() -> None:
    problem = replace(PLAIN, in_blocks=16, out_blocks=16, rows=14, cols=14, taps=9, weights=9)
    tiling, cycles = best_choice(PYNQ, problem, 2)
    assert cycles == estimate(PYNQ, problem, tiling)
    short = best_choice(PYNQ, PLAIN, 2)
    assert short == (best_tiling(PYNQ, PLAIN, 2), None)  # no run is worth its time


def test_a_search_runs_a_candidate_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neighbourhoods overlap; the choice is that of a search which runs all of them."""
    problem = replace(PLAIN, in_blocks=8, out_blocks=32, rows=7, cols=7, taps=1, weights=1)
    runs: list[bytes] = []

    def noted(config: Config, problem: TilingProblem, candidates: Candidates) -> tile_rates.Floats:
        runs.extend(row.tobytes() for row in candidates.table())
        return timeline(config, problem, candidates)

    monkeypatch.setattr(tile_search, "timeline", noted)
    choice = tile_search.search.__wrapped__(PYNQ, problem, 2)
    once = len(runs)
    assert len(set(runs)) == once
    monkeypatch.setattr(tile_search._Best, "_run", lambda best, near: noted(PYNQ, problem, near))
    assert tile_search.search.__wrapped__(PYNQ, problem, 2) == choice
    assert len(runs) > 2 * once


def test_every_candidate_fits_and_none_of_even_sizes_is_much_better_than_the_best() -> None:
    problem = replace(PLAIN, in_blocks=4, rows=6, cols=6)
    candidates = list(tilings(PYNQ, problem, 2))
    assert candidates and all(fits(PYNQ, problem, candidate) for candidate in candidates)
    cycles = timeline(PYNQ, problem, Candidates.joined([Candidates.of(each) for each in candidates]))
    assert estimate(PYNQ, problem, best_tiling(PYNQ, problem, 2)) < 1.005 * cycles.min()


@pytest.mark.parametrize("most_at_once", [1, 1 << 16])
def test_the_candidates_are_those_of_a_plain_search(most_at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the same order, which decides between equal estimates."""
    monkeypatch.setattr(tile_candidates, "_MOST_AT_ONCE", most_at_once)
    problem = random_problem(np.random.default_rng(9))
    extents = (problem.in_blocks, problem.cols, problem.rows, problem.out_blocks)
    sizes = [[n for n in range(1, extent + 1) if n == blocks(extent, blocks(extent, n))] for extent in extents]
    plain = []
    for in_blocks, cols, rows, out_blocks, keep in product(*sizes, (True, False)):
        counts = {
            "chunks": blocks(problem.in_blocks, in_blocks),
            "cols": blocks(problem.cols, cols),
            "rows": blocks(problem.rows, rows),
            "batches": problem.batches,
            "groups": blocks(problem.out_blocks, out_blocks),
        }
        over = next((name for name, count in counts.items() if count > 1), "chunks")
        tiling = Tiling(
            rows=rows,
            cols=cols,
            out_blocks=out_blocks,
            in_blocks=in_blocks,
            keep_weights=keep,
            threads=min(3, counts[over]),
            threads_over=over,
        )
        plain += [tiling] if fits(PYNQ, problem, tiling) else []
    assert plain == list(tilings(PYNQ, problem, 3))


def test_more_threads_are_not_estimated_slower_than_one() -> None:
    problem = TilingProblem(
        batches=1, out_blocks=4, in_blocks=4, rows=56, cols=56, taps=9, row_step=1, row_span=3, col_step=1, col_span=3,
        weights=9,
    )  # fmt: skip
    two, one = (estimate(PYNQ, problem, best_tiling(PYNQ, problem, threads)) for threads in (2, 1))
    assert two < one


def test_results_are_stored_in_long_rows() -> None:
    """A convolution that mostly stores: each row of a tile is a burst of its own."""
    options = {"batch": 1, "height": 112, "width": 112, "in_channels": 16, "out_channels": 96, "kernel": 1}
    operator = conv2d(PYNQ, packing="channels", chained=True, **options)
    cycles = simulate(operator.program, mode=Mode.TIMING).statistics.total_cycles
    assert cycles < 1.05 * 112 * 112 * 96 / PYNQ.axi_bytes


@pytest.mark.parametrize(
    ("name", "limit"),
    [("C5", 26_200), ("C8", 26_100), ("C11", 26_150), ("D3", 222_800), ("D9", 25_450)],
)
def test_the_choice_is_near_the_best_known(name: str, limit: int) -> None:
    layer = workload(name)
    shape = {"batch": 1, "height": layer.height, "width": layer.width, "kernel": layer.kernel}
    shape |= {"strides": layer.strides, "pads": layer.pads}
    if layer.operator == "conv2d":
        operator = conv2d(PYNQ, in_channels=layer.in_channels, out_channels=layer.out_channels, **shape)
    else:
        operator = depthwise_conv2d(PYNQ, channels=layer.in_channels, **shape)
    assert simulate(operator.program, mode=Mode.TIMING).statistics.total_cycles <= limit


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("by_blocks", [False, True])
@pytest.mark.parametrize("sizes", [(7, 7, 2, 2), (4, 14, 4, 3), (14, 7, 2, 4)])
def test_the_estimate_is_near_the_cycles(sizes: tuple[int, int, int, int], by_blocks: bool, raw: bool) -> None:
    rows, cols, out_blocks, in_blocks = sizes
    tiling = Tiling(
        rows=rows,
        cols=cols,
        out_blocks=out_blocks,
        in_blocks=in_blocks,
        keep_weights=True,
        threads=2,
        threads_over="chunks" if in_blocks < 4 else "cols",
        by_blocks=by_blocks,
    )
    shape = {"batch": 1, "height": 14, "width": 14, "in_channels": 64, "out_channels": 64, "kernel": 3, "pads": 1}
    operator = conv2d(PYNQ, tiling=tiling, raw=raw, **shape)
    cycles = simulate(operator.program, mode=Mode.TIMING).statistics.total_cycles
    assert operator.problem is not None
    assert estimate(PYNQ, operator.problem, tiling) == pytest.approx(cycles, rel=0.05)


def test_what_is_not_run_of_a_long_loop_takes_as_long_as_what_is(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = replace(PLAIN, in_blocks=24, rows=28, cols=28)
    tiling = Tiling(rows=2, cols=28, out_blocks=4, in_blocks=2, keep_weights=True, threads=2, threads_over="chunks")
    short = estimate(PYNQ, problem, tiling)
    monkeypatch.setattr(tile_rates, "KEPT", 100)
    assert estimate(PYNQ, problem, tiling) == pytest.approx(short, rel=0.01)


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(16))
def test_whatever_fits_compiles(seed: int) -> None:
    """Random sizes, threads over any loop, on machines with little room."""
    rng = np.random.default_rng(seed)
    config = random_config(rng, largest_block=8)
    channels, out, kernel, groups = (int(rng.integers(1, n)) for n in (24, 24, 4, 4))
    shape = {"batch": int(rng.integers(1, 3)), "height": 6, "width": 7, "kernel": kernel, "pads": kernel // 2}
    shape |= {"in_channels": groups * channels, "out_channels": groups * out, "groups": groups, "raw": True}
    try:
        problem = conv2d(config, packing="channels", **shape).problem
    except TemplateError:
        return  # no tile fits
    assert problem is not None
    for _ in range(3):
        tiling = fitting_tiling(rng, config, problem)
        assert tiling is None or conv2d(config, packing="channels", tiling=tiling, **shape).program


def fitting_tiling(rng: np.random.Generator, config: Config, problem: TilingProblem) -> Tiling | None:
    """A random tiling that fits; None if several tries find none."""
    for _ in range(100):
        sizes = {n: int(rng.integers(1, getattr(problem, n) + 1)) for n in ("rows", "cols", "out_blocks", "in_blocks")}
        tiling = Tiling(
            **sizes,
            keep_weights=bool(rng.integers(2)),
            threads=int(rng.integers(1, 4)),
            threads_over=str(rng.choice(LOOPS[problem.separate :])),
            by_blocks=bool(rng.integers(2)),
            strips=int(rng.integers(1, 4)),
        )
        iterations = Candidates.of(tiling).iterations(problem)[LOOPS.index(tiling.threads_over), 0]
        if tiling.threads <= iterations and fits(config, problem, tiling):
            return tiling
    return None


def test_a_tiling_prints_its_sizes() -> None:
    tiling = Tiling(rows=14, cols=7, out_blocks=4, in_blocks=2, keep_weights=True, threads=2, threads_over="chunks")
    assert (
        str(tiling) == "14x7 pixels, 4 output and 2 input blocks, weights kept on chip, 2 virtual threads over chunks"
    )
    every = str(replace(tiling, by_blocks=True, strips=4))
    assert "2 input blocks, weights kept on chip, block by block, 4 strips, 2 virtual" in every


@pytest.mark.parametrize("seed", seeds(range(24), 12))
def test_a_given_tiling_computes_the_same_results(seed: int) -> None:
    rng = np.random.default_rng(seed)
    channels, out, kernel, stride = (int(rng.integers(1, n)) for n in (40, 30, 4, 3))
    shape = {"batch": 2, "height": 7, "width": 9, "kernel": kernel, "strides": stride, "pads": 1, "raw": True}
    rows, cols = ((n + 2 - kernel) // stride + 1 for n in (7, 9))
    extents = {"rows": rows, "cols": cols}
    extents |= {"out_blocks": blocks(out, TINY.block_out), "in_blocks": blocks(channels, TINY.block_in)}
    sizes = {what: int(rng.integers(1, extent + 1)) for what, extent in extents.items()}
    counts = {"batches": 2, "rows": blocks(rows, sizes["rows"])}
    counts["groups"] = blocks(extents["out_blocks"], sizes["out_blocks"])
    over = str(rng.choice(list(counts)))
    tiling = Tiling(
        **sizes,
        keep_weights=bool(rng.integers(2)),
        threads=int(rng.integers(1, counts[over] + 1)),
        threads_over=over,
        by_blocks=bool(rng.integers(2)),
        strips=int(rng.integers(1, 4)),
    )
    try:
        operator = conv2d(TINY, in_channels=channels, out_channels=out, packing="channels", tiling=tiling, **shape)
    except TemplateError as error:
        assert "tiling must fit the buffers" in str(error)
        return
    data = rng.integers(-128, 128, (2, channels, 7, 9))
    weight = rng.integers(-128, 128, (out, channels, kernel, kernel))
    found = operator.unpack(simulate(operator.program, operator.pack(data, weight), mode=Mode.FUNCTION).outputs)
    np.testing.assert_array_equal(found, reference.conv2d(data, weight, (stride, stride), (1, 1)))
