# SPDX-License-Identifier: Apache-2.0
"""The work of a certificate, counted before it is done, so that no file makes it run for ever.

Work is counted in steps, such as products and elements that are moved, of all that is evaluated
inside `work_limit`; memory in elements that exist at once. Both are far above what networks need.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from math import prod

import numpy as np
import numpy.typing as npt

from vdla.compiler import ir
from vdla.compiler.certificates.symbols import CertificateError
from vdla.hardware.isa import COL, Opcode
from vdla.hardware.program import Program

MOST_STEPS = 1 << 40
"""Of a certificate: a thousand times those of ResNet-18."""
MOST_ELEMENTS = 1 << 27
"""That exist at once, of 32 bytes each."""
MOST_ITERATIONS = 1 << 24
"""Of one instruction."""
MOST_OF_WINDOW = 1 << 13
"""Of a kernel, a stride, a dilation, or padding."""

_MOST_INTEGER = (1 << 63) - 1
_WINDOW = ("kernel_shape", "strides", "dilations", "pads", "output_padding")
_rest: ContextVar[list[int] | None] = ContextVar("rest of the steps", default=None)


@contextmanager
def work_limit(steps: int = MOST_STEPS) -> Iterator[None]:
    """A context in which evaluating more than so many steps in all is a CertificateError; within
    another one, its limit holds.
    """
    token = _rest.set([steps]) if _rest.get() is None else None
    try:
        yield
    finally:
        if token is not None:
            _rest.reset(token)


def spend(steps: int, elements: int) -> None:
    """Count work that is about to be done.

    Raises:
        CertificateError: the limit of the context does not allow it.
    """
    rest = _rest.get()
    if rest is None:
        return
    if elements > MOST_ELEMENTS:
        rule = f"at most {MOST_ELEMENTS:,} elements must be needed at once"
        raise CertificateError(f"certify: {rule}, got {elements:,}")
    rest[0] -= steps
    if rest[0] < 0:
        raise CertificateError(f"certify: at most {MOST_STEPS:,} steps must suffice, got more (a hostile file?)")


def spend_function(fn: ir.Function) -> None:
    """Count the iterations of a loop nest of static shapes, and the elements of its buffers."""
    if _rest.get() is not None:
        spend(_iterations(fn.body, 1), sum(prod(buffer.dims) for buffer in fn.buffers.values()))


def _iterations(stmt: ir.Stmt, times: int) -> int:
    """The stores of a statement that runs so often."""
    match stmt:
        case ir.For():
            return _iterations(stmt.body, times * stmt.size)
        case ir.Store() | ir.MultiStore():
            return times
    return sum(_iterations(part, times) for part in ir.children(stmt))


def spend_program(program: Program) -> None:
    """Count what the instructions of a program move and compute, and the elements of its tensors.

    Raises:
        CertificateError: the limit of the context does not allow it, or an instruction has more
            than MOST_ITERATIONS.
    """
    if _rest.get() is None:
        return
    counts = iterations_of(program)
    if counts.max(initial=0) > MOST_ITERATIONS:
        rule = f"an instruction must have at most {MOST_ITERATIONS:,} iterations"
        raise CertificateError(f"certify: {rule}, got {int(counts.max()):,}")
    config = program.config
    entry = max(config.block_in * config.block_out, config.batch * max(config.block_in, config.block_out))
    spend(int(counts.sum()) * entry, sum(prod(tensor.shape) for tensor in program.tensors))


def iterations_of(program: Program) -> npt.NDArray[np.float64]:
    """The entries that each instruction moves, or its iterations, as floats, which do not wrap."""
    field = dict(zip(COL, program.columns.T.astype(np.float64), strict=False))  # others are of extensions
    lines, line = (
        field[f"{axis}_before"] + field[f"{axis}_size"] + field[f"{axis}_after"] for axis in ("y", "x")
    )  # fmt: skip
    moved = field["z_size"] * lines * line
    computed = field["loop0"] * field["loop1"] * np.maximum(0, field["uop_end"] - field["uop_begin"])
    transfers = np.isin(field["opcode"], [Opcode.LOAD, Opcode.STORE])
    return np.where(transfers, moved, np.where(field["opcode"] == Opcode.SYNC, 0, computed))


def require_sizes(attributes: Mapping[str, object]) -> None:
    """CertificateError unless integers of an operator have 64 bits, and its window a size that one
    can have.
    """
    for name, value in attributes.items():
        most = MOST_OF_WINDOW if name in _WINDOW else _MOST_INTEGER
        for one in value if isinstance(value, tuple) else (value,):
            if isinstance(one, int) and abs(one) > most:
                raise CertificateError(f"certify: {name} must be at most {most:,}, got {one:,}")
