# SPDX-License-Identifier: Apache-2.0
"""The choice of tile sizes: the best result of the search, or a given tiling that fits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import TypeVar

from vdla.compiler.operators.vdla.operator import TemplateError
from vdla.compiler.operators.vdla.tile_candidates import Candidates, estimated, fitting, fitting_candidates
from vdla.compiler.operators.vdla.tile_search import ChosenTiling, quick_search, search, waits_for_memory
from vdla.compiler.operators.vdla.tile_timeline import estimate
from vdla.compiler.operators.vdla.tiling_problem import LOOPS, SIZES, Tiling, TilingProblem
from vdla.hardware.config import Config
from vdla.support.integers import is_int, to_python

Result = TypeVar("Result")


def best_tiling(config: Config, problem: TilingProblem, threads: int, name: str = "tiling") -> Tiling:
    """The tiling with the lowest estimate in a short search.

    It has fewer than `threads` virtual threads if the buffers cannot hold that many tiles.

    Raises:
        TemplateError: the smallest tile does not fit the buffers.
    """
    return best_choice(config, problem, threads, name).tiling


def best_choice(config: Config, problem: TilingProblem, threads: int, name: str = "tiling") -> ChosenTiling:
    """The tiling of `best_tiling`, with its estimate if the search has computed it."""
    return _first_result(search, config, problem, threads, name)


def quick_tiling(config: Config, problem: TilingProblem, threads: int, name: str = "tiling") -> Tiling:
    """An even tiling with a low estimate in closed form, as `best_tiling` otherwise."""
    return _first_result(quick_search, config, problem, threads, name)


def _first_result(
    search: Callable[[Config, TilingProblem, int], Result | None],
    config: Config,
    problem: TilingProblem,
    threads: int,
    name: str,
) -> Result:
    """The result of a search with the most virtual threads that fit."""
    for count in range(threads, 0, -1):
        result = search(config, problem, count)
        if result is not None:
            return result
    raise TemplateError(
        f"{name}: one pixel, one output block and one input block must fit the buffers inp={config.inp_depth} "
        f"wgt={config.wgt_depth} scl={config.scl_depth} acc={config.acc_depth} out={config.out_depth} entries, got "
        f"a window of {problem.window(1, 1)}, {problem.weights} weights, {problem.lanes} lanes, "
        f"{problem.phases} sums"
    )


def choose_tiling(config: Config, problem: TilingProblem, threads: int, given: Tiling | None, name: str) -> Tiling:
    """The given tiling with at most one thread per iteration, or by default the best one.

    Raises:
        TemplateError: the given tiling is invalid or does not fit the buffers, or no tiling fits.
    """
    if given is None:
        return best_tiling(config, problem, threads, name)
    given = _check(problem, given, name)
    iterations = int(Candidates.of(given).iterations(problem)[LOOPS.index(given.threads_over), 0])
    used = replace(given, threads=min(given.threads, iterations))
    if not fits(config, problem, used):
        raise TemplateError(f"{name}: tiling must fit the buffers, got {given}")
    return used


def _check(problem: TilingProblem, given: Tiling, name: str) -> Tiling:
    """The tiling with Python integers, checked for the operator."""
    if not isinstance(given, Tiling):
        raise TemplateError(f"{name}: tiling must be a Tiling, got {given!r}")
    given = replace(given, **{field.name: to_python(getattr(given, field.name)) for field in fields(given)})
    for what in SIZES:
        size, most = getattr(given, what), getattr(problem, what)
        if not is_int(size) or not 1 <= size <= most:
            raise TemplateError(f"{name}: {what} of the tiling must be an integer from 1 to {most}, got {size!r}")
    if given.threads_over not in problem.loops:
        rule = f"threads_over of the tiling must be one of {', '.join(problem.loops)}"
        raise TemplateError(f"{name}: {rule}, got {given.threads_over!r}")
    for what in ("threads", "strips"):
        if not is_int(getattr(given, what)) or getattr(given, what) < 1:
            raise TemplateError(f"{name}: {what} of the tiling must be at least 1, got {getattr(given, what)!r}")
    for what in ("keep_weights", "by_blocks"):
        if not isinstance(getattr(given, what), bool):
            raise TemplateError(f"{name}: {what} of the tiling must be True or False, got {getattr(given, what)!r}")
    return given


def fits(config: Config, problem: TilingProblem, tiling: Tiling) -> bool:
    """Whether every tile fits its buffer, with a copy for each virtual thread."""
    return bool(fitting(config, problem, Candidates.of(tiling))[0])


def fits_somehow(config: Config, problem: TilingProblem) -> bool:
    """Whether the smallest tile fits the buffers."""
    return any(True for _ in fitting_candidates(config, problem, 1))


def ranking_estimate(config: Config, problem: TilingProblem, tiling: Tiling) -> float:
    """The estimate that ranks tilings: a closed form where a coarse run is wrong."""
    if waits_for_memory(config):
        return float(estimated(config, problem, Candidates.of(tiling))[0])
    return estimate(config, problem, tiling)
