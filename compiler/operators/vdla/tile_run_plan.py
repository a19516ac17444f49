"""What a coarse run of tiles needs of each step that does not depend on times.

Arrays are [step, candidate]. Candidates with more steps come first, so that in every step those
that run are a slice at the front.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from vdla.compiler.operators.vdla.tile_candidates import Candidates
from vdla.compiler.operators.vdla.tile_rates import TileRates
from vdla.compiler.operators.vdla.tile_steps import Bools, Floats, Ints, TileSteps
from vdla.compiler.operators.vdla.tiling_problem import LOOPS

REMEMBERED = 4
"""Iterations of which compute may still hold commands."""

_CHUNKS, _GROUPS = LOOPS.index("chunks"), LOOPS.index("groups")


@dataclass(frozen=True, slots=True)
class RunPlan:
    """`active` has the number of candidates that run in each step, `keeps` one value for each.

    `turn` and `copy` are where the state of a virtual thread is that loads, and that computes.
    Cycles of all output blocks are `blocks` of computation, `other_weights` after the first, and
    `all_stored`; the last computation ends `after_first` and `after_last` weights at the earliest.
    With several passes, compute may begin before all has arrived, by `early_share` of the time that
    it takes. `dispatched_in` and `dispatched_at` say when the next load is dispatched: which
    remembered computation runs then, and the part of it that is over. `waits`: kept weights are
    replaced, after the computation before. `repeats` has the loops of which a step is `before` the
    repeated iterations or the last of them.
    """

    active: list[int]
    emits: list[bool]
    pads: list[bool]
    repeats: list[list[int]]
    keeps: Bools
    completes: Bools
    turn: Ints
    copy: Ints
    window: Floats
    padding: Ints
    weights: Floats
    other_weights: Floats
    fetched: Floats
    waits: Bools
    early_share: Floats
    computation: Floats
    blocks: Floats
    after_first: Floats
    after_last: Floats
    store: Floats
    all_stored: Floats
    dispatched_in: Ints
    dispatched_at: Floats
    before: Mapping[int, Bools]
    after: Mapping[int, Bools]

    @staticmethod
    def of(rates: TileRates, c: Candidates, steps: TileSteps) -> RunPlan:
        """The plan of candidates that are sorted by their number of steps."""
        threads, at = steps.turn * len(c), np.arange(len(c))
        blocks, cycles, parts = steps.out_blocks, rates.computation, rates.parts
        repeats = {loop: steps.repeats(loop) for loop in steps.long_loops}
        used = {loop: _somewhere(before | after) for loop, (before, after) in repeats.items()}
        dispatched_in, dispatched_at = _dispatched(rates)
        return RunPlan(
            active=steps.active.sum(axis=1).tolist(),
            emits=_somewhere(steps.completes),
            pads=_somewhere(rates.padding > 0),
            repeats=[[loop for loop in used if used[loop][index]] for index in range(len(steps))],
            keeps=c.keep_weights,
            completes=steps.completes,
            turn=threads + at,
            copy=np.where(c.over == _CHUNKS, 0, threads) + at,
            window=rates.window,
            padding=rates.padding,
            weights=rates.weights,
            other_weights=(blocks - 1) * rates.weights,
            fetched=rates.fetched,
            waits=steps.starts_group & (c.over != _GROUPS) & (not rates.all_weights_fit),
            early_share=np.where(parts > 1, 1 - 1 / parts, 0.0),
            computation=cycles,
            blocks=blocks * cycles,
            after_first=(blocks - 1 + 1 / parts) * cycles,
            after_last=cycles / parts,
            store=rates.store,
            all_stored=blocks * rates.store,
            dispatched_in=dispatched_in * len(c) + at,
            dispatched_at=dispatched_at,
            before={loop: before for loop, (before, _) in repeats.items()},
            after={loop: after for loop, (_, after) in repeats.items()},
        )


def _somewhere(where: Bools) -> list[bool]:
    """For each step, whether it is so for some candidate."""
    return [bool(each.any()) for each in where]


def _dispatched(rates: TileRates) -> tuple[Ints, Floats]:
    """When the load unit gets its next command: the queue of compute holds only so many.

    The iteration that runs then is `REMEMBERED` where the queue has room for all.
    """
    counts, index = rates.computations, np.arange(len(rates.computations))[:, None]
    found, part = np.full(counts.shape, REMEMBERED), np.zeros(counts.shape)
    left = np.full(counts.shape, float(rates.command_depth))
    for back in range(1, REMEMBERED + 1):
        count = np.zeros(counts.shape)
        count[back:] = counts[:-back]
        here = (left > 0) & (left <= count)
        found = np.where(here, (index - back) % REMEMBERED, found)
        part[here] = 1 - left[here] / count[here]
        left = left - count
    return found, part
