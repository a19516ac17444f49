"""Random kernels: threads that read and write a few shared and global elements, between barriers or
not.

Extents are small, so that many threads meet by chance and the thread-by-thread interpreter runs a
kernel in milliseconds.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from vdla.compiler import ir
from vdla.compiler.ir import GridKernel

_ELEMENTS = 12  # of each buffer
_GLOBAL = 40


@dataclass(slots=True)
class _Builder:
    """Draws statements inside loops, whose variables `loops` maps to their extents."""

    chance: random.Random
    block: tuple[int, int, int]
    grid: tuple[int, int, int]
    count: int = 0
    parted: bool = False  # inside a condition that differs between threads

    def body(self, loops: dict[str, int], depth: int) -> ir.Stmt:
        """One to three statements."""
        return ir.seq(*(self.statement(loops, depth) for _ in range(self.chance.randint(1, 3))))

    def statement(self, loops: dict[str, int], depth: int) -> ir.Stmt:
        """A store, a barrier, or a loop or condition around others."""
        kind = self.chance.choice(("store", "store", "store", "barrier", "barrier", "for", "if")[: 7 if depth else 5])
        if kind == "barrier":
            scopes = (ir.BarrierScope.BLOCK, ir.BarrierScope.BLOCK, ir.BarrierScope.WARP)
            return ir.Barrier(self.chance.choice(scopes[: 2 if self.parted else 3]))
        if kind == "for":
            self.count += 1
            var, extent = f"i{self.count}", self.chance.randint(2, 3)
            return ir.For(var, extent, self.body({**loops, var: extent}, depth - 1))
        if kind == "if":
            axis = self.chance.choice([a for a, n in zip(ir.THREAD_AXES, self.block, strict=True) if n > 1])
            extent = self.block[ir.THREAD_AXES.index(axis)]
            below = ir.Binary("lt", ir.Var(axis), ir.Const(self.chance.randint(1, extent - 1)))
            self.parted = True
            inside = self.store(loops) if self.chance.random() < 0.9 else self.body(loops, 0)
            self.parted = False
            return ir.If(below, inside)
        return self.store(loops)

    def store(self, loops: dict[str, int]) -> ir.Store:
        """A store of one or two loaded elements, or of a number."""
        loaded = [self.load(loops) for _ in range(self.chance.randint(0, 2))]
        value: ir.Expr = ir.Const(1)
        for load in loaded:
            value = ir.Binary("add", value, load)
        buffer = self.chance.choice(("s", "s", "s", "y"))
        return ir.Store(buffer, (self.index(loops, buffer),), value)

    def load(self, loops: dict[str, int]) -> ir.Load:
        """A load."""
        buffer = self.chance.choice(("s", "s", "t", "x", "y"))
        return ir.Load(buffer, (self.index(loops, buffer),))

    def index(self, loops: dict[str, int], buffer: str) -> ir.Expr:
        """An index: the thread's own element, one beside it, or one that depends on a loop."""
        x, y = ir.Var("threadIdx.x"), ir.Var("threadIdx.y")
        own: ir.Expr = x if self.block[1] == 1 else ir.Binary("add", ir.Binary("mul", y, ir.Const(self.block[0])), x)
        size = self.block[0] * self.block[1]
        if buffer == "y":
            block = ir.Binary("mul", ir.Var("blockIdx.x"), ir.Const(self.chance.choice((size, size, size, 1))))
            return ir.Binary("add", block, own)
        forms: list[ir.Expr] = [own, own, own, x, ir.Binary("sub", ir.Const(size - 1), own)]
        forms.append(ir.Binary("mod", ir.Binary("add", own, ir.Const(1)), ir.Const(size)))
        for var in loops:
            forms.append(ir.Binary("add", own, ir.Var(var)))
            forms.append(ir.Binary("mod", ir.Binary("add", own, ir.Var(var)), ir.Const(size)))
            turn = ir.Binary("mod", ir.Var(var), ir.Const(2))
            forms.append(ir.Binary("add", ir.Binary("mul", turn, ir.Const(size)), own))
        return self.chance.choice(forms)


def random_kernel(seed: int) -> GridKernel:
    """The kernel of a seed; `x` and `y` are given, the first thread clears the shared buffers."""
    chance = random.Random(seed)
    block = chance.choice(((4, 1, 1), (3, 1, 1), (2, 2, 1)))
    builder = _Builder(chance, block, (chance.randint(1, 2), 1, 1))
    first = ir.Binary("eq", ir.Var("threadIdx.x"), ir.Const(0))
    if block[1] > 1:
        first = ir.Binary("and", first, ir.Binary("eq", ir.Var("threadIdx.y"), ir.Const(0)))
    clear = ir.For("z", _ELEMENTS, ir.seq(*(ir.Store(b, (ir.Var("z"),), ir.Const(0)) for b in ("s", "t"))))
    buffers = {name: ir.Buffer(name, (_ELEMENTS,), "int32", "shared") for name in ("s", "t")}
    buffers |= {name: ir.Buffer(name, (_GLOBAL,), "int32") for name in ("x", "y")}
    return GridKernel(
        name=f"random_{seed}",
        grid=builder.grid,
        block=block,
        params=("x", "y"),
        buffers=buffers,
        warp=2,
        body=ir.seq(ir.If(first, clear), ir.Barrier(), builder.body({}, 2)),
    )
