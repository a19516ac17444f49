# SPDX-License-Identifier: Apache-2.0
"""The time-independent data of each step of a coarse run of tiles.

Arrays are [step, candidate]. Candidates with more steps come first, so that the active ones of each
step are a leading slice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.operators.vdla.tile_candidates import Candidates
from vdla.compiler.operators.vdla.tile_rates import Bools, Floats, Ints, TileRates, TileSteps
from vdla.compiler.operators.vdla.tiling_problem import LOOPS, TilingProblem

REMEMBERED = 4
"""The number of iterations whose commands may still be queued in compute."""

_CHUNKS, _GROUPS = LOOPS.index("chunks"), LOOPS.index("groups")


@dataclass(frozen=True, slots=True)
class RunPlan:
    """`active` is the number of candidates that run in each step; `keeps` has one value per
    candidate.

    `turn` and `copy` index the state of the loading and of the computing virtual thread. Cycles of
    all output blocks are `blocks` of computation, `later_weights` after the first, and
    `all_stored`; the last computation ends `after_first` and `after_last` weights at the earliest.
    With several passes, compute may begin before all data have arrived, by `early_share` of the
    transfer. `dispatched_in` and `dispatched_at` say when the next load is dispatched: during which
    remembered computation, and at which fraction of it. `waits`: kept weights are replaced after
    the previous computation; `lanes_wait`: so are scale lanes. `repeats` has the loops for which a
    step is the last one `before` the repeated iterations or the last of them.

    `emits` and the other lists of flags: whether something takes time, or differs from zero, for
    any candidate in a step; of `queues`: whether the next load is dispatched during a computation.

    For tiles in strips (`in_strips`: any are), computation begins before its window is complete, by
    the fraction `early_strip` of the transfer, and emits the first results after `first_results`;
    the last strip takes `last_store` to store. The next window may overwrite the buffer `lead`
    cycles before the computation ends, except for `late_share` of it.
    """

    active: list[int]
    emits: list[bool]
    all_emit: list[bool]
    pads: list[bool]
    fetches_weights: list[bool]
    queues: list[bool]
    replaces_weights: list[bool]
    replaces_lanes: list[bool]
    begins_early: list[bool]
    repeats: list[list[int]]
    ends_repeats: list[list[int]]
    keeps: Bools
    completes: Bools
    turn: Ints
    copy: Ints
    window: Floats
    padding: Ints
    weights: Floats
    later_weights: Floats
    fetched: Floats
    waits: Bools
    lanes_wait: Bools
    early_share: Floats
    blocks: Floats
    after_first: Floats
    after_last: Floats
    all_stored: Floats
    dispatched_in: Ints
    dispatched_at: Floats
    before: Mapping[int, Bools]
    after: Mapping[int, Bools]
    in_strips: bool
    early_strip: Floats
    first_results: Floats
    last_store: Floats
    lead: Floats
    late_share: Floats

    @staticmethod
    def of(problem: TilingProblem, rates: TileRates, c: Candidates, steps: TileSteps) -> RunPlan:
        """The plan of candidates that are sorted by their number of steps."""
        threads, at = steps.turn * len(c), np.arange(len(c))
        blocks, cycles, parts = steps.out_blocks, rates.computation, rates.parts
        repeats = {loop: steps.repeats(loop) for loop in steps.long_loops}
        dispatched_in, dispatched_at = _dispatched(rates)
        first, last = rates.strips
        lead, late_share = _overlap(problem, rates, c, steps)
        early_share = np.where(parts > 1, 1 - 1 / parts, 0.0)
        replaced = steps.starts_group & (c.over != _GROUPS)
        waits, lanes_wait = replaced & (not rates.all_weights_fit), replaced & rates.lanes_are_replaced

        def somewhere(where: Bools) -> list[bool]:
            return _in_steps((where & steps.active).any(axis=1))

        used = {loop: somewhere(before | after) for loop, (before, after) in repeats.items()}
        ends = {loop: somewhere(after) for loop, (_, after) in repeats.items()}
        return RunPlan(
            active=steps.active.sum(axis=1).tolist(),
            emits=somewhere(steps.completes),
            all_emit=_in_steps((steps.completes | ~steps.active).all(axis=1)),
            pads=somewhere(rates.padding > 0),
            fetches_weights=somewhere(rates.weights > 0),
            queues=somewhere(dispatched_in != REMEMBERED),
            replaces_weights=somewhere(waits),
            replaces_lanes=somewhere(lanes_wait),
            begins_early=somewhere(early_share > 0),
            repeats=[[loop for loop in used if used[loop][index]] for index in range(len(steps))],
            ends_repeats=[[loop for loop in ends if ends[loop][index]] for index in range(len(steps))],
            keeps=c.keep_weights,
            completes=steps.completes,
            turn=threads + at,
            copy=np.where(c.over == _CHUNKS, 0, threads) + at,
            window=rates.window,
            padding=rates.padding,
            weights=rates.weights,
            later_weights=(blocks - 1) * rates.weights,
            fetched=rates.fetched,
            waits=waits,
            lanes_wait=lanes_wait,
            early_share=early_share,
            blocks=blocks * cycles,
            after_first=(blocks - 1 + 1 / (parts * first)) * cycles,
            after_last=cycles / np.where(blocks == 1, parts * first, parts),
            all_stored=blocks * rates.store,
            dispatched_in=dispatched_in * len(c) + at,
            dispatched_at=dispatched_at,
            before={loop: before for loop, (before, _) in repeats.items()},
            after={loop: after for loop, (_, after) in repeats.items()},
            in_strips=bool((c.strips > 1).any()),
            early_strip=(1 - 1 / first) / parts,
            first_results=cycles / last,
            last_store=rates.store / last,
            lead=lead,
            late_share=late_share,
        )


def _overlap(problem: TilingProblem, rates: TileRates, c: Candidates, steps: TileSteps) -> tuple[Floats, Floats]:
    """The overlap of the next window with the computation on the same buffer: the cycles by which
    it may arrive before the end, and the share that must wait.

    The last two strips read the entries that the next window replaces first. With one thread,
    output blocks with separate channels, and those that emit results, are computed in strips;
    others read the whole window.
    """
    blocks, strips = steps.out_blocks, c.strips
    alone = (c.threads == 1) & (strips > 1)
    alone = alone & (problem.separate | steps.completes | (blocks == 1))
    several = blocks if problem.separate else np.ones_like(blocks)
    lead = np.where(alone, np.maximum(0, several - 2 / strips) * rates.computation, 0.0)
    return lead, np.where(alone, np.where(several > 1, 1 / several, 1 / strips), 1.0)


def _in_steps(flags: NDArray[np.bool_] | np.bool_) -> list[bool]:
    """A flag of each step, bool[steps], as Python's."""
    return [bool(flag) for flag in np.asarray(flags).tolist()]


def _dispatched(rates: TileRates) -> tuple[Ints, Floats]:
    """The time at which the load unit gets its next command, limited by the depth of the compute
    queue.

    The iteration is `REMEMBERED` if the queue has room for all commands.
    """
    counts, index = rates.computations, np.arange(len(rates.computations))[:, None]
    iteration, part = np.full(counts.shape, REMEMBERED), np.zeros(counts.shape)
    room = np.full(counts.shape, float(rates.command_depth))
    for back in range(1, REMEMBERED + 1):
        count = np.zeros(counts.shape)
        count[back:] = counts[:-back]
        here = (room > 0) & (room <= count)
        iteration = np.where(here, (index - back) % REMEMBERED, iteration)
        part[here] = 1 - room[here] / count[here]
        room = room - count
    return iteration, part
