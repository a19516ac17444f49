# SPDX-License-Identifier: Apache-2.0
"""Compiles hand-written lowered functions without the C entry, and calls them through ctypes."""

from __future__ import annotations

import ctypes
from itertools import count

import numpy as np
from llvmlite import binding

from helpers.loop_nests import expr, load  # noqa: F401  re-exported
from helpers.loop_nests import op as binary
from vdla.compiler import ir
from vdla.compiler.codegen.llvm import objects
from vdla.compiler.codegen.llvm.module import body_symbol, emit_module
from vdla.compiler.ir import storage_dtype
from vdla.compiler.target import Target

HOST = Target.named("host")
NUMBERS = count()
LOADED = []  # workers of the thread pool may execute loaded code until the process ends

Expr = ir.Expr | int


def add(a: Expr, *others: Expr) -> ir.Expr:
    total = expr(a)
    for other in others:
        total = binary("add", total, other)
    return total


def mul(a: Expr, b: Expr) -> ir.Expr:
    return binary("mul", a, b)


def store(buffer: str, indices: tuple[Expr, ...], value: ir.Expr) -> ir.Store:
    return ir.Store(buffer, tuple(map(expr, indices)), value)


def vector(var: str, extent: int, body: ir.Stmt) -> ir.For:
    return ir.For(var, extent, body, ir.LoopKind.VECTORIZE)


def function(params: list[ir.Buffer], body: ir.Stmt, inner: list[ir.Buffer] | None = None, scalars=()) -> ir.Function:
    buffers = {buffer.name: buffer for buffer in (*params, *(inner or []))}
    return ir.Function("kernel", tuple(b.name for b in params), buffers, body, tuple(scalars))


def module_text(fn: ir.Function, target: Target = HOST, contract: bool = False) -> str:
    return str(emit_module(fn, target, contract))


def assembly(fn: ir.Function, target: Target = HOST, contract: bool = True) -> str:
    return objects.assembly(module_text(fn, target, contract), target)


class Compiled:
    """A loaded body, called with an array for each parameter, then the scalars."""

    def __init__(self, fn: ir.Function, contract: bool = False, target: Target = HOST) -> None:
        code = objects.object_code(module_text(fn, target, contract), target, cached=False)
        self.fn, symbol = fn, body_symbol(fn.name)
        builder = binding.JITLibraryBuilder().add_object_img(code).add_current_process().export_symbol(symbol)
        self.library = builder.link(binding.create_lljit_compiler(), f"lowered{next(NUMBERS)}")
        LOADED.append(self.library)
        kinds = [ctypes.c_void_p] * len(fn.params) + [ctypes.c_int64] * len(fn.scalars)
        self.entry = ctypes.CFUNCTYPE(ctypes.c_int32, *kinds)(self.library[symbol])

    def __call__(self, *arrays: np.ndarray, **scalars: int) -> int:
        for name, array in zip(self.fn.params, arrays, strict=True):
            assert array.dtype == storage_dtype(self.fn.buffers[name].dtype) and array.flags.c_contiguous
        values = [scalars[name] for name in self.fn.scalars]
        return self.entry(*(array.ctypes.data for array in arrays), *values)
