# SPDX-License-Identifier: Apache-2.0
"""The C entry: the error of every wrong argument; its header in C and C++; also under QEMU."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers import native_modules
from helpers.native_programs import WARNINGS, program, run, toolchain

from vdla.compiler.abi import Argument, Signature
from vdla.compiler.codegen.llvm import NativeObject, compile_module
from vdla.compiler.target import Target

HERE = Path(__file__).parent
GOOD = "0 0 no error"
NULL = "arguments, data and shapes must not be null"
SHAPE = "the shape must match the kernel, every extent at least 1"
SAYS = f"""\
good: {GOOD}
few: 1 0 the number of arguments must match the kernel
minus: 1 0 the number of arguments must match the kernel
many: 1 0 the number of arguments must match the kernel
no array: 2 0 {NULL}
no data: 2 1 {NULL}
no shape: 2 2 {NULL}
rank: 3 1 the rank must match the kernel
negative rank: 3 0 the rank must match the kernel
dtype: 4 2 the element type must match the kernel
no dtype: 4 0 the element type must match the kernel
empty: 5 0 {SHAPE}
negative extent: 5 0 {SHAPE}
huge: 5 0 {SHAPE}
shape: 5 1 {SHAPE}
shape of the output: 5 2 {SHAPE}
symbol: 6 1 a symbolic extent must be the same in every argument
alignment: 7 1 the data must be aligned to the element size
in place: 8 2 an output must not overlap another argument
overlap by one: 8 2 an output must not overlap another argument
shared inputs: {GOOD}
overlapping inputs: {GOOD}
"""


def kernel(signature: Signature, target: str, parallel: bool = False, result: int = 0) -> NativeObject:
    module = native_modules.module(signature, parallel, result)
    return compile_module(module, signature, Target.named(target), cached=False)


@pytest.mark.parametrize("target", ["host", "cortex-a9", "aarch64"])
@pytest.mark.parametrize("parallel", [False, True])
def test_every_wrong_argument_has_a_status(target: str, parallel: bool, tmp_path: Path) -> None:
    toolchain(target)
    built = kernel(native_modules.SYMBOLIC, target, parallel)
    source = (HERE / "bad_arguments.c").read_text()
    assert run(program(tmp_path, target, [built], source)) == SAYS


def test_a_failed_allocation_in_the_body_is_a_kernel_error(tmp_path: Path) -> None:
    source = (HERE / "bad_arguments.c").read_text()
    built = kernel(native_modules.SYMBOLIC, "host", result=1)
    first = run(program(tmp_path, "host", [built], source)).splitlines()[0]
    assert first == "good: 9 0 cannot allocate memory for the intermediate results"


PRODUCT = """
#include "product.h"
#include <stdio.h>
static int8_t memory[4][64];
static void call(int64_t n, int64_t m, int64_t k, int64_t found) {
    const int64_t extents[] = {n, m, k, found};
    vdla_tensor arguments[4];
    for (int i = 0; i < 4; ++i) {
        vdla_tensor fresh = {memory[i], &extents[i], 1, VDLA_INT8};
        arguments[i] = fresh;
    }
    int32_t code = product(arguments, 4);
    printf("%d %d\\n", (int)(code & 0xff), (int)vdla_error_argument(code));
}
int main(void) {
    const int64_t most = INT32_MAX;
    call(2, 3, 4, 24);
    call(968973220, 49477, 384773, 4); /* the product less 2**64 */
    call(5, 429496729, 1, 2147483645); /* right, but beyond the buffers of this test: an overlap */
    call(5, 429496730, 1, 2147483650); /* more than an int32 counts */
    call(most, most, 0, 0);
    return 0;
}
"""


@pytest.mark.parametrize("target", ["host", "cortex-a9"])
def test_extents_that_overflow_are_shape_errors(target: str, tmp_path: Path) -> None:
    """The output has n * m * k elements."""
    toolchain(target)
    inputs = tuple(Argument(name, "int8", (extent,), False) for name, extent in zip("abc", "nmk", strict=True))
    output = Argument("d", "int8", (("mul", ("mul", "n", "m"), "k"),), True)
    signature = Signature("product", (*inputs, output), ("n", "m", "k"))
    built = compile_module(native_modules.nothing(signature), signature, Target.named(target), cached=False)
    assert run(program(tmp_path, target, [built], PRODUCT)).splitlines() == ["0 0", "5 3", "8 3", "5 3", "5 2"]


def test_more_bytes_than_the_address_space_are_a_shape_error(tmp_path: Path) -> None:
    signature = Signature("large", (Argument("a", "float64", ("n",), False), Argument("b", "int8", (1,), True)), ("n",))
    source = """
