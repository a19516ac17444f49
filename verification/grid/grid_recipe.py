# SPDX-License-Identifier: Apache-2.0
"""Random schedules as authors write them for a grid: blocks, threads, strides, tiles that threads
fetch together, trees.

Each step may be refused; then the next one is tried on what there is. Nothing here knows what is
legal.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from vdla.compiler import ir
from vdla.compiler.analysis import leaves
from vdla.compiler.arith import var_names
from vdla.compiler.ir import THREAD, THREAD_AXES
from vdla.verification.fuzz.schedules import Rewrites

_MOST_THREADS = 256  # of a block
_MOST_ON_AXIS = (1, 2, 3, 4, 5, 7, 8, 16, 31, 64, 256)
_SMALL = (1, 2, 2, 3, 4)


def schedule_nests(rewrites: Rewrites) -> None:
    """Schedules most nests of a function, the last one first, so that producers can follow."""
    for name in reversed([str(block.name) for block in rewrites.statements(ir.Block)]):
        recipe = GridRecipe(rewrites, name, block_size(rewrites))
        if rewrites.rng.random() < 0.85 and recipe.exists(name):
            recipe.schedule()


def block_size(rewrites: Rewrites) -> dict[str, int]:
    """Threads along each axis, 1 to 256 in all."""
    budget, sizes = rewrites.rng.choice((4, 16, 64, _MOST_THREADS)), []
    for _ in THREAD_AXES:
        sizes.append(rewrites.rng.choice([n for n in _MOST_ON_AXIS if n <= budget]))
        budget //= sizes[-1]
    rewrites.rng.shuffle(sizes)
    return dict(zip(THREAD_AXES, sizes, strict=True))


@dataclass(frozen=True, slots=True)
class GridRecipe:
    """The nest of one block on threads of the given `size`."""

    rewrites: Rewrites
    block: str
    size: dict[str, int]

    def chance(self, probability: float) -> bool:
        """True as often as that."""
        return self.rewrites.rng.random() < probability

    def exists(self, block: str) -> bool:
        """Whether a block has not been inlined, and is in a nest of its own."""
        known = {str(stmt.name) for stmt in self.rewrites.statements(ir.Block)}
        return block in known and not self._bound(block)

    def _bound(self, block: str) -> bool:
        """Whether a loop around a block has an axis."""
        names = set(self.rewrites.schedule.loops(block))
        return any(loop.var in names and THREAD in loop.annotations for loop in self.rewrites.statements(ir.For))

    def roles(self, block: str) -> tuple[list[str], list[str]]:
        """The loops around a block over its own axes, and those over which it reduces."""
        leaf = next((leaf for leaf in leaves(self.rewrites.schedule.fn) if leaf.name == block), None)
        if leaf is None:
            return [], []
        over = {name for value in leaf.values_of(ir.AxisKind.REDUCE) for name in var_names(value)}
        names = [loop.var for loop in leaf.loops]
        return [name for name in names if name not in over], [name for name in names if name in over]

    def schedule(self) -> None:
        """Deals out the results, then what they are computed from."""
        attempt = self.rewrites.attempt
        _, terms = self.roles(self.block)
        if terms and self.chance(0.2):
            return self.add_at_once(terms)
        if terms and self.chance(0.3):
            return self.reduce_together(terms)
        outer = attempt("cache_write", (self.block, "local")) if self.chance(0.4) else None
        threads = self.deal_out(outer or self.block)
        if outer:
            around = [loop for loop in self.rewrites.schedule.loops(outer) if loop in threads]
            attempt("compute_at", (self.block, (around or self.rewrites.schedule.loops(outer))[-1]))
        self.step_through()
        for producer in self.producers():
            self.place(producer, set(threads))
        return None

    def deal_out(self, block: str) -> list[str]:
        """Splits the loops of a block over blocks of threads, threads, strides and lanes; the loops
        of threads."""
        attempt, rng = self.rewrites.attempt, self.rewrites.rng
        groups, threads, thread_vars = [], [], []
        loops, axes = self.roles(block)[0], rng.sample("xyz", 3)
        if len(loops) > 1 and self.chance(0.2):
            loops = [attempt("fuse", (*loops,)) or loops[0]]
        for loop, axis in zip(loops, axes, strict=False):
            if self.chance(0.3):
                loop, lane = self.pair(attempt("split", (loop, rng.choice(_SMALL))), loop)
                thread_vars.append(lane)
            group, thread = self.pair(attempt("split", (loop, self.size[f"threadIdx.{axis}"])), loop)
            if self.chance(0.3):  # strides: a thread has elements that are a block apart
                group, stride = self.pair(attempt("split", (group, rng.choice(_SMALL))), group)
                thread_vars.insert(0, stride)
            groups.append((group, f"blockIdx.{axis}"))
            threads.append((thread, f"threadIdx.{axis}"))
        order = [name for name, _ in (*groups, *threads)] + thread_vars
        attempt("reorder", tuple(dict.fromkeys(order)))
        for loop, axis in (*groups, *threads):
            if axis in self.size or self.chance(0.7):
                attempt("bind", (loop, axis))
        for loop in thread_vars:
            if self.chance(0.6):
                attempt(rng.choice(("vectorize", "vectorize", "vthread", "unroll")), (loop,))
        return [loop for loop, _ in threads]

    def pair(self, split: object, loop: str) -> tuple[str, str]:
        """The two loops of a split, or the loop twice where it was refused."""
        return (str(split[0]), str(split[1])) if isinstance(split, tuple) else (loop, loop)

    def step_through(self) -> None:
        """Splits the terms of a reduction into steps, for the tiles of each."""
        axes, terms = self.roles(self.block)
        if terms and self.chance(0.6):
            step, inner = self.pair(
                self.rewrites.attempt("split", (terms[0], self.rewrites.rng.choice(_SMALL))), terms[0]
            )
            free = [name for name in axes if not self.axis(name)]
            self.rewrites.attempt("reorder", tuple(dict.fromkeys((step, *terms[1:], inner, *free))))

    def axis(self, loop: str) -> str | None:
        """The axis that a loop is bound to."""
        entry = (stmt.annotations.get(THREAD) for stmt in self.rewrites.statements(ir.For) if stmt.var == loop)
        return next(entry, None)

    def producers(self) -> Iterable[str]:
        """Copies of what the block reads, and stages before it, some of each."""
        attempt = self.rewrites.attempt
        for buffer in self.read():
            if self.chance(0.5):
                copy = attempt("reindex" if self.chance(0.3) else "cache_read", (self.block, buffer, "shared"))
                yield from [str(copy)] if copy else []
            elif buffer not in self.rewrites.schedule.fn.params and self.chance(0.7):
                attempt("set_scope", (buffer, self.rewrites.rng.choice(("shared", "shared", "local"))))
                yield buffer

    def read(self) -> list[str]:
        """The buffers that the block reads."""
        leaf = next((leaf for leaf in leaves(self.rewrites.schedule.fn) if leaf.name == self.block), None)
        stores = [stmt for stmt in ir.walk(leaf.block) if isinstance(stmt, ir.Store)] if leaf else []
        loads = [e.buffer for s in stores for e in ir.walk_expr(s.value) if isinstance(e, ir.Load)]
        buffers = {store.buffer for store in stores}
        return [name for name in dict.fromkeys(loads) if name not in buffers]

    def place(self, block: str, threads: set[str]) -> None:
        """Puts a producer into a loop around its reader and lets the threads compute it
        together."""
        attempt, rng = self.rewrites.attempt, self.rewrites.rng
        if not self.exists(block):
            return
        around = self.rewrites.schedule.loops(self.block)
        bound = [loop for loop in around if loop in threads]
        inner = around[around.index(bound[-1]) :] if bound else around  # the tile of all threads, or of a step
        attempt("compute_at", (block, rng.choice(inner if inner and self.chance(0.85) else around)))
        inside = [loop for loop in self.roles(block)[0] if loop not in around]
        if len(inside) > 1 and self.chance(0.6):
            inside = [attempt("fuse", tuple(inside)) or inside[-1]]
        self.share(inside)
        if self.chance(0.4):
            attempt("double_buffer", (block,))
        if self.chance(0.2):
            attempt("storage_align", (block, 0, rng.choice((4, 8, 16)), rng.choice((0, 1, 3))))

    def share(self, loops: list[str]) -> None:
        """Binds the inner part of a tile's loops to the axes of threads."""
        attempt = self.rewrites.attempt
        axes = [axis for axis in THREAD_AXES if self.size[axis] > 1]
        if not loops or not self.chance(0.85):
            return
        loop = loops[-1]
        if self.chance(0.3):
            loop, lane = self.pair(attempt("split", (loop, 2)), loop)
            attempt("vectorize", (lane,))
        for axis in axes:  # the innermost part first
            loop, inner = self.pair(attempt("split", (loop, self.size[axis])), loop)
            attempt("bind", (inner, axis))

    def reduce_together(self, terms: list[str]) -> None:
        """A tree over the threads of a block for each result."""
        attempt, rng = self.rewrites.attempt, self.rewrites.rng
        axis = rng.choice(THREAD_AXES)
        for loop, group in zip(self.roles(self.block)[0], rng.sample(ir.BLOCK_AXES, 3), strict=False):
            attempt("bind", (loop, group))
        part, thread_loop = self.pair(
            attempt("split", (rng.choice(terms), None, rng.choice((2, 3, 4, 5, 8)))), terms[0]
        )
        if self.chance(0.5):
            part, thread_loop = self.pair(attempt("split", (thread_loop, rng.choice((2, 3, 4, 8)))), thread_loop)[::-1]
            attempt("reorder", (part, thread_loop))
        attempt("thread_reduce", (part, axis))

    def add_at_once(self, terms: list[str]) -> None:
        """All blocks and threads add to the results at once."""
        attempt, rng = self.rewrites.attempt, self.rewrites.rng
        attempt("atomic", (self.block,))
        axes, _ = self.roles(self.block)
        group, thread = self.pair(attempt("split", (terms[0], rng.choice(_SMALL))), terms[0])
        attempt("reorder", tuple(dict.fromkeys((group, thread, *terms[1:], *axes))))
        attempt("bind", (group, rng.choice(ir.BLOCK_AXES)))
        attempt("bind", (thread, rng.choice(THREAD_AXES)))
