# SPDX-License-Identifier: Apache-2.0
"""A schedule: a function and the primitives applied to it so far.

    s = Schedule(fn)
    y, x = s.loops("c")[:2]
    yo, yi = s.split(y, factor=4)
    s.reorder(yo, x, yi)
    print(s.fn)

Each primitive applies a function of this folder to `s.fn`. One that would change the function's
result raises a ScheduleError and leaves the schedule as it was; an accepted one is recorded in
`s.trace`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping

from vdla.compiler import ir
from vdla.compiler.analysis.independence import CheckedLoops
from vdla.compiler.analysis.tree import ScheduleError, is_unchecked
from vdla.compiler.schedule.blockize import CheckedSteps, steps_of
from vdla.compiler.schedule.blockize import blockize as _blockize
from vdla.compiler.schedule.cache import cache_read as _cache_read
from vdla.compiler.schedule.cache import cache_write as _cache_write
from vdla.compiler.schedule.cache import reindex as _reindex
from vdla.compiler.schedule.compute_at import compute_at as _compute_at
from vdla.compiler.schedule.compute_at import reverse_compute_at as _reverse_compute_at
from vdla.compiler.schedule.compute_once import compute_once as _compute_once
from vdla.compiler.schedule.decompose_reduction import decompose_reduction as _decompose_reduction
from vdla.compiler.schedule.full_extent import full_extent as _full_extent
from vdla.compiler.schedule.inline import inline as _inline
from vdla.compiler.schedule.inline import reverse_inline as _reverse_inline
from vdla.compiler.schedule.loop_kinds import annotate as _annotate
from vdla.compiler.schedule.loop_kinds import bind as _bind
from vdla.compiler.schedule.loop_kinds import loops_of
from vdla.compiler.schedule.loop_kinds import parallel as _parallel
from vdla.compiler.schedule.loop_kinds import set_scope as _set_scope
from vdla.compiler.schedule.loop_kinds import unroll as _unroll
from vdla.compiler.schedule.loop_kinds import vectorize as _vectorize
from vdla.compiler.schedule.loop_kinds import vthread as _vthread
from vdla.compiler.schedule.reorder import reorder as _reorder
from vdla.compiler.schedule.reorder import tile as _tile
from vdla.compiler.schedule.rfactor import rfactor as _rfactor
from vdla.compiler.schedule.rfactor import thread_reduce as _thread_reduce
from vdla.compiler.schedule.split import fuse as _fuse
from vdla.compiler.schedule.split import split as _split
from vdla.compiler.schedule.storage import atomic as _atomic
from vdla.compiler.schedule.storage import double_buffer as _double_buffer
from vdla.compiler.schedule.storage import prefetch as _prefetch
from vdla.compiler.schedule.storage import storage_align as _storage_align
from vdla.compiler.schedule.storage import store_at as _store_at
from vdla.compiler.schedule.storage import strips as _strips
from vdla.compiler.schedule.trace import ScheduleTrace, is_primitive, naming_primitive, parse_trace, primitive, recorded
from vdla.compiler.tensorize import Intrinsic
from vdla.compiler.tensorize import tensorize as _tensorize
from vdla.support.html_repr import shown_by


class Schedule:
    """Applies primitives to `fn` in sequence. Loops, blocks and buffers are named by strings.

    `unscheduled` is the function before all of them.
    """

    def __init__(self, fn: ir.Function) -> None:
        if not isinstance(fn, ir.Function):
            raise ScheduleError(f"schedule: fn must be a Function, as of te.create_function, got {type(fn).__name__}")
        self.unscheduled = fn
        self.fn = fn
        self.trace = ScheduleTrace()
        self.checked_loops: CheckedLoops = {}  # concurrent loops whose iterations are known to be independent
        self.checked_steps: CheckedSteps = {}  # tensorized nests that are known to match

    @classmethod
    def replay(
        cls, fn: ir.Function, trace: ScheduleTrace | str, intrinsics: Mapping[str, Intrinsic] | None = None
    ) -> Schedule:
        """`fn` scheduled by a trace or its text; `intrinsics` maps the names in the text."""
        known = {name: inspect.signature(method) for name, method in vars(cls).items() if is_primitive(method)}
        if isinstance(trace, str):
            trace = parse_trace(trace, known, intrinsics or {})
        if not isinstance(trace, ScheduleTrace):
            raise ScheduleError(f"replay: trace must be a ScheduleTrace or its text, got {type(trace).__name__}")
        schedule = cls(fn)
        for step in trace:
            if step.name not in known:
                raise ScheduleError(f"replay: a step must be one of {', '.join(known)}, got {step.name!r}")
            getattr(schedule, step.name)(*step.args, **step.keywords)
        return schedule

    def python(self) -> str:
        """The Python function that rebuilds the schedule; `replay` reads it."""
        return self.trace.python()

    def __repr__(self) -> str:
        steps = len(self.trace)
        return f"<Schedule of {self.fn.name}: {steps} primitive{'' if steps == 1 else 's'}>"

    def __str__(self) -> str:
        return str(self.fn)

    _repr_html_ = shown_by("schedules", "schedule_html")

    def loops(self, block: str) -> list[str]:
        """The loops around a block, outermost first."""
        return loops_of(self.fn, block)

    # Each is the function of that name, on the schedule in place of its function.
    split = naming_primitive(_split)
    fuse = naming_primitive(_fuse)
    reorder = primitive(_reorder)
    unroll = primitive(_unroll)
    tile = naming_primitive(_tile)
    vthread = primitive(_vthread)
    parallel = primitive(_parallel)
    vectorize = primitive(_vectorize)
    bind = primitive(_bind)
    annotate = primitive(_annotate)
    set_scope = primitive(_set_scope)
    compute_at = primitive(_compute_at)
    compute_once = primitive(_compute_once)
    reverse_compute_at = primitive(_reverse_compute_at)
    inline = primitive(_inline)
    cache_read = naming_primitive(_cache_read)
    reindex = naming_primitive(_reindex)
    cache_write = naming_primitive(_cache_write)
    blockize = naming_primitive(_blockize)
    store_at = primitive(_store_at)
    strips = primitive(_strips)
    full_extent = primitive(_full_extent)
    decompose_reduction = naming_primitive(_decompose_reduction)
    rfactor = naming_primitive(_rfactor)
    atomic = primitive(_atomic)
    thread_reduce = naming_primitive(_thread_reduce)
    reverse_inline = primitive(_reverse_inline)
    double_buffer = primitive(_double_buffer)
    prefetch = primitive(_prefetch)
    storage_align = primitive(_storage_align)

    @recorded
    def tensorize(self, name: str, intrinsic: Intrinsic) -> None:
        """Run a block's entry, or a nest from a loop inwards, as one intrinsic call."""
        if is_unchecked():
            self.fn = _tensorize(self.fn, name, intrinsic)
            return
        before = steps_of(self.fn)
        self.fn = _tensorize(self.fn, name, intrinsic)
        matched = {block: step for block, (_, step) in steps_of(self.fn).items() if block not in before}
        self.checked_steps = {**self.checked_steps, **matched}