#include "large.h"
#include <stdio.h>
int main(void) {
    const int64_t many = INT64_C(1) << 29, one = 1;
    static double a[1];
    static int8_t b[1];
    const vdla_tensor arguments[] = {{a, &many, 1, VDLA_FLOAT64}, {b, &one, 1, VDLA_INT8}};
    printf("%d", (int)large(arguments, 2));
    return 0;
}
"""
    toolchain("cortex-a9")
    made = native_modules.nothing(signature)
    built = compile_module(made, signature, Target.named("cortex-a9"), cached=False)
    assert run(program(tmp_path, "cortex-a9", [built], source)) == "5"


@pytest.mark.parametrize(("compiler", "standard"), [("gcc", "c99"), ("gcc", "c11"), ("g++", "c++11"), ("g++", "c++20")])
def test_two_headers_compile_together_without_warnings(compiler: str, standard: str, tmp_path: Path) -> None:
    for signature in (native_modules.STATIC, native_modules.SYMBOLIC):
        (tmp_path / f"{signature.symbol}.h").write_text(kernel(signature, "host", parallel=True).header)
    source = tmp_path / f"main.{'c' if compiler == 'gcc' else 'cpp'}"
    includes = "".join(f'#include "{name}.h"\n' for name in ("axpy", "grow", "axpy"))
    source.write_text(f"{includes}int main(void) {{ return axpy(0, 0); }}\n")
    flags = [f"-std={standard}", "-Wstrict-prototypes"] if compiler == "gcc" else [f"-std={standard}"]
    run([compiler, *flags, *WARNINGS, "-fsyntax-only", str(source)])


def test_objects_of_one_program_share_the_pool(tmp_path: Path) -> None:
    objects = [kernel(s, "host", parallel=True) for s in (native_modules.STATIC, native_modules.SYMBOLIC)]
    source = """
#include "axpy.h"
#include "grow.h"
#include <stdio.h>
int main(void) {
    vdla_set_threads(5);
    printf("%d %d %d\\n", (int)vdla_threads(), (int)axpy(0, 3), (int)grow(0, 3));
    return axpy_signature[0] != '{' || grow_signature[0] != '{';
}
"""
    assert run(program(tmp_path, "host", objects, source)) == "5 2 2\n"
    pools = [line for line in run(["nm", str(tmp_path / "main")]).splitlines() if line.endswith(" vdla_pool")]
    assert len(pools) == 1


def test_an_object_without_parallel_loops_has_no_undefined_symbols(tmp_path: Path) -> None:
    built = kernel(native_modules.STATIC, "host")
    (tmp_path / "axpy.o").write_bytes(built.object)
    assert run(["nm", "--undefined-only", str(tmp_path / "axpy.o")]) == ""
    assert "vdla_set_threads" not in built.header


def test_the_header_describes_the_arguments() -> None:
    assert (
        """\
/*
 * grow: returns 0 or an error. 3 arguments:
 *   0: a, input, float32 (n, 4)
 *   1: b, input, float32 (n, 4)
 *   2: c, output, float32 (n + 1, 4)
 * n: taken from the shapes, from 1 to 2147483647, the same in every argument.
 */
int32_t grow(const vdla_tensor *arguments, int32_t count);
"""
        in kernel(native_modules.SYMBOLIC, "host").header
    )
