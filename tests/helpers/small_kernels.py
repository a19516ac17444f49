# SPDX-License-Identifier: Apache-2.0
"""Kernels of a few statements over a shared buffer `s` and global buffers `x` and `y`."""

from __future__ import annotations

from vdla.compiler import ir
from vdla.compiler.ir import Barrier, GridKernel, If, Load, Store

X, BLOCK = ir.Var("threadIdx.x"), ir.Var("blockIdx.x")
WAIT = Barrier()


def add(a: ir.Expr, b: ir.Expr | int) -> ir.Expr:
    """`a + b`."""
    return ir.Binary("add", a, b if not isinstance(b, int) else ir.Const(b))


def put(buffer: str, index: ir.Expr, value: ir.Expr | int = 1) -> Store:
    """`buffer[index] = value`."""
    return Store(buffer, (index,), value if not isinstance(value, int) else ir.Const(value))


def get(buffer: str, index: ir.Expr) -> Load:
    """`buffer[index]`."""
    return Load(buffer, (index,))


def where(index: ir.Expr, below: int, body: ir.Stmt) -> If:
    """`body`, if `index < below`."""
    return If(ir.Binary("lt", index, ir.Const(below)), body)


def kernel(*stmts: ir.Stmt, threads: int = 4, blocks: int = 1) -> GridKernel:
    """A kernel along x of these statements."""
    buffers = [ir.Buffer("s", (16,), "int32", "shared"), ir.Buffer("x", (32,), "int32"), ir.Buffer("y", (32,), "int32")]
    return GridKernel(
        name="k",
        grid=(blocks, 1, 1),
        block=(threads, 1, 1),
        params=("x", "y"),
        buffers={buffer.name: buffer for buffer in buffers},
        body=ir.seq(*stmts),
    )


OWN = add(ir.Binary("mul", BLOCK, ir.Const(4)), X)
FOLLOWING = ir.Binary("mod", add(X, 1), ir.Const(4))
SHIFT = (put("s", X, get("x", X)), WAIT, put("y", X, get("s", FOLLOWING)))
_RACE = "k: threads of a block must not access one element, to write it, without a barrier between"
_PART = "k: all threads of a block must come to a barrier"

ROW = ir.Binary("mul", ir.Var("i"), ir.Const(4))
CLEAN = [
    kernel(ir.For("i", 3, ir.seq(put("s", add(ROW, X)), WAIT, put("y", X, get("s", add(ROW, FOLLOWING)))))),
    kernel(*SHIFT),
    kernel(put("s", X), put("y", X, get("s", X))),
    kernel(ir.For("i", 3, ir.seq(*SHIFT, WAIT))),
    kernel(ir.For("i", 4, ir.seq(put("s", add(ir.Binary("mul", ir.Binary("mod", ir.Var("i"), ir.Const(2)), ir.Const(4)),
                                              X)), WAIT,
                                 put("y", X, get("s", add(ir.Binary("mul", ir.Binary("mod", ir.Var("i"), ir.Const(2)),
                                                                   ir.Const(4)), FOLLOWING)))))),
    kernel(put("y", OWN), blocks=3),
    kernel(If(ir.Binary("eq", X, ir.Const(0)), put("s", ir.Const(0))), WAIT, put("y", X, get("s", ir.Const(0)))),
]  # fmt: skip
"""Kernels without a race; the fifth fills one half of a tile while it reads the other."""

FAULTY = [
    (kernel(SHIFT[0], SHIFT[2]),
     f"{_RACE}, got the write of s[threadIdx.x] and the read of s[(threadIdx.x + 1) % 4]"),
    (kernel(ir.For("i", 3, ir.seq(*SHIFT))),
     f"{_RACE}, got the read of s[(threadIdx.x + 1) % 4] and the write of s[threadIdx.x]"),
    (kernel(put("s", ir.Const(0), X)), f"{_RACE}, got the write of s[0] in several threads"),
    (kernel(put("y", X), blocks=2),
     "k: threads of different blocks must not access one element, to write it, "
     "got the write of y[threadIdx.x] in several blocks"),
    (kernel(ir.For("i", 3, put("s", add(ir.Var("i"), ir.Binary("mul", X, ir.Const(2))))), threads=2),
     f"{_RACE}, got the write of s[i + threadIdx.x * 2] in several threads"),  # two iterations apart
    (kernel(where(X, 2, WAIT)), f"{_PART}, got one where threadIdx.x < 2"),
    (kernel(ir.For("i", 3, ir.seq(put("s", add(ROW, X)), WAIT, put("y", X, get("s", add(add(ROW, 4), FOLLOWING)))))),
     f"{_RACE}, got the read of s[i * 4 + 4 + (threadIdx.x + 1) % 4] and the write of s[i * 4 + threadIdx.x]"),
    (kernel(put("s", X), ir.For("i", add(X, 1), WAIT)),
     f"{_PART}, got one in the loop i of threadIdx.x + 1 iterations"),
    (kernel(put("s", X), WAIT, where(get("s", X), 1, WAIT)), f"{_PART}, got one where s[threadIdx.x] < 1"),
]  # fmt: skip
"""Kernels with a fault, and what the analysis says."""
