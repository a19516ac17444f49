"""What padding saves: the compiler leaves out terms that read an element which changes no sum."""

from __future__ import annotations

from math import prod

import numpy as np
import numpy.typing as npt

from vdla.compiler import ir
from vdla.compiler.map.operand_dimensions import WindowDim, form_values
from vdla.compiler.map.packed_form import PackedForm


def share_read(form: PackedForm) -> float:
    """The share of the terms that do not read padding."""
    return float(np.prod([_reads_inside(form, window)[0].mean() for window in _windows(form)]))


def borders(form: PackedForm, axis: str | None) -> set[int]:
    """The places along an axis of the result from which on other terms are left out."""
    found: set[int] = set()
    for window in _windows(form):
        inside, results = _reads_inside(form, window)
        if axis in results:
            found = set((1 + np.flatnonzero((inside[1:] != inside[:-1]).any(axis=1))).tolist())
    return found


def _windows(form: PackedForm) -> tuple[WindowDim, ...]:
    """The dimensions of the first operand along which padding is left out."""
    operand = form.streamed[form.computation.streamed[0]]
    gather, skips = operand.access.gather, form.mapping.intrinsic.skips_padding
    return () if gather is None or not skips or gather.fill != _neutral(form) else operand.windows


def _neutral(form: PackedForm) -> int:
    """The element that changes no sum."""
    stage = form.computation.stage
    reducer = stage.reduction.reducer.name if stage.reduction is not None else "sum"
    low, high = ir.limits(form.operands[form.computation.streamed[0]].source.dtype)
    return {"max": int(low), "min": int(high)}.get(reducer, 0)


def _reads_inside(form: PackedForm, window: WindowDim) -> tuple[npt.NDArray[np.bool_], list[str]]:
    """[result, tap]: whether the tap reads the input, in one dimension; the axes of its results."""
    extents, axes = form.computation.extents, sorted(window.form.axes)
    results = [axis for axis in axes if axis in form.computation.spatial]
    order = [*results, *(axis for axis in axes if axis not in results)]
    at = form_values(window.form, {axis: extents[axis] for axis in order}) - window.before
    size = form.streamed[form.computation.streamed[0]].source.shape[window.dimension]
    inside = np.broadcast_to((at >= 0) & (at < size), [extents[axis] for axis in order])
    return inside.reshape(prod(extents[axis] for axis in results), -1), results
