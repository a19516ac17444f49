# SPDX-License-Identifier: Apache-2.0
"""From a scheduled function to OpenCL C, and how to launch it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

from vdla.compiler import ir
from vdla.compiler.abi import Argument, Launch, Signature
from vdla.compiler.arith import last_value, scalar_ranges
from vdla.compiler.codegen.grid_arrays import check_elements, groups_of, temporaries_of
from vdla.compiler.codegen.llvm import signature_of
from vdla.compiler.codegen.opencl.expressions import ExpressionWriter
from vdla.compiler.codegen.opencl.helpers import device_functions, prelude
from vdla.compiler.codegen.opencl.names import CNames
from vdla.compiler.codegen.opencl.source_text import OpenClError
from vdla.compiler.codegen.opencl.statements import StatementWriter
from vdla.compiler.codegen.opencl.types import memory_type
from vdla.compiler.ir import BLOCK_AXES, THREAD_AXES, GridKernel
from vdla.compiler.lowering.grid_pipeline import lower_kernels
from vdla.compiler.lowering.legalise import legalise
from vdla.compiler.target import GridLimits


@dataclass(frozen=True, slots=True)
class OpenClSource:
    """A function in OpenCL C: kernels that run in the order of `launches`.

    `temporaries` are the arrays in device memory that exist during a call.
    """

    signature: Signature
    text: str
    launches: tuple[Launch, ...]
    temporaries: tuple[Argument, ...]

    def __str__(self) -> str:
        return self.text.rstrip()


def emit_opencl(fn: ir.Function, limits: GridLimits) -> OpenClSource:
    """The OpenCL C of a function, scheduled by `bind` or not, for a device of these limits.

    Raises:
        SignatureError: the function cannot be called with arrays.
        PassError: the schedule asks for the impossible, or for more than the device has.
        OpenClError: an array exceeds what OpenCL C can express.
    """
    signature = signature_of(fn)
    kernels = [replace(kernel, body=legalise(kernel.body, kernel.buffers)) for kernel in lower_kernels(fn, limits)]
    check_elements(fn, kernels, OpenClError)
    used: set[str] = set()
    parts, launches = [], []
    for kernel in kernels:
        text, launch = write_kernel(fn, kernel, used)
        parts.append(text)
        launches.append(launch)
    head = "#pragma OPENCL FP_CONTRACT OFF"
    text = "\n\n".join(part for part in (head, prelude(used), *parts) if part) + "\n"
    return OpenClSource(signature, text, tuple(launches), temporaries_of(fn, kernels))


# --- one kernel -----------------------------------------------------------------------------------

_SHORT = {
    **{axis: f"b{axis[-1]}" for axis in BLOCK_AXES},
    **{axis: f"t{axis[-1]}" for axis in THREAD_AXES},
}
"""The variables of the grid in the source."""
_MOST_COLUMNS = 100


def write_kernel(fn: ir.Function, kernel: GridKernel, used: set[str]) -> tuple[str, Launch]:
    """The source of a kernel of `fn`, and its launch; `used` collects the device functions."""
    symbol = f"{kernel.name}_kernel"
    loops = [stmt.var for stmt in ir.find(kernel.body, ir.For)]
    names = CNames([*kernel.buffers, *loops, *fn.scalars], [symbol, *device_functions()], _SHORT)
    axes = kernel.extents
    ranges = dict(scalar_ranges(fn))
    ranges |= {axis: (0, last_value(extent, ranges)) for axis, extent in axes.items()}
    fixed = frozenset(axes) | set(fn.scalars)
    writer = ExpressionWriter(buffers=kernel.buffers, names=names, used=used, fixed=fixed, ranges=ranges)
    body = list(StatementWriter(kernel.name, writer).lines(kernel.body, 1))
    variables = _variables(kernel)
    scalars = tuple(name for name in kernel.scalars if name in variables)
    parameters = [_pointer(kernel, name, names) for name in kernel.params]
    parameters += [f"const int {names[name]}" for name in scalars]
    size = ", ".join(map(str, kernel.block))
    lines = [
        f"__kernel __attribute__((reqd_work_group_size({size})))",
        _header(symbol, parameters),
        *(f"    __local {_array(buffer, names)}" for buffer in kernel.shared),
        *(f"    const int {names[axis]} = {_number(axis)};" for axis in axes if axis in variables),
        *(f"    {line}" for line in writer.hoisted_lines()),
        *body,
        "}",
    ]
    return "\n".join(lines), Launch(symbol, kernel.params, scalars, groups_of(fn, kernel), kernel.block)


def _header(symbol: str, parameters: list[str]) -> str:
    """The first line of a function, in several where it is long."""
    line = f"void {symbol}({', '.join(parameters)}) {{"
    if len(line) <= _MOST_COLUMNS:
        return line
    inner = ",\n    ".join(parameters)
    return f"void {symbol}(\n    {inner}\n) {{"


def _pointer(kernel: GridKernel, name: str, names: CNames) -> str:
    """The declaration of a pointer to device memory."""
    written = any(isinstance(stmt, ir.Store) and stmt.buffer == name for stmt in ir.walk(kernel.body))
    return f"__global {'' if written else 'const '}{memory_type(kernel.buffers[name].dtype)} *restrict {names[name]}"


def _array(buffer: ir.Buffer, names: CNames) -> str:
    """The declaration of an array of a group."""
    return f"{memory_type(buffer.dtype)} {names[buffer.name]}[{prod(buffer.dims)}];"


def _number(axis: str) -> str:
    """The call that gives the number of this thread or group along an axis."""
    function = "get_group_id" if axis in BLOCK_AXES else "get_local_id"
    return f"{function}({'xyz'.index(axis[-1])})"


def _variables(kernel: GridKernel) -> set[str]:
    """The variables that the kernel uses, those in the strides of its buffers too."""
    result: set[str] = set()
    seen: set[int] = set()
    pending = list(_expressions(kernel))
    while pending:
        expr = pending.pop()
        if id(expr) not in seen:
            seen.add(id(expr))
            result |= {expr.name} if isinstance(expr, ir.Var) else set()
            pending += ir.operands(expr)
    return result


def _expressions(kernel: GridKernel) -> Iterator[ir.Expr]:
    for buffer in kernel.buffers.values():
        yield from (extent for extent in buffer.shape if not isinstance(extent, int))
    for stmt in ir.walk(kernel.body):
        match stmt:
            case ir.Store(indices=indices, value=value):
                yield from (*indices, value)
            case ir.If(cond=cond):
                yield cond
            case ir.For(extent=extent) if not isinstance(extent, int):
                yield extent
