"""A mapping as the tile search sees it: blocks, steps and spans of windows, what padding saves."""

from __future__ import annotations

from math import prod

import numpy as np

from vdla.compiler.map.packed_form import PackedForm
from vdla.compiler.operators.vdla.tiling_problem import TilingProblem


def tiling_problem(form: PackedForm) -> TilingProblem:
    """The problem that `best_tiling` solves for a form."""
    extents, mapping = form.contraction.extents, form.mapping
    rows, lanes, terms = form.axes
    row_step, row_span, col_step, col_span, unit = _steps(form)
    high, wide = (1 if axis is None else extents[axis] for axis in form.tiled)
    return TilingProblem(
        batches=mapping.blocks(rows) * prod(extents[axis] for axis in form.batches),
        out_blocks=mapping.blocks(lanes),
        in_blocks=mapping.blocks(terms),
        rows=high,
        cols=wide,
        taps=prod(extents[axis] for axis in form.taps),
        row_step=row_step,
        row_span=row_span,
        col_step=col_step,
        col_span=col_span,
        weights=prod(extents[axis] for axis in form.taps if axis in form.held.access.axes),
        raw=form.raw,
        unit=unit,
        sections=prod(extents[axis] for axis in form.sections),
        kept=_kept(form),
    )


def _steps(form: PackedForm) -> tuple[int, int, int, int, int]:
    """Step and span of rows, of columns; the entries of all other dimensions of a window."""
    taps = {axis: form.contraction.extents[axis] for axis in form.taps}
    found: dict[str | None, tuple[int, int]] = {}
    unit = prod(taps[axis] for axis in form.streamed.loops if axis in taps)
    for window in form.streamed.windows:
        moving = next((axis for axis in window.strides if axis in form.contraction.spatial), None)
        span = 1 + sum(stride * (taps[axis] - 1) for axis, stride in window.strides.items() if axis in taps)
        if moving is not None and moving in form.tiled:
            found[moving] = window.strides[moving], span
        else:
            unit *= span
    rows, cols = (found.get(axis, (1, 1)) if axis else (1, 1) for axis in form.tiled)
    return *rows, *cols, unit


def _kept(form: PackedForm) -> float:
    """The share of the terms that do not read padding of 0, which is skipped."""
    padding = form.streamed.access.padding
    if padding is None or padding.fill:
        return 1.0
    share = 1.0
    for window in form.streamed.windows:
        reach = [np.arange(form.contraction.extents[axis]) * factor for axis, factor in window.form.terms.items()]
        at = window.form.const - padding.before[window.dimension] + sum(np.ix_(*reach))
        share *= float(((at >= 0) & (at < form.streamed.source.shape[window.dimension])).mean())
    return share
