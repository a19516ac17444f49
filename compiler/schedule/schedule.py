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
from typing import Any

from vdla.compiler import ir
from vdla.compiler.analysis.errors import ScheduleError
from vdla.compiler.analysis.independence import CheckedLoops
from vdla.compiler.analysis.unchecked import is_unchecked
from vdla.compiler.schedule import (
    atomic,
    blockize,
    cache,
    compute_at,
    compute_once,
    decompose_reduction,
    full_extent,
    fuse,
    inline,
    loop_kinds,
    reorder,
    reverse_compute_at,
    reverse_inline,
    rfactor,
    split,
    storage,
    store_at,
    strips,
    thread_reduce,
    tile,
)
from vdla.compiler.schedule.check_tensorized import CheckedSteps, steps_of
from vdla.compiler.schedule.tile import TileNames
from vdla.compiler.schedule.trace import ScheduleTrace, is_primitive, parse_trace, primitive
from vdla.compiler.tensorize import Intrinsic, tensorize


class Schedule:
    """Applies primitives to `fn` in sequence. Loops, blocks and buffers are named by strings."""

    def __init__(self, fn: ir.Function) -> None:
        if not isinstance(fn, ir.Function):
            raise ScheduleError(f"schedule: fn must be a Function, as of te.create_function, got {type(fn).__name__}")
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

    def __str__(self) -> str:
        return str(self.fn)

    def loops(self, block: str) -> list[str]:
        """The loops around a block, outermost first."""
        return loop_kinds.loops_of(self.fn, block)

    @primitive
    def split(
        self, loop: str, factor: int | None = None, nparts: int | None = None, names: tuple[str, str] | None = None
    ) -> tuple[str, str]:
        """Split a loop into an outer and an inner one; their names."""
        self.fn, result = split.split(self.fn, loop, factor, nparts, names)
        return result

    @primitive
    def fuse(self, *names: str, name: str | None = None) -> str:
        """Fuse nested loops into one; its name."""
        self.fn, result = fuse.fuse(self.fn, *names, name=name)
        return result

    @primitive
    def reorder(self, *names: str) -> None:
        """Reorder loops of one nest."""
        self.fn = reorder.reorder(self.fn, *names)

    @primitive
    def unroll(self, loop: str) -> None:
        """Unroll a loop when lowering."""
        self.fn = loop_kinds.unroll(self.fn, loop)

    @primitive
    def tile(self, y: str, x: str, y_factor: int, x_factor: int, names: TileNames | None = None) -> TileNames:
        """Tile two nested loops; the names of the two outer and the two inner loops."""
        self.fn, result = tile.tile(self.fn, y, x, y_factor, x_factor, names)
        return result

    @primitive
    def vthread(self, loop: str) -> None:
        """Run a loop as virtual threads."""
        self.fn = loop_kinds.vthread(self.fn, loop)

    @primitive
    def parallel(self, loop: str) -> None:
        """Run a loop on several cores."""
        self.fn = loop_kinds.parallel(self.fn, loop)

    @primitive
    def vectorize(self, loop: str) -> None:
        """Run a loop in the lanes of a vector."""
        self.fn = loop_kinds.vectorize(self.fn, loop)

    @primitive
    def bind(self, loop: str, thread: str) -> None:
        """Bind a loop to an axis of a grid."""
        self.fn = loop_kinds.bind(self.fn, loop, thread)

    @primitive
    def annotate(self, name: str, key: str, value: Any) -> None:  # noqa: ANN401  any printable value
        """Attach a key and a value to a loop or a block."""
        self.fn = loop_kinds.annotate(self.fn, name, key, value)

    @primitive
    def set_scope(self, buffer: str, scope: str) -> None:
        """Place an intermediate buffer in a memory."""
        self.fn = loop_kinds.set_scope(self.fn, buffer, scope)

    @primitive
    def compute_at(self, block: str, loop: str) -> None:
        """Move a producer into a loop around its readers."""
        self.fn = compute_at.compute_at(self.fn, block, loop)

    @primitive
    def compute_once(self, block: str, *names: str) -> None:
        """Run a block only in the first iteration of loops that its region does not depend on."""
        self.fn = compute_once.compute_once(self.fn, block, *names)

    @primitive
    def reverse_compute_at(self, block: str, loop: str) -> None:
        """Move a consumer into a loop around its producers."""
        self.fn = reverse_compute_at.reverse_compute_at(self.fn, block, loop)

    @primitive
    def inline(self, block: str) -> None:
        """Inline a block into its readers."""
        self.fn = inline.inline(self.fn, block)

    @primitive
    def cache_read(self, block: str, buffer: str, scope: str) -> str:
        """Let a block read a copy of a buffer in another memory; the name of copy and block."""
        self.fn, result = cache.cache_read(self.fn, block, buffer, scope)
        return result

    @primitive
    def reindex(self, block: str, buffer: str, scope: str) -> str:
        """Let a block read a copy that its own axes index; the name of copy and block."""
        self.fn, result = cache.reindex(self.fn, block, buffer, scope)
        return result

    @primitive
    def cache_write(self, block: str, scope: str) -> str:
        """Let a block compute into another memory; the name of the block that copies it back."""
        self.fn, result = cache.cache_write(self.fn, block, scope)
        return result

    @primitive
    def blockize(self, loop: str) -> str:
        """Wrap a loop in a block around the block inside; its name."""
        self.fn, result = blockize.blockize(self.fn, loop)
        return result

    @primitive
    def store_at(self, block: str, loop: str | None) -> None:
        """Allocate a block's buffer once per iteration of a loop; None: once per program."""
        self.fn = store_at.store_at(self.fn, block, loop)

    @primitive
    def strips(self, block: str, count: int) -> None:
        """Compute a block's tiles in strips where it would wait for transfers."""
        self.fn = strips.strips(self.fn, block, count)

    @primitive
    def full_extent(self, block: str, *axes: str) -> None:
        """Compute a placed block over the full extent of some of its axes."""
        self.fn = full_extent.full_extent(self.fn, block, *axes)

    @primitive
    def tensorize(self, name: str, intrinsic: Intrinsic) -> None:
        """Run a block's entry, or a nest from a loop inwards, as one intrinsic call."""
        if is_unchecked():
            self.fn = tensorize(self.fn, name, intrinsic)
            return
        before = steps_of(self.fn)
        self.fn = tensorize(self.fn, name, intrinsic)
        matched = {block: step for block, (_, step) in steps_of(self.fn).items() if block not in before}
        self.checked_steps = {**self.checked_steps, **matched}

    @primitive
    def decompose_reduction(self, block: str, loop: str) -> str:
        """Initialise a reduction in front of a loop; the name of the init block."""
        self.fn, result = decompose_reduction.decompose_reduction(self.fn, block, loop)
        return result

    @primitive
    def rfactor(self, loop: str, factor_axis: int = 0) -> str:
        """Factor a reduction over a loop into partial results; the name of their block."""
        self.fn, result = rfactor.rfactor(self.fn, loop, factor_axis)
        return result

    @primitive
    def atomic(self, block: str) -> None:
        """Let threads update the elements of a reduction at once."""
        self.fn = atomic.atomic(self.fn, block)

    @primitive
    def thread_reduce(self, loop: str, thread: str) -> str:
        """Reduce over the threads of a block in a tree; the name of the first partial block."""
        self.fn, result = thread_reduce.thread_reduce(self.fn, loop, thread)
        return result

    @primitive
    def reverse_inline(self, block: str) -> None:
        """Inline an element-wise consumer into its producer."""
        self.fn = reverse_inline.reverse_inline(self.fn, block)

    @primitive
    def double_buffer(self, buffer: str) -> None:
        """Double-buffer an intermediate buffer."""
        self.fn = storage.double_buffer(self.fn, buffer)

    @primitive
    def prefetch(self, block: str, buffer: str, loop: str, distance: int = 1) -> None:
        """Prefetch what a block reads in a later iteration."""
        self.fn = storage.prefetch(self.fn, block, buffer, loop, distance)

    @primitive
    def storage_align(self, buffer: str, dimension: int, factor: int, offset: int = 0) -> None:
        """Pad the stride of a dimension of an intermediate buffer."""
        self.fn = storage.storage_align(self.fn, buffer, dimension, factor, offset)
