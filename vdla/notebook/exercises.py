# SPDX-License-Identifier: Apache-2.0
"""Exercises of the course: a check says whether an answer is right, and not what would be.

check("cycles of the two tiles", answer, result.statistics.total_cycles)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Mark:
    """What a check says of an answer; true where the answer is right."""

    text: str
    solved: bool

    def __bool__(self) -> bool:
        return self.solved

    def __repr__(self) -> str:
        return f"{'solved' if self.solved else 'not yet'}: {self.text}"


def check(what: str, answer: object, wanted: object) -> Mark:
    """The mark of an answer, which is right if it equals `wanted`; None stands for no answer.

    Arrays, lists and tuples are equal element by element, floats to nine digits.
    """
    if answer is None:
        return Mark(f"{what} (no answer)", False)
    if _equal(answer, wanted):
        return Mark(what, True)
    return Mark(f"{what}, got {answer}" if isinstance(answer, bool | int | float | str) else what, False)


def _equal(answer: object, wanted: object) -> bool:
    match answer, wanted:
        case (list() | tuple(), list() | tuple()):
            return len(answer) == len(wanted) and all(
                _equal(one, other) for one, other in zip(answer, wanted, strict=True)
            )
        case (np.ndarray(), np.ndarray()):
            return np.array_equal(answer, wanted)
        case (np.ndarray(), _) | (_, np.ndarray()):
            return False
        case (float(), int() | float()):
            return bool(np.isclose(answer, wanted, rtol=1e-9, atol=0))
    return bool(answer == wanted)
