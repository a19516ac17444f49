# SPDX-License-Identifier: Apache-2.0
"""Small hand-written functions, and their bodies as text."""

from vdla.compiler import ir
from vdla.compiler.ir import stmt_text

SERIAL, UNROLL, VECTORIZE, PARALLEL = (
    ir.LoopKind.SERIAL, ir.LoopKind.UNROLL, ir.LoopKind.VECTORIZE, ir.LoopKind.PARALLEL
)  # fmt: skip


def expr(value):
    """Names and numbers as int32 expressions."""
    return ir.Var(value) if isinstance(value, str) else ir.Const(value) if isinstance(value, int) else value


def op(name, a, b):
    return ir.Binary(name, expr(a), expr(b))


def at(*terms):
    """A sum of variables, numbers and (variable, factor)."""
    parts = [op("mul", *t) if isinstance(t, tuple) else expr(t) for t in terms]
    total = parts[0]
    for part in parts[1:]:
        total = op("add", total, part)
    return total


def load(buffer, *indices):
    return ir.Load(buffer, tuple(expr(i) for i in indices))


def store(buffer, *indices, value):
    return ir.Store(buffer, tuple(expr(i) for i in indices), expr(value))


def loop(var, extent, *body, kind=SERIAL):
    return ir.For(var, extent, ir.seq(*body), kind)


def function(body, scalars=(), temporaries=(), **shapes):
    """A function over int32 buffers; `temporaries` are intermediate."""
    buffers = {name: ir.Buffer(name, shape, "int32") for name, shape in shapes.items()}
    params = tuple(name for name in shapes if name not in temporaries)
    return ir.Function("f", params, buffers, body, scalars)


def text(fn):
    return "\n" + stmt_text(fn.body) + "\n"
