# SPDX-License-Identifier: Apache-2.0
"""Whole functions in C programs, native and under QEMU, bit for bit against the interpreter."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.native_programs import call, program, run, toolchain

from vdla.compiler import ir, te
from vdla.compiler.codegen.llvm import compile_native
from vdla.compiler.interpret import interpret
from vdla.compiler.interpret.interpreter import checked_input
from vdla.compiler.ir import output_names
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import TARGETS, TargetError

NAMES = ("host", "cortex-a9", "aarch64")


def matmul(dtype: str, total: str, shape: tuple[int, int, int]) -> ir.Function:
    rows, columns, depth = shape
    a = te.placeholder((rows, depth), dtype, "a")
    b = te.placeholder((depth, columns), dtype, "b")
    k = te.reduce_axis(depth, "k")
    product = te.compute(
        (rows, columns), lambda i, j: te.sum(te.cast(total, a[i, k]) * te.cast(total, b[k, j]), axis=k), "c"
    )
    return te.create_function([a, b], [product], "matmul")


def parallel_matmul() -> ir.Function:
    schedule = Schedule(matmul("float32", "float32", (37, 24, 19)))
    i, j, _ = schedule.loops("c")
    schedule.parallel(i)
    schedule.vectorize(schedule.split(j, 8)[1])
    return schedule.fn


def integers(dtype: str) -> ir.Function:
    """All integer operators, with positive, negative and zero divisors."""
    a, b = te.placeholder((200,), dtype, "a"), te.placeholder((200,), dtype, "b")
    quotient = te.compute((200,), lambda i: a[i] // b[i], "quotient")
    rest = te.compute((200,), lambda i: a[i] % b[i], "rest")
    mixed = te.compute((200,), lambda i: te.select(a[i] < b[i], a[i] * b[i] - 3, te.maximum(a[i], b[i])), "mixed")
    return te.create_function([a, b], [quotient, rest, mixed], "integers")


def halves() -> ir.Function:
    a, b = te.placeholder((100,), "float16", "a"), te.placeholder((100,), "float16", "b")
    c = te.compute((100,), lambda i: a[i] * b[i] + a[i], "c")
    return te.create_function([a, b], [c], "halves")


def conversions() -> ir.Function:
    a = te.placeholder((100,), "float32", "a")
    dtypes = ("int8", "int32", "int64", "float64")
    to = [te.compute((100,), lambda i, dtype=dtype: te.cast(dtype, a[i] * 1000.0), dtype) for dtype in dtypes]
    return te.create_function([a], to, "conversions")


FUNCTIONS: dict[str, Callable[[], ir.Function]] = {
    "int8 matmul": lambda: matmul("int8", "int32", (5, 33, 17)),
    "float32 matmul": lambda: matmul("float32", "float32", (9, 21, 40)),
    "float64 matmul": lambda: matmul("float64", "float64", (3, 5, 7)),
    "parallel matmul with tails": parallel_matmul,
    "int32 arithmetic": lambda: integers("int32"),
    "int8 arithmetic": lambda: integers("int8"),
    "int64 arithmetic": lambda: integers("int64"),
    "float16 arithmetic": halves,
    "conversions": conversions,
}


def inputs_of(fn: ir.Function, seed: int = 0) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    outputs, made = output_names(fn), {}
    for name in fn.params:
        buffer = fn.buffers[name]
        if name in outputs:
            continue
        if "float" in buffer.dtype:
            array = (random.standard_normal(buffer.dims) * 3).astype(buffer.dtype)
        else:
            array = random.integers(-100, 100, buffer.dims).astype(buffer.dtype)
            array.flat[:3] = (0, -1, np.iinfo(buffer.dtype).min)
        made[name] = checked_input(fn.name, buffer, array)
    return made


@pytest.mark.sampled
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("target", NAMES)
def test_programs_agree_with_the_interpreter(target: str, name: str, tmp_path: Path) -> None:
    toolchain(target)
    fn = FUNCTIONS[name]()
    inputs = inputs_of(fn)
    built = compile_native(fn, target, contract=False, cached=False)
    got = call(tmp_path, target, built, inputs, VDLA_THREADS="3")
    for output, want in interpret(fn, inputs).items():
        np.testing.assert_array_equal(got[output].view(np.uint8), want.view(np.uint8), err_msg=output)


@pytest.mark.sampled
@pytest.mark.parametrize("target", NAMES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_objects_need_only_the_c_library(target: str, name: str, tmp_path: Path) -> None:
    """No soft-float functions, and none of a particular compiler's runtime library."""
    toolchain(target)
    built = compile_native(FUNCTIONS[name](), target)
    (tmp_path / "kernel.o").write_bytes(built.object)
    needed = {line.split()[-1] for line in run(["nm", "--undefined-only", str(tmp_path / "kernel.o")]).splitlines()}
    pool = {"getpid", "getenv", "strtoll", "sched_getaffinity", "pthread_create", "pthread_detach"}
    pool |= {"pthread_mutex_lock", "pthread_mutex_unlock", "pthread_cond_wait", "pthread_cond_broadcast"}
    library = {"memset", "memcpy", "memmove", "malloc", "free", "aligned_alloc", "posix_memalign"}
    division = {"__aeabi_idiv", "__aeabi_uidiv", "__aeabi_ldivmod", "__aeabi_uldivmod", "__aeabi_idivmod"}
    division |= {"__aeabi_uidivmod", "__aeabi_f2lz", "__aeabi_d2lz", "__aeabi_l2f", "__aeabi_l2d"}
    own = {"_GLOBAL_OFFSET_TABLE_", *(("__aeabi_memset", "__aeabi_memcpy") if target == "cortex-a9" else ())}
    assert needed <= pool | library | own | (division if target == "cortex-a9" else set())


