# SPDX-License-Identifier: Apache-2.0
"""What `ptxas` says of kernels: registers, spills, shared memory; and of text that is none."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from helpers.ptx import needs_ptxas

from vdla import operators
from vdla.commands.named_operators import named_operator
from vdla.compiler import ir, te
from vdla.compiler.codegen.ptx import PTX_ARCHITECTURES, PtxError, assemble, assemble_ptx, emit_ptx
from vdla.compiler.codegen.ptx.architectures import target_of
from vdla.compiler.codegen.ptx.assemble import KernelResources, kernel_resources
from vdla.compiler.operators.gpu import grid_schedule
from vdla.compiler.target import GridLimits
from vdla.verification.grid.cooperative import tiled_product

LIMITS = GridLimits("a device")
LOG = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'a_kernel' for 'sm_80'
ptxas info    : Function properties for a_kernel
    64 bytes stack frame, 48 bytes spill stores, 52 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 256 bytes smem, 64 bytes cumulative stack size
ptxas info    : Compiling entry function 'b_kernel' for 'sm_80'
ptxas info    : Function properties for b_kernel
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 4 registers, used 0 barriers, 360 bytes cmem[0]
"""


def test_the_log_is_read() -> None:
    found = kernel_resources(LOG)
    assert found == (KernelResources("a_kernel", 255, 48, 52, 64, 256), KernelResources("b_kernel", 4, 0, 0, 0, 0))
    assert found[0].spills == 100
    assert str(found[0]) == "a_kernel: 255 registers, 48 and 52 bytes spilled and reloaded, 64 of stack, 256 shared"


@needs_ptxas
@pytest.mark.parametrize("arch", ["sm_75", PTX_ARCHITECTURES[-1]])
def test_a_tiled_product_has_no_spills(arch: str) -> None:
    (kernel,) = assemble_ptx(emit_ptx(tiled_product(20, 8, 2, 4).fn, LIMITS, arch)).kernels
    assert (kernel.kernel, kernel.spills, kernel.stack, kernel.shared_bytes) == ("product_kernel", 0, 0, 256)
    assert 0 < kernel.registers < 64


@needs_ptxas
def test_an_error_names_the_kernel_and_the_line() -> None:
    source = emit_ptx(tiled_product(20, 8, 2, 4).fn, LIMITS)
    number = 1 + next(n for n, line in enumerate(source.text.splitlines()) if "bar.sync" in line)
    broken = replace(source, text=source.text.replace("bar.sync", "bar.sinc", 1))
    reason = f"Unknown modifier '.sinc'\" in line {number}: bar.sinc 0;"
    with pytest.raises(PtxError, match=f'^product_kernel: ptxas must assemble it, got ".*{re.escape(reason)}$'):
        assemble_ptx(broken)


def test_a_missing_program_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assemble, "find_ptxas", lambda: None)
    message = 'ptxas: the program must be installed, got none; install it with pip install "vdla[cuda]"'
    with pytest.raises(PtxError, match=f"^{re.escape(message)}$"):
        assemble_ptx(emit_ptx(tiled_product(20, 8, 2, 4).fn, LIMITS))


def _product(dtype: str, size: int) -> ir.Function:
    a, b = (te.placeholder((size, size), dtype, name) for name in "ab")
    return te.create_function([a, b], [operators.matmul(a, b, name="c")], "product")


def _convolution(name: str) -> ir.Function:
    return named_operator("native", name, [])("float32", target_of("sm_80"))


@needs_ptxas
@pytest.mark.parametrize(
    "fn",
    [
        _product("float32", 128),
        pytest.param(_product("float16", 256), marks=pytest.mark.long),
        *(pytest.param(_convolution(name), marks=pytest.mark.long) for name in ("C3", "C9", "D4")),
    ],
    ids=["float32", "float16", "C3", "C9", "D4"],
)
def test_default_schedules_have_no_spills(fn: ir.Function) -> None:
    limits = GridLimits("a device", warp=32, tensor_cores=True)
    source = emit_ptx(grid_schedule(fn, limits).fn, limits)
    kernels = assemble_ptx(source).kernels
    assert [(kernel.spills, kernel.stack) for kernel in kernels] == [(0, 0)] * len(source.launches)


@needs_ptxas
def test_shared_memory_beyond_48_kib_is_asked_for_by_the_launch() -> None:
    source = emit_ptx(tiled_product(128, 128, 8, 64).fn, GridLimits("a device", shared_bytes=100 * 1024))
    (launch,), (kernel,) = source.launches, assemble_ptx(source).kernels
    assert launch.shared_bytes == kernel.shared_bytes == 2 * 128 * 64 * 4
    assert ".extern .shared .align 16 .b8 product_kernel_shared[];" in source.text
