"""A mapping as the tile search sees it: blocks, steps and spans of windows, what padding saves."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from vdla.compiler import ir
from vdla.compiler.map.packed_form import PackedForm
from vdla.compiler.map.packed_operand import PackedOperand, WindowDim
from vdla.compiler.map.packed_scale import PackedScale
from vdla.compiler.operators.vdla.tiling_problem import TilingProblem
from vdla.hardware.config import Buffer


def tiling_problem(form: PackedForm) -> TilingProblem:
    """The problem that `best_tiling` solves for a form."""
    extents, mapping = form.computation.extents, form.mapping
    _, lanes, terms = form.axes
    chunk = mapping.chunk
    high, wide = form.tiled.values()
    window = _window(form)
    through_acc = Buffer.ACC in form.window_buffers.values()
    kept, cuts = (1.0, (0, 0)) if through_acc else _padding(form)
    blocks = 1 if terms is None else mapping.blocks(terms)
    return TilingProblem(
        batches=prod(form.batches.values()),
        out_blocks=mapping.blocks(lanes),
        in_blocks=blocks if chunk is None else extents[chunk],
        rows=high,
        cols=wide,
        taps=prod(extents[axis] for axis in form.loops.taps if axis != chunk),
        row_step=window.rows[0],
        row_span=window.rows[1],
        col_step=window.cols[0],
        col_span=window.cols[1],
        weights=_weights(form),
        raw=form.raw,
        separate=terms is None,
        phases=prod(extents[axis] for axis in form.loops.phases),
        inputs=len(form.streamed),
        unit=window.unit,
        through_acc=through_acc,
        lanes=1 if form.raw else PackedScale(form).classes,
        kept=kept,
        cuts=cuts,
        sections=prod(extents[axis] for axis in form.loops.sections),
        sums=sum(step.intrinsic.in_place is None for step in form.computation.steps),
    )


@dataclass(frozen=True, slots=True)
class _Window:
    """Step and span of rows, of columns; the buffer entries of all other dimensions."""

    rows: tuple[int, int]
    cols: tuple[int, int]
    unit: int


def _window(form: PackedForm) -> _Window:
    """The largest window of an operand."""
    return max((_window_of(form, name) for name in form.streamed), key=lambda w: w.rows[1] * w.cols[1] * w.unit)


def _window_of(form: PackedForm, name: str) -> _Window:
    operand = form.streamed[name]
    taps = {axis: form.computation.extents[axis] for axis in form.loops.taps if axis != form.mapping.chunk}
    found: dict[str | None, tuple[int, int]] = {}
    unit = _entries(form, operand, form.window_buffers[name])
    unit *= prod(form.computation.extents[axis] for axis in operand.loops if axis in (*taps, *form.loops.phases))
    for window in operand.windows:
        moving = next((axis for axis in window.strides if axis in form.loops.tiled), None)
        span = 1 + window.reach
        span += sum(stride * (taps[axis] - 1) for axis, stride in window.strides.items() if axis in taps)
        if moving is not None:
            found[moving] = window.strides[moving], span
        else:
            unit *= span
    rows, cols = (found.get(axis, (1, 1)) if axis else (1, 1) for axis in form.loops.tiled)
    return _Window(rows, cols, unit)


def _entries(form: PackedForm, operand: PackedOperand, buffer: Buffer) -> int:
    """Buffer entries of an entry of an operand."""
    if buffer is Buffer.ACC:
        return 1
    bits = prod(operand.lanes) * ir.INTEGER_BITS[operand.source.dtype]
    return max(1, bits // (form.config.entry_bytes[buffer] * 8))


def _weights(form: PackedForm) -> int:
    """Entries of weights for one block of results and one of terms."""
    if form.held is None:
        return 0
    extents, axes = form.computation.extents, form.held.access.axes
    chunked = extents[form.mapping.chunk] if form.mapping.chunk else 1
    vectors = prod(extents[axis] for axis in (*form.loops.taps, *form.loops.phases) if axis in axes) // chunked
    count = form.held.lanes[0] if len(form.held.lanes) > len(form.held.entry) else 1
    return -(-vectors // count)


# --- padding --------------------------------------------------------------------------------------


def _padding(form: PackedForm) -> tuple[float, tuple[int, int]]:
    """The share of the terms that do not read padding, which is skipped, and the borders between
    rows, and between columns, of which different terms are skipped.
    """
    name = form.computation.streamed[0]
    operand = form.streamed[name]
    gather = operand.access.gather
    if gather is None or gather.fill != _neutral(form):
        return 1.0, (0, 0)
    share, cuts = 1.0, {}
    for window in operand.windows:
        inside, results = _reads_inside(form, operand, window)
        share *= float(inside.mean())
        for axis in results:
            cuts[axis] = int((inside[1:] != inside[:-1]).any(axis=1).sum())
    rows, cols = (cuts.get(str(axis), 0) for axis in form.loops.tiled)
    return share, (rows, cols)


def _neutral(form: PackedForm) -> int:
    """The element that changes no sum."""
    stage = form.computation.stage
    reducer = stage.reduction.reducer.name if stage.reduction is not None else "sum"
    low, high = ir.limits(form.operands[form.computation.streamed[0]].source.dtype)
    return {"max": int(low), "min": int(high)}.get(reducer, 0)


def _reads_inside(
    form: PackedForm, operand: PackedOperand, window: WindowDim
) -> tuple[npt.NDArray[np.bool_], list[str]]:
    """[result, tap]: whether the tap reads the input, in one dimension; the axes of its results."""
    extents, terms = form.computation.extents, window.form.terms
    results = [axis for axis in terms if axis in form.computation.spatial]
    reach = [np.arange(extents[axis]) * terms[axis] for axis in (*results, *(a for a in terms if a not in results))]
    at = window.first - window.before + sum(np.ix_(*reach))
    inside = (at >= 0) & (at < operand.source.shape[window.dimension])
    return inside.reshape(prod(extents[axis] for axis in results), -1), results