def test_a_temporary_larger_than_memory_is_a_kernel_error(tmp_path: Path) -> None:
    """n x m floats are 2**32 - 4 bytes; rounded up to a cache line, that is 0 in 32 bits."""
    toolchain("cortex-a9")
    n, m = te.var("n"), te.var("m")
    a, b = te.placeholder((n,), "float32", "a"), te.placeholder((m,), "float32", "b")
    table = te.compute((n, m), lambda i, j: a[i] * b[j], "table")
    k = te.reduce_axis(m, "k")
    sums = te.compute((n,), lambda i: te.sum(table[i, k], axis=k), "c")
    built = compile_native(te.create_function([a, b], [sums], "sums"), "cortex-a9")
    source = """
#include "sums.h"
#include <stdio.h>
static float a[32767], b[32769], c[32767];
int main(void) {
    const int64_t n = 32767, m = 32769;
    const vdla_tensor all[] = {{a, &n, 1, VDLA_FLOAT32}, {b, &m, 1, VDLA_FLOAT32}, {c, &n, 1, VDLA_FLOAT32}};
    puts(vdla_error_text(sums(all, 3)));
    return 0;
}
"""
    said = run(program(tmp_path, "cortex-a9", [built], source))
    assert said == "cannot allocate memory for the intermediate results\n"


def test_a_buffer_larger_than_the_address_space_is_refused() -> None:
    rows = 1 << 21
    a = te.placeholder((rows,), "float32", "a")
    square, k = te.compute((rows, rows), lambda i, j: a[i] * a[j], "square"), te.reduce_axis(rows, "k")
    fn = te.create_function([a], [te.compute((rows,), lambda i: te.sum(square[i, k], axis=k), "c")], "outer")
    message = "outer: square must have at most 2147483647 bytes on cortex-a9, got 17592186044416"
    with pytest.raises(TargetError, match=f"^{re.escape(message)}$"):
        compile_native(fn, "cortex-a9")
    assert compile_native(fn, "aarch64").footprint.call == rows * rows * 4
    wide = te.placeholder((1 << 30, 1 << 30), "float64", "wide")
    fn = te.create_function([wide], [te.compute((4,), lambda i: wide[i, i], "d")], "diagonal")
    message = "diagonal: wide must have at most 9223372036854775807 bytes on aarch64, got 9223372036854775808"
    with pytest.raises(TargetError, match=f"^{re.escape(message)}$"):
        compile_native(fn, "aarch64")


def test_arm64_has_64_bit_indices() -> None:
    n = te.var("n")
    a = te.placeholder((n,), "float16", "a")
    twice = te.compute((n, n), lambda i, j: a[i] * a[j], "twice")
    k = te.reduce_axis(n, "k")
    fn = te.create_function([a], [te.compute((n,), lambda i: te.sum(twice[i, k], axis=k), "b")], "sums")
    apple = replace(TARGETS["aarch64"], triple="arm64-unknown-linux-gnu")
    texts = [compile_native(fn, target).llvm for target in (TARGETS["aarch64"], apple)]
    assert texts[0].replace("aarch64-unknown", "arm64-unknown") == texts[1]


def test_assembly_and_optimised_llvm_are_for_the_target() -> None:
    built = compile_native(parallel_matmul(), "cortex-a9")
    assert "vmla.f32\tq" in built.assembly
    assert 'target triple = "armv7a-unknown-linux-gnueabihf"' in built.optimised_llvm
    assert 'define i32 @"matmul"(' in built.llvm


def test_cortex_a53_never_multiplies_and_adds_right_after_a_load() -> None:
    """Erratum 835769 concerns 64-bit numbers."""
    a, b = te.placeholder((64,), "int64", "a"), te.placeholder((64,), "int64", "b")
    k = te.reduce_axis(64, "k")
    sums = te.compute((64,), lambda i: te.sum(a[k] * b[(i + k) % 64], axis=k), "c")
    fn = te.create_function([a, b], [sums], "sums")
    for target in (TARGETS["cortex-a53"], replace(TARGETS["cortex-a53"], features=frozenset({"neon"}))):
        pairs = re.findall(r"^\tld[rp]\t.*\n\tmadd\tx", compile_native(fn, target).assembly, re.MULTILINE)
        assert bool(pairs) == (target.features == {"neon"})
