# SPDX-License-Identifier: Apache-2.0
"""Random schedules: every primitive, with arguments that may be illegal.

Nothing here knows which are legal. An accepted rewrite must preserve the function's result; a
refused one must leave the schedule unchanged. Both are counted.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from vdla.compiler import ir
from vdla.compiler.analysis import leaves
from vdla.compiler.arith import var_names
from vdla.compiler.schedule import Schedule, ScheduleError
from vdla.compiler.schedule.trace import is_primitive
from vdla.compiler.tensorize import TensorizeError
from vdla.verification.fuzz.functions import DOT, GROUPS, INTRINSICS

_SCOPES = ("global", "stack", "heap")
_MAX_STEPS = 9
_MAX_LANES = 64  # of a loop to unroll or vectorize, to bound the code size


class RewriteFault(AssertionError):
    """A primitive crashed, or changed the schedule although it refused."""


@dataclass
class Rewrites:
    """A schedule under random primitives; `accepted` and `refused` count them by name."""

    rng: random.Random
    schedule: Schedule
    accepted: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)

    def run(self) -> None:
        """Apply random primitives until enough are accepted or too many are refused."""
        wanted = self.rng.randint(1, _MAX_STEPS)
        for _ in range(4 * wanted):
            if self.accepted.total() >= wanted:
                return
            self.attempt(self.rng.choice(PRIMITIVES))

    def attempt(self, name: str, given: tuple[Any, ...] | None = None) -> Any:  # noqa: ANN401  as the primitive
        """Apply one primitive, with random arguments unless they are given; its result, None if it
        is refused."""
        arguments = ARGUMENTS[name](self) if given is None else given
        before = self.schedule.fn
        try:
            result = getattr(self.schedule, name)(*arguments)
        except (ScheduleError, TensorizeError):
            self.refused[name] += 1
            if self.schedule.fn is not before:
                raise RewriteFault(f"{name}{arguments}: a refused rewrite must leave the function as it was") from None
            return None
        except Exception as error:
            raise RewriteFault(f"{name}{arguments}: {type(error).__name__}: {error}") from error
        self.accepted[name] += 1
        return result

    # --- names that the function has --------------------------------------------------------------

    def statements(self, kind: type[Any]) -> list[Any]:
        """All loops, or all blocks."""
        return [stmt for stmt in ir.walk(self.schedule.fn.body) if isinstance(stmt, kind)]

    def loop(self) -> str:
        """A loop."""
        loops = self.statements(ir.For)
        return str(self.rng.choice(loops).var) if loops else "none"

    def short_loop(self) -> str:
        """A loop of few iterations."""
        short = [
            loop.var for loop in self.statements(ir.For) if isinstance(loop.extent, int) and loop.extent <= _MAX_LANES
        ]
        return self.rng.choice(short) if short else "none"

    def block(self) -> str:
        """A block."""
        return str(self.rng.choice(self.statements(ir.Block)).name)

    def buffer(self) -> str:
        """A random buffer, mostly an intermediate one."""
        fn = self.schedule.fn
        inner = [name for name in fn.buffers if name not in fn.params]
        return self.rng.choice(inner if inner and self.rng.random() < 0.8 else list(fn.buffers))

    def nest(self) -> list[str]:
        """The loops around a block, outermost first."""
        return self.schedule.loops(self.block())

    def neighbours(self, most: int) -> list[str]:
        """Adjacent loops of a nest, or any loops."""
        loops = self.nest()
        count = self.rng.randint(2, most)
        if self.rng.random() < 0.1 or len(loops) < 2:
            return [self.loop() for _ in range(count)]
        start = self.rng.randrange(len(loops) - 1)
        return loops[start : start + count]

    def shuffled(self) -> list[str]:
        """Some loops of a nest in random order."""
        loops = self.nest()
        self.rng.shuffle(loops)
        return loops[: self.rng.randint(2, max(2, len(loops)))]


def _compute_once_arguments(r: Rewrites) -> tuple[str, str]:
    """A block and a loop around it, mostly one that its indices do not depend on."""
    pairs = [
        (leaf.name, loop.var)
        for leaf in leaves(r.schedule.fn)
        for loop in leaf.loops
        if not any(loop.var in var_names(value) for value in leaf.values.values())
    ]
    return r.rng.choice(pairs) if pairs and r.rng.random() < 0.8 else (r.block(), r.loop())


def _tensorize_arguments(r: Rewrites) -> tuple[Any, ...]:
    """A loop or a block, and an intrinsic; mostly a dot product, its loops in the order of an
    entry."""
    dots = [block for block in r.statements(ir.Block) if DOT in block.annotations]
    if not dots or r.rng.random() < 0.3:
        return r.rng.choice((r.loop(), r.block())), r.rng.choice(list(INTRINSICS.values()))
    block = r.rng.choice(dots)
    loops = r.schedule.loops(block.name)
    if len(loops) == 5:  # row, block, lane, group, term
        r.attempt("reorder", (loops[3], loops[2]))
    fits = [i for i in INTRINSICS.values() if GROUPS[i.name][0] == block.annotations[DOT]]
    return r.rng.choice((block.name, *r.schedule.loops(block.name)[-2:])), r.rng.choice(fits)


def _split_arguments(r: Rewrites) -> tuple[Any, ...]:
    """A loop and a factor, or a number of parts."""
    factor = r.rng.choice((1, 2, 2, 3, 4, 4, 5, 8, 16))
    return (r.loop(), factor) if r.rng.random() < 0.7 else (r.loop(), None, factor)


def _reader_and_buffer(r: Rewrites) -> tuple[str, str]:
    """A block and a buffer that it reads, or any."""
    if r.rng.random() < 0.1:
        return r.block(), r.buffer()
    block = r.rng.choice(r.statements(ir.Block))
    stores = [stmt for stmt in ir.walk(block) if isinstance(stmt, ir.Store)]
    loads = [e.buffer for store in stores for e in ir.walk_expr(store.value) if isinstance(e, ir.Load)]
    return str(block.name), r.rng.choice(loads) if loads else r.buffer()


ARGUMENTS: dict[str, Callable[[Rewrites], tuple[Any, ...]]] = {
    "split": _split_arguments,
    "tile": lambda r: (*[*r.neighbours(2), r.loop()][:2], r.rng.choice((1, 2, 3, 4)), r.rng.choice((1, 2, 3, 8))),
    "fuse": lambda r: tuple(r.neighbours(3)),
    "reorder": lambda r: tuple(r.shuffled()),
    "unroll": lambda r: (r.short_loop(),),
    "vectorize": lambda r: (r.short_loop(),),
    "parallel": lambda r: (r.loop(),),
    "vthread": lambda r: (r.short_loop(),),
    "bind": lambda r: (r.loop(), r.rng.choice(("blockIdx.x", "threadIdx.x", "threadIdx.y"))),
    "thread_reduce": lambda r: (r.loop(), r.rng.choice(("threadIdx.x", "threadIdx.y", "blockIdx.x"))),
    "atomic": lambda r: (r.block(),),
    "annotate": lambda r: (r.rng.choice((r.loop(), r.block(), "nowhere")), "note", r.rng.randint(0, 9)),
    "set_scope": lambda r: (r.buffer(), r.rng.choice(_SCOPES)),
    "compute_at": lambda r: (r.block(), r.loop()),
    "strips": lambda r: (r.block(), r.rng.choice((0, 1, 2, 4))),
    "compute_once": _compute_once_arguments,
    "reverse_compute_at": lambda r: (r.block(), r.loop()),
    "inline": lambda r: (r.block(),),
    "reverse_inline": lambda r: (r.block(),),
    "cache_read": lambda r: (*_reader_and_buffer(r), r.rng.choice(_SCOPES)),
    "reindex": lambda r: (*_reader_and_buffer(r), r.rng.choice(_SCOPES)),
    "cache_write": lambda r: (r.block(), r.rng.choice(_SCOPES)),
    "rfactor": lambda r: (r.loop(), r.rng.randint(0, 2)),
    "decompose_reduction": lambda r: (r.block(), r.loop()),
    "double_buffer": lambda r: (r.buffer(),),
    "prefetch": lambda r: (*_reader_and_buffer(r), r.loop(), r.rng.randint(1, 2)),
    "storage_align": lambda r: (r.buffer(), r.rng.randint(0, 2), r.rng.choice((4, 8, 16)), r.rng.choice((0, 1, 3))),
    "tensorize": _tensorize_arguments,
    "blockize": lambda r: (r.loop(),),
    "store_at": lambda r: (r.block(), r.rng.choice((r.loop(), None))),
    "full_extent": lambda r: (r.block(), r.rng.choice(("vi0", "vi1", "vk0"))),
}
PRIMITIVES = tuple(name for name, method in vars(Schedule).items() if is_primitive(method) and name in ARGUMENTS)
