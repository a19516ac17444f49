"""The Pareto front: machines that no other one beats in time and in every resource."""

from __future__ import annotations

from collections.abc import Sequence

Objectives = tuple[float, ...]
"""Less is better in each place."""


def on_front(points: Sequence[Objectives]) -> list[bool]:
    """Whether no other point is at most as large in every place and smaller in one."""
    return [not any(_dominates(other, point) for other in points) for point in points]


def _dominates(one: Objectives, other: Objectives) -> bool:
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))
