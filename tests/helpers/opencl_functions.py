# SPDX-License-Identifier: Apache-2.0
"""Functions of plain stores for an OpenCL device, and the mark of tests that need one."""

from __future__ import annotations

import pytest

from vdla.compiler import ir
from vdla.compiler.ir import THREAD

needs_opencl = pytest.mark.usefixtures("opencl_device")
"""Skips a test where there is no device; none is opened when tests are collected."""


def on_threads(params: list[ir.Buffer], count: int, *stores: ir.Stmt) -> ir.Function:
    """A function whose thread `i` runs the stores."""
    loop = ir.For("i", count, ir.seq(*stores), annotations={THREAD: "threadIdx.x"})
    return ir.Function("f", tuple(b.name for b in params), {b.name: b for b in params}, loop)


def row_store(buffer: str, row: int, value: ir.Expr) -> ir.Store:
    """`buffer[row, i] = value`."""
    return ir.Store(buffer, (ir.Const(row), ir.Var("i")), value)


def element(buffer: str) -> ir.Load:
    """`buffer[i]`."""
    return ir.Load(buffer, (ir.Var("i"),))
