"""The tile search: whatever it proposes fits, it finds something wherever the smallest tile fits, and it is quick."""

from __future__ import annotations

import numpy as np
import pytest

from vdla.compiler.templates.operator import TemplateError
from vdla.compiler.templates.tiling import Problem, Tiling, choose, estimate, fits, tilings
from vdla.hardware.config import Config
from vdla.hardware.random_config import random_config

PYNQ = Config.preset("pynq_z1")


def random_problem(rng: np.random.Generator) -> Problem:
    """An operator in blocks, of any of the templates' kinds."""
    kernel, stride, separate = int(rng.integers(1, 5)), int(rng.integers(1, 4)), bool(rng.integers(2))
    return Problem(
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


def smallest_fits(config: Config, problem: Problem) -> bool:
    """Whether one pixel, one output block and one input block fit, by the plainest reading of the buffers."""
    window = problem.window(1, 1)
    slots = 32 // config.out_bits if problem.raw else 1
    return (
        (problem.through_acc or window <= config.inp_depth)
        and problem.weights <= config.wgt_depth
        and problem.phases + (window if problem.through_acc else 0) <= config.acc_depth
        and problem.phases * slots <= config.out_depth
        and problem.lanes <= config.scl_depth
    )


@pytest.mark.parametrize("seed", range(60))
def test_something_is_chosen_exactly_where_the_smallest_tile_fits(seed: int) -> None:
    rng = np.random.default_rng(seed)
    config, problem, threads = random_config(rng, largest_block=16), random_problem(rng), int(rng.integers(1, 4))
    if not smallest_fits(config, problem):
        with pytest.raises(TemplateError, match="must fit the buffers"):
            choose(config, problem, threads)
        return
    chosen = choose(config, problem, threads)
    assert fits(config, problem, chosen)
    assert 1 <= chosen.threads <= threads


def test_every_candidate_fits_and_none_is_estimated_lower_than_the_chosen() -> None:
    problem = random_problem(np.random.default_rng(5))
    candidates = list(tilings(PYNQ, problem, 2))
    assert candidates and all(fits(PYNQ, problem, candidate) for candidate in candidates)
    best = estimate(PYNQ, problem, choose(PYNQ, problem, 2))
    assert best == min(estimate(PYNQ, problem, candidate) for candidate in candidates)


def test_more_threads_are_not_estimated_slower_than_one() -> None:
    problem = Problem(1, 4, 4, 56, 56, 9, 1, 3, 1, 3, 9)
    two, one = (estimate(PYNQ, problem, choose(PYNQ, problem, threads)) for threads in (2, 1))
    assert two < one


def test_a_tiling_prints_as_what_it_is() -> None:
    tiling = Tiling(rows=14, cols=7, out_blocks=4, in_blocks=2, keep=True, threads=2, over="chunks")
    assert str(tiling) == "14x7 pixels, 4 output and 2 input blocks, weights kept, 2 virtual threads over chunks"
