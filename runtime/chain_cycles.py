"""The cycles of each step of a chain, from the times of its instructions."""

from __future__ import annotations

import numpy as np

from vdla.compiler.operators.vdla import Chain
from vdla.hardware.isa import COL, Unit
from vdla.simulator.stats import RunStats


def chain_cycles(chain: Chain, stats: RunStats) -> dict[str, int]:
    """The cycles of each step by name; they sum to the total.

    A cycle belongs to the compute instruction that ends next, so waiting counts for the step that
    waits; the last step has the cycles after the last one. Steps may overlap: a step has only the
    cycles of its own computation.
    """
    compute = np.flatnonzero(chain.program.columns[:, COL["unit"]] == Unit.COMPUTE)
    steps = _following(chain.step_of[compute])
    cycles = np.diff(stats.ends[compute], prepend=0)
    cycles[-1] += stats.total_cycles - stats.ends[compute[-1]]
    sums = np.bincount(steps, cycles, len(chain.steps)).astype(np.int64)
    return {step.name: int(count) for step, count in zip(chain.steps, sums, strict=True)}


def _following(
    steps: np.ndarray[tuple[int, ...], np.dtype[np.int32]],
) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """The step of every instruction; one of no step belongs to that of the next, or of the last."""
    own = np.flatnonzero(steps >= 0)
    following = np.minimum(np.searchsorted(own, np.arange(len(steps))), len(own) - 1)
    return np.asarray(steps[own[following]], np.int64)
