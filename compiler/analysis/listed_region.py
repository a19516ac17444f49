"""Boxes of elements by listing them, where the terms of indices prove nothing.

A tile that threads fetch in turns is such a case: its elements are numbered, and a condition ends
the last turn in the middle of a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from vdla.compiler import ir
from vdla.compiler.arith import AffineError, Linear, evaluate, var_names

_MOST_ITERATIONS = 1 << 16


def listed_box(
    forms: Sequence[Linear], conditions: Sequence[ir.Expr], extents: Mapping[str, ir.Extent]
) -> list[tuple[int, int]] | None:
    """The first and the last value of each form over the loops of `extents`, where all conditions
    hold.

    None if some combination of values between them is not taken, if a form depends on other
    variables, or if there are too many iterations.
    """
    names = sorted(set().union(*(var_names(form.expr()) for form in forms), *map(var_names, conditions)))
    sizes = [extent for name in names if isinstance(extent := extents.get(name), int)]
    if len(sizes) < len(names) or prod(sizes) > _MOST_ITERATIONS:
        return None
    grid = dict(zip(names, np.ix_(*map(np.arange, sizes)), strict=True))
    held = np.ones(sizes, np.bool_)
    try:
        for condition in conditions:
            held &= np.asarray(evaluate(condition, grid), np.bool_)
        values = [np.broadcast_to(evaluate(form.expr(), grid), held.shape)[held] for form in forms]
    except AffineError:
        return None
    if not held.any():
        return None
    box = [(int(value.min()), int(value.max())) for value in values]
    taken = np.unique(np.stack(values), axis=1).shape[1]
    return box if taken == prod(last - first + 1 for first, last in box) else None
