# SPDX-License-Identifier: Apache-2.0
"""Kernels are emitted once for equal functions, targets and schedules, and are what LLVM is given
without that.
"""

from __future__ import annotations

from vdla.compiler import ir, te
from vdla.compiler.codegen.llvm import emit_native
from vdla.compiler.operators.cpu import default_schedule
from vdla.compiler.target import Target
from vdla.runtime.network.kernel_module import kernel_module

HOST, AVX2 = Target.named("host"), Target.named("x86-64-avx2")


def function(amount: int) -> ir.Function:
    x = te.placeholder((64,), "int32", "x")
    return te.create_function([x], [te.compute((64,), lambda i: x[i] + amount, "y")], "f")


def test_an_equal_function_has_the_same_module() -> None:
    module = kernel_module(function(3), HOST)
    assert kernel_module(function(3), HOST) is module
    assert module == emit_native(default_schedule(function(3), HOST).fn, HOST)


def test_another_number_or_target_has_a_module_of_its_own() -> None:
    modules = [kernel_module(function(3), AVX2), kernel_module(function(4), AVX2), kernel_module(function(3), HOST)]
    assert len({module.llvm + module.target.name for module in modules}) == 3
