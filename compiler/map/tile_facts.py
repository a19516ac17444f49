# SPDX-License-Identifier: Apache-2.0
"""What padding saves: the compiler leaves out terms that read an element which changes no sum."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler import ir
from vdla.compiler.map.access import WindowDim, form_values
from vdla.compiler.map.computation import Step
from vdla.compiler.map.packed_form import PackedForm
from vdla.compiler.map.packed_lanes import lanes_of
from vdla.compiler.map.packed_operand import PackedOperand
from vdla.compiler.map.packed_scale import PackedScale
from vdla.compiler.operators.vdla.tiling_problem import TilingProblem
from vdla.compiler.tensorize import StepCycles
from vdla.hardware.config import Buffer


def share_read(form: PackedForm) -> float:
    """The share of the terms that do not read padding."""
    return float(np.prod([_reads_inside(form, window)[0].mean() for window in _windows(form)]))


def borders(form: PackedForm, axis: str | None) -> set[int]:
    """The places along an axis of the result from which on other terms are left out."""
    result: set[int] = set()
    for window in _windows(form):
        inside, results = _reads_inside(form, window)
        if axis in results:
            result = set((1 + np.flatnonzero((inside[1:] != inside[:-1]).any(axis=1))).tolist())
    return result


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


def tiling_problem(form: PackedForm, scale: PackedScale | None) -> TilingProblem:
    """The problem that `best_tiling` solves for a form; raw results have no scale."""
    extents, mapping = form.computation.extents, form.mapping
    _, lanes, terms = form.axes
    chunk = mapping.chunk
    high, wide = form.tiled.values()
    through_acc = Buffer.ACC in form.window_buffers.values()
    through_wgt = Buffer.WGT in form.window_buffers.values()
    known = not through_acc and not form.loops.phases  # the estimate knows no borders of phases
    cuts = [borders(form, axis) if known else set() for axis in form.loops.tiled]
    breaks = [cut | (scale.breaks(axis) if scale else set()) for cut, axis in zip(cuts, form.loops.tiled, strict=True)]
    blocks = 1 if terms is None else mapping.blocks(terms)
    cycles = _cycles(form)
    return TilingProblem(
        batches=prod(form.batches.values()),
        out_blocks=extents[form.separate] if form.separate else mapping.blocks(lanes),
        in_blocks=blocks if chunk is None else extents[chunk],
        rows=high,
        cols=wide,
        taps=prod(extents[axis] for axis in form.loops.taps if axis != chunk),
        weights=_weights(form),
        raw=form.raw,
        separate=terms is None or form.held is None or form.separate is not None,
        phases=prod(extents[axis] for axis in form.loops.phases),
        inputs=len(form.streamed),
        **_window(form),
        through_acc=through_acc,
        through_wgt=through_wgt,
        lanes=1 if scale is None else scale.classes,
        kept=share_read(form) if known else 1.0,
        cuts=(len(cuts[0]), len(cuts[1])),
        breaks=(len(breaks[0]), len(breaks[1])),
        sections=prod(extents[axis] for axis in form.loops.sections if axis != form.separate),
        sums=sum(step.intrinsic.in_place is None for step in form.computation.all_steps),
        entry=form.config.wgt_entry_bytes / form.config.inp_entry_bytes if through_wgt else 1.0,
        step=cycles.step,
        pause=cycles.pause,
        after=_step_cycles(form.computation.steps_after),
        resident=_resident(form),
    )


def _cycles(form: PackedForm) -> StepCycles:
    """The cost of all steps of a term; one cycle where the machine's own units compute it."""
    result = _declared_cycles(form.computation.steps)
    if not result:
        return StepCycles(1, 0)
    return StepCycles(_step_cycles(form.computation.steps), sum(cost.pause for cost in result))


def _step_cycles(steps: Sequence[Step]) -> int:
    """The cycles of steps, one after the other."""
    declared = _declared_cycles(steps)
    return len(steps) - len(declared) + sum(cost.step for cost in declared)


def _declared_cycles(steps: Sequence[Step]) -> list[StepCycles]:
    """The costs of those of some steps that extensions compute."""
    result: list[StepCycles] = []
    for step in steps:
        immediates = {name: int(read.value) for name, read in step.reads.items() if isinstance(read, ir.Const)}
        result += [step.intrinsic.cycles(immediates)] if step.intrinsic.cycles else []
    return result


def _resident(form: PackedForm) -> tuple[int, int, int]:
    """Entries of the input, the weight and the accumulator buffer that operands of lanes take.

    MapError where one of them is no operand of lanes in this form.
    """
    sizes = {Buffer.INP: 0, Buffer.WGT: 0, Buffer.ACC: 0}
    for operand in lanes_of(form).values():
        operand.require_lanes()
        sizes[operand.buffer] += operand.entries
    return sizes[Buffer.INP], sizes[Buffer.WGT], sizes[Buffer.ACC]


def _window(form: PackedForm) -> dict[str, Any]:
    """The largest window of an operand: step and span of rows, of columns; the buffer entries of
    all other dimensions.
    """
    windows = (_window_of(form, name) for name in form.streamed)
    return max(windows, key=lambda window: int(window["row_span"] * window["col_span"] * window["unit"]))


def _window_of(form: PackedForm, name: str) -> dict[str, int]:
    operand = form.streamed[name]
    taps = {axis: form.computation.extents[axis] for axis in form.loops.taps if axis != form.mapping.chunk}
    result: dict[str | None, tuple[int, int]] = {}
    unit = _entries(form, operand, form.window_buffers[name])
    unit *= prod(form.computation.extents[axis] for axis in operand.loops if axis in (*taps, *form.loops.phases))
    for window in operand.windows:
        moving = next((axis for axis in window.strides if axis in form.loops.tiled), None)
        span = 1 + window.reach
        span += sum(stride * (taps[axis] - 1) for axis, stride in window.strides.items() if axis in taps)
        if moving is not None:
            result[moving] = window.strides[moving], span
        else:
            unit *= span
    rows, cols = (result.get(axis, (1, 1)) if axis else (1, 1) for axis in form.loops.tiled)
    return dict(zip(("row_step", "row_span", "col_step", "col_span", "unit"), (*rows, *cols, unit), strict=True))


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
    return -(-vectors // count) * _entries(form, form.held, Buffer.WGT)
