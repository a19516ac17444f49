# SPDX-License-Identifier: Apache-2.0
"""Which instruction gives the token that another one takes.

Queues are in order: the n-th token that is taken from a queue is the n-th that was given to it.
"""

from __future__ import annotations

import numpy as np

from vdla.hardware.isa import COL, QUEUES, SIDES, TokenQueue
from vdla.support.arrays import Ints

NONE = -1


def queue_ends(columns: Ints, queue: TokenQueue) -> tuple[Ints, Ints]:
    """The instructions that push a token to a queue, and those that pop one, in order."""
    unit = columns[:, COL["unit"]]
    pushes = np.flatnonzero((columns[:, COL[queue.push]] > 0) & (unit == queue.producer))
    pops = np.flatnonzero((columns[:, COL[queue.pop]] > 0) & (unit == queue.consumer))
    return pushes, pops


def token_givers(columns: Ints) -> Ints:
    """int64[instruction, side]: who gives the token that an instruction pops; NONE without one.

    The sides are those of SIDES.
    """
    givers = np.full((len(columns), len(SIDES)), NONE, np.int64)
    for queue in QUEUES:
        pushes, pops = queue_ends(columns, queue)
        count = min(len(pushes), len(pops))
        givers[pops[:count], SIDES.index(queue.pop.removeprefix("pop_"))] = pushes[:count]
    return givers
