# SPDX-License-Identifier: Apache-2.0
"""What the PTX of a float16 product consists of: read from its text, by ptxas and by analysis.

Nothing runs: the figures need no GPU, and say nothing of its speed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from vdla.benchmarks.harness import Figures
from vdla.compiler import ir, te
from vdla.compiler.codegen.ptx import PtxError, assemble_ptx, emit_ptx
from vdla.compiler.operators import matmul
from vdla.compiler.operators.gpu.tensor_core_schedule import TensorCoreProblem, schedule_tensor_cores
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import GridLimits
from vdla.runtime.grid.bank_conflicts import bank_conflicts

SIZE = 1024
_LIMITS = GridLimits("a GPU with tensor cores", warp=32, tensor_cores=True)
_SUMS = "product_sum"
_STEP = re.compile(r"^\s*mma\.sync", re.MULTILINE)
_LABEL = re.compile(r"^(\$\w+):")
_JUMP = re.compile(r"\bbra(?:\.uni)?\s+(\$\w+);")
_GLOBAL_LOAD = re.compile(r"\bld\.global\S*")
_WIDE = re.compile(r"\.v4\.[bfsu]32|\.v2\.[bfsu]64")


def tensor_core_product(size: int = SIZE) -> ir.Function:
    """The product of float16 matrices of `size` squared, scheduled for tensor cores."""
    a, b = (te.placeholder((size, size), "float16", name) for name in ("a", "b"))
    schedule = Schedule(te.create_function([a, b], [matmul(a, b, name="product")], "product"))
    schedule_tensor_cores(schedule, _SUMS, TensorCoreProblem.of(schedule, _SUMS, _LIMITS).default)
    return schedule.fn


def ptx_figures(size: int = SIZE) -> tuple[Figures, str]:
    """The figures of the product, and the report of ptxas, or why it cannot run.

    `ptx_steps` counts instructions of tensor cores in the inner loop, `ptx_narrow_loads` loads of
    global memory below 128 bits, `ptx_bank_conflicts` passes that conflicts add; `ptx_spills` are
    bytes.
    """
    fn = tensor_core_product(size)
    source = emit_ptx(fn, _LIMITS)
    loads = _GLOBAL_LOAD.findall(source.text)
    figures: Figures = {
        "ptx_steps": max((len(_STEP.findall(loop)) for loop in loops_of(source.text)), default=0),
        "ptx_loads": len(loads),
        "ptx_narrow_loads": sum(_WIDE.search(load) is None for load in loads),
        "ptx_bank_conflicts": sum(access.conflicts for access in bank_conflicts(fn)),
    }
    try:
        (kernel,) = assemble_ptx(source).kernels
    except PtxError as error:
        return figures, str(error)
    figures["ptx_spills"] = kernel.spill_stores + kernel.spill_loads
    figures["ptx_registers"] = kernel.registers
    return figures, str(kernel)


def loops_of(text: str) -> Iterator[str]:
    """The text of each loop of a kernel: from a label to the jump back to it."""
    labels: dict[str, int] = {}
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if (label := _LABEL.match(line)) is not None:
            labels[label[1]] = number
        elif (jump := _JUMP.search(line)) is not None and jump[1] in labels:
            yield "\n".join(lines[labels[jump[1]] : number + 1])
