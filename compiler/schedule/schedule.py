"""A schedule: a function and the rewrites applied to it so far, in the reader's order.

    s = Schedule(fn)
    y, x = s.loops("c")[:2]
    yo, yi = s.split(y, factor=4)
    s.reorder(yo, x, yi)
    print(s.fn)

Every method is a primitive of this folder applied to `s.fn`; it refuses, with a ScheduleError, what would change the
result. A refused method leaves the schedule as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vdla.compiler import ir
from vdla.compiler.schedule import (
    blockize,
    cache,
    compute_at,
    inline,
    loops,
    marks,
    reverse_compute_at,
    store_at,
    whole,
)
from vdla.compiler.schedule.tree import ScheduleError

if TYPE_CHECKING:
    from vdla.compiler.intrinsic import Intrinsic


class Schedule:
    """Applies primitives to `fn`, one after another. Loops, blocks and buffers are named by strings."""

    def __init__(self, fn: ir.Function) -> None:
        if not isinstance(fn, ir.Function):
            raise ScheduleError(f"schedule: fn must be a Function, as of te.create_function, got {type(fn).__name__}")
        self.fn = fn

    def __str__(self) -> str:
        return str(self.fn)

    def loops(self, block: str) -> list[str]:
        """The loops around a block, outermost first."""
        return marks.loops_of(self.fn, block)

    def split(
        self, loop: str, factor: int | None = None, nparts: int | None = None, names: tuple[str, str] | None = None
    ) -> tuple[str, str]:
        """Cut a loop into an outer and an inner one; their names."""
        self.fn, result = loops.split(self.fn, loop, factor, nparts, names)
        return result

    def fuse(self, *names: str, name: str | None = None) -> str:
        """Join nested loops into one; its name."""
        self.fn, result = loops.fuse(self.fn, *names, name=name)
        return result

    def reorder(self, *names: str) -> None:
        """Put loops of one nest in the given order."""
        self.fn = loops.reorder(self.fn, *names)

    def unroll(self, loop: str) -> None:
        """Write out a loop when lowering."""
        self.fn = marks.unroll(self.fn, loop)

    def vthread(self, loop: str) -> None:
        """Run a loop as virtual threads."""
        self.fn = marks.vthread(self.fn, loop)

    def parallel(self, loop: str) -> None:
        """Run a loop on several cores."""
        self.fn = marks.parallel(self.fn, loop)

    def vectorize(self, loop: str) -> None:
        """Run a loop in the lanes of a vector."""
        self.fn = marks.vectorize(self.fn, loop)

    def annotate(self, name: str, key: str, value: Any) -> None:  # noqa: ANN401  any printable value
        """Attach a key and value to a loop or a block."""
        self.fn = marks.annotate(self.fn, name, key, value)

    def set_scope(self, buffer: str, scope: str) -> None:
        """Put an intermediate buffer into a memory."""
        self.fn = marks.set_scope(self.fn, buffer, scope)

    def compute_at(self, block: str, loop: str) -> None:
        """Compute a producer inside a loop around its readers."""
        self.fn = compute_at.compute_at(self.fn, block, loop)

    def keep(self, block: str, *names: str) -> None:
        """Run a block only in the first iteration of loops that its region does not depend on."""
        self.fn = compute_at.keep(self.fn, block, *names)

    def reverse_compute_at(self, block: str, loop: str) -> None:
        """Run a consumer inside a loop around its producers."""
        self.fn = reverse_compute_at.reverse_compute_at(self.fn, block, loop)

    def inline(self, block: str) -> None:
        """Write the value of a block where it is read."""
        self.fn = inline.inline(self.fn, block)

    def cache_read(self, block: str, buffer: str, scope: str) -> str:
        """Let a block read a buffer from a copy in another memory; the name of the copy and its block."""
        self.fn, result = cache.cache_read(self.fn, block, buffer, scope)
        return result

    def cache_write(self, block: str, scope: str) -> str:
        """Let a block compute into a buffer of another memory; the name of the block that copies it back."""
        self.fn, result = cache.cache_write(self.fn, block, scope)
        return result

    def blockize(self, loop: str) -> str:
        """Make all iterations of a loop one block around the block inside; its name."""
        self.fn, result = blockize.blockize(self.fn, loop)
        return result

    def store_at(self, block: str, loop: str | None) -> None:
        """Allocate the buffer that a block writes once an iteration of a loop around it; None: once a program."""
        self.fn = store_at.store_at(self.fn, block, loop)

    def whole(self, block: str, *axes: str) -> None:
        """Compute a placed block over the full extent of some of its axes."""
        self.fn = whole.whole(self.fn, block, *axes)

    def tensorize(self, loop: str, intrinsic: Intrinsic) -> None:
        """Run the nest from a loop inwards as one step of an intrinsic."""
        from vdla.compiler.tensorize import tensorize  # an intrinsic's behaviour is itself a function

        self.fn = tensorize(self.fn, loop, intrinsic)
