# SPDX-License-Identifier: Apache-2.0
"""Kernels called with NumPy arrays: results, and the exact errors for wrong arguments."""

from __future__ import annotations

import re
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import native_modules
from helpers.native_modules import SYMBOLIC, expected

from vdla.compiler import te
from vdla.compiler.abi import Argument, Signature
from vdla.compiler.codegen.llvm import compile_module, compile_native
from vdla.compiler.interpret import interpret
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import Target, TargetError
from vdla.runtime.native import Kernel, NativeError, build, load

F32 = np.float32
TWO_OUTPUTS = Signature("pair", (*native_modules.STATIC.arguments[:2], Argument("c", "int8", (2,), True),
                                 Argument("d", "int8", (2,), True)))  # fmt: skip
SMALL = Signature("small", tuple(Argument(name, "int4", (6, 4), name == "c") for name in "abc"))
BRAIN = Signature("brain", tuple(Argument(name, "bfloat16", (6, 4), name == "c") for name in "abc"))


def kernel(signature: Signature, parallel: bool = False, result: int = 0) -> Kernel:
    made = native_modules.module(signature, parallel, result)
    return load(compile_module(made, signature, Target.named("host"), cached=False))


def idle(signature: Signature, result: int = 0) -> Kernel:
    """A kernel of any signature with an empty body."""
    made = native_modules.nothing(signature, result)
    return load(compile_module(made, signature, Target.named("host"), cached=False))


@pytest.fixture(scope="module")
def axpy() -> Kernel:
    return kernel(native_modules.STATIC)


@pytest.fixture(scope="module")
def grow() -> Kernel:
    return kernel(SYMBOLIC)


def arrays(rows: int = 6) -> tuple[Any, Any]:
    random = np.random.default_rng(rows)
    return random.random((rows, 4), F32), random.random((rows, 4), F32)


@pytest.mark.parametrize("target", [None, 3, native_modules])
def test_other_types_of_targets_are_refused(target: Any) -> None:
    x = te.placeholder((4,), "float32", "x")
    fn = te.create_function([x], [te.compute((4,), lambda i: x[i] * 2, "y")], "double_it")
    got = f"compile_native: target must be a name or a Target, got {type(target).__name__}"
    with pytest.raises(TargetError, match=f"^{re.escape(got)}$"):
        compile_native(fn, target)


# --- calls ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("parallel", [False, True])
def test_arrays_are_passed_in_order_or_by_name(parallel: bool) -> None:
    called = kernel(native_modules.STATIC, parallel)
    a, b = arrays()
    for c in (called(a, b), called(a, b=b), called(b=b, a=a)):
        np.testing.assert_array_equal(c, expected(a, b))
        assert c.dtype == F32


def test_a_call_returns_the_arrays_given_as_out(axpy: Kernel) -> None:
    a, b = arrays()
    c = np.zeros((6, 4), F32)
    assert axpy(a, b, out=c) is c
    np.testing.assert_array_equal(c, expected(a, b))
    assert axpy(a, b, out=[c]) is c


def test_output_shapes_follow_the_symbolic_extents(grow: Kernel) -> None:
    for rows in (1, 2, 9):
        a, b = arrays(rows)
        c = grow(a, b)
        assert c.shape == (rows + 1, 4)
        np.testing.assert_array_equal(c[:rows], expected(a, b))


def test_several_outputs_are_a_tuple() -> None:
    a, b = arrays()
    pair = idle(TWO_OUTPUTS)
    c, d = pair(a, b)
    assert (c.shape, d.dtype) == ((2,), np.int8)
    given = (np.zeros(2, np.int8), np.zeros(2, np.int8))
    assert all(got is array for got, array in zip(pair(a, b, out=given), given, strict=True))


def test_read_only_inputs_and_bfloat16_are_accepted(axpy: Kernel) -> None:
    a, b = arrays()
    a.flags.writeable = False
    np.testing.assert_array_equal(axpy(a, b), expected(a, b))
    brains = pytest.importorskip("ml_dtypes").bfloat16
    assert idle(BRAIN)(a.astype(brains), b.astype(brains)).dtype == brains


def test_array_subclasses_are_accepted_except_masked_arrays(axpy: Kernel, tmp_path: Path) -> None:
    a, b = arrays()
    mapped = np.memmap(tmp_path / "b", F32, "w+", shape=b.shape)
    mapped[...] = b
    np.testing.assert_array_equal(axpy(a, mapped), expected(a, b))
    assert axpy(a, b, out=mapped) is mapped
    rule = "must be an array without a mask, got a MaskedArray (call its filled() method)"
    refuses(axpy, f"axpy: a {rule}", np.ma.masked_array(a, a > 0.5), b)
    refuses(axpy, "axpy: a must have the shape (6, 4), got (4,)", mapped[0], b)


def test_a_bound_call_reads_the_current_contents(axpy: Kernel) -> None:
    a, b = arrays()
    bound = axpy.bind(a, b=b)
    first = bound()
    np.testing.assert_array_equal(first, expected(a, b))
    a[...] = 3
    assert bound() is first is bound.outputs[0]
    np.testing.assert_array_equal(first, expected(a, b))
    with pytest.raises(NativeError, match="axpy: a must have the shape"):
        axpy.bind(a[:2], b)


def test_a_bound_call_outlives_its_kernel_and_its_arrays() -> None:
    a, b = arrays()
    bound = kernel(SYMBOLIC).bind(a.copy(), b.copy())
    for _ in range(100):
        kernel(native_modules.STATIC)(*arrays())
    np.testing.assert_array_equal(bound()[:6], expected(a, b))


def test_threads_share_a_kernel(grow: Kernel) -> None:
    wrong: list[int] = []

    def work(rows: int) -> None:
        a, b = arrays(rows)
        for _ in range(300):
            if not np.array_equal(grow(a, b)[:rows], expected(a, b)):
                wrong.append(rows)

    workers = [threading.Thread(target=work, args=(rows,)) for rows in range(1, 7)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert wrong == []


# --- refused arguments ----------------------------------------------------------------------------


def refuses(called: Kernel, message: str, *given: Any, **options: Any) -> None:
    with pytest.raises(NativeError, match=f"^{re.escape(message)}$"):
        called(*given, **options)


def test_missing_and_unknown_arrays_are_refused(axpy: Kernel) -> None:
    a, b = arrays()
    refuses(axpy, "axpy: arrays must be given for a, b, got none")
    refuses(axpy, "axpy: arrays must be given for a, b, got a", a)
    refuses(axpy, "axpy: arrays must be given for a, b, got a, x", a, x=b)
    refuses(axpy, "axpy: arrays must be given for a, b, got 3 arrays", a, b, b)
    refuses(axpy, "axpy: arrays must be given for a, b, got a, b, c", a, b, c=b)
    refuses(axpy, "axpy: a must be given once, got it by position and by name", a, a=b)


def test_wrong_types_dtypes_and_shapes_are_refused(axpy: Kernel) -> None:
    a, b = arrays()
    refuses(axpy, "axpy: b must be a numpy array, got list", a, [1.0])
    refuses(axpy, "axpy: a must be a numpy array, got NoneType", None, b)
    for name, given, arguments in (("b", "float64", (a, b.astype(np.float64))), ("a", ">f4", (a.astype(">f4"), b))):
        hint = f'({name}.astype("float32") converts it)'
        refuses(axpy, f"axpy: {name} must have the dtype float32, got {given} {hint}", *arguments)
    refuses(axpy, "axpy: a must have the shape (6, 4), got (4, 6)", a.reshape(4, 6), b)
    refuses(axpy, "axpy: a must have the shape (6, 4), got (24,)", a.reshape(-1), b)
    refuses(axpy, "axpy: a must have the shape (6, 4), got (0, 4)", a[:0], b)


def test_strided_read_only_and_misaligned_arrays_are_refused(axpy: Kernel) -> None:
    a, b = arrays()
    columns = np.asfortranarray(a)
    fix = "(use numpy.ascontiguousarray)"
    refuses(axpy, f"axpy: a must be contiguous and row-major, got strides (4, 24) {fix}", columns, b)
    wide = np.zeros((6, 8), F32)[:, ::2]
    refuses(axpy, "axpy: c must be contiguous and row-major, got strides (32, 8)", a, b, out=wide)
    fixed = np.zeros((6, 4), F32)
    fixed.flags.writeable = False
    refuses(axpy, "axpy: c must be writable, got a read-only array", a, b, out=fixed)
    odd = np.zeros(6 * 4 * 4 + 1, np.uint8)[1:].view(F32).reshape(6, 4)
    place = odd.ctypes.data
    refuses(axpy, f"axpy: b must be aligned to 4 bytes, got address {place:#x}", a, odd)


def test_overlapping_outputs_are_refused(axpy: Kernel) -> None:
    a, b = arrays()
    refuses(axpy, "axpy: c must not overlap another argument, got memory of a", a, b, out=a)
    both = np.zeros((7, 4), F32)
    refuses(axpy, "axpy: c must not overlap another argument, got memory of b", a, both[:6], out=both[1:])
    np.testing.assert_array_equal(axpy(a, a), expected(a, a))


def test_a_wrong_out_is_refused(axpy: Kernel) -> None:
    a, b = arrays()
    c = np.zeros((6, 4), F32)
    refuses(axpy, "axpy: out must have one array each for c, got 2", a, b, out=(c, c))
    refuses(axpy, "axpy: c must have the shape (6, 4), got (5, 4)", a, b, out=c[:5])
    refuses(axpy, "axpy: c must be a numpy array, got str", a, b, out="c")
    two = np.zeros(2, np.int8)
    refuses(idle(TWO_OUTPUTS), "pair: out must have one array each for c, d, got 1", a, b, out=two)
    refuses(idle(TWO_OUTPUTS), "pair: d must not overlap another argument, got memory of c", a, b, out=(two, two))


def test_contradictory_symbolic_extents_are_refused(grow: Kernel) -> None:
    a, b = arrays()
    refuses(grow, "grow: n must be the same in every argument, got 6 in a and 3 in b", a, b[:3])
    refuses(grow, "grow: a must have the shape (n, 4), got (6,)", a[:, 0].copy(), b)
    refuses(grow, "grow: n must be from 1 to 2147483647, got 0 in a", a[:0], b)
    wide = np.zeros((6, 5), F32)
    refuses(grow, "grow: a must have the shape (n, 4) = (6, 4) with n = 6, got (6, 5)", wide, b)
    refuses(grow, "grow: c must have the shape (n + 1, 4) = (7, 4) with n = 6, got (6, 4)", a, b, out=np.zeros_like(a))
    refuses(grow, "grow: b must be a numpy array, got int", a, 3)
    hint = '(b.astype("float32") converts it)'
    refuses(grow, f"grow: b must have the dtype float32, got int64 {hint}", a, b.astype(np.int64))


def test_empty_outputs_are_refused() -> None:
    a, b = Argument("a", "int8", ("n",), False), Argument("b", "int8", (("sub", "n", 3),), True)
    called = idle(Signature("shrink", (a, b), ("n",)))
    assert called(np.zeros(4, np.int8)).shape == (1,)
    refuses(called, "shrink: n - 3 of b must be at least 1, got 0 with n = 3", np.zeros(3, np.int8))


def test_output_extents_beyond_int32_are_refused() -> None:
    a, b = (Argument(name, "int8", (name,), False) for name in "nm")
    called = idle(Signature("spread", (a, b, Argument("c", "int8", (("mul", "n", "m"),), True)), ("n", "m")))
    n, m = np.zeros(1 << 16, np.int8), np.zeros(1 << 15, np.int8)
    got = "n * m of c must be at most 2147483647, got 2147483648 with n = 65536, m = 32768"
    refuses(called, f"spread: {got}", n, m)


def test_outputs_larger_than_memory_are_an_error() -> None:
    shape = ("n", "n", "n", "n")
    called = idle(Signature("cube", (Argument("a", "int8", ("n",), False), Argument("b", "int8", shape, True)), ("n",)))
    for n in (1 << 13, 1 << 17):  # out of memory; too large for NumPy
        message = f"cube: cannot allocate memory for output b of shape {(n,) * 4}"
        refuses(called, message, np.zeros(n, np.int8))


@pytest.mark.parametrize("name", ["self", "arrays", "named"])
def test_inputs_may_have_the_names_of_our_parameters(name: str) -> None:
    called = idle(Signature("free_names", (Argument(name, "int8", (2,), False), Argument("y", "int8", (2,), True))))
    x = np.zeros(2, np.int8)
    assert called(**{name: x}).shape == called.bind(**{name: x})().shape == (2,)


def test_load_refuses_objects_of_other_types() -> None:
    refused = "load: built must be a NativeObject, as of compile_native, got str"
    with pytest.raises(NativeError, match=f"^{re.escape(refused)}$"):
        load("matmul")  # type: ignore[arg-type]


def test_an_extent_that_only_the_output_defines_needs_out() -> None:
    fill = Signature("fill", (Argument("a", "int8", (2,), False), Argument("b", "int8", ("n",), True)), ("n",))
    called = idle(fill)
    a = np.zeros(2, np.int8)
    refuses(called, "fill: out must be given, as it alone defines n, got none", a)
    assert called(a, out=np.zeros(5, np.int8)).shape == (5,)


def test_values_out_of_range_of_int4_are_refused() -> None:
    a = np.zeros((6, 4), np.int8)
    called = idle(SMALL)
    called(a - 8, a + 7)
    refuses(called, "small: elements of b must be in the range of int4, got 8", a, a + 8)
    refuses(called, "small: elements of a must be in the range of int4, got -9", a - 9, a)


def test_out_of_memory_inside_a_kernel_is_an_error() -> None:
    message = "axpy: cannot allocate memory for the intermediate results"
    refuses(kernel(native_modules.STATIC, result=1), message, *arrays())


def outer() -> Any:
    """Sums over an n x n intermediate: 16 TB for n = 2**21."""
    n = te.var("n")
    a = te.placeholder((n,), "float32", "a")
    square = te.compute((n, n), lambda i, j: a[i] * a[j], "square")
    k = te.reduce_axis(n, "k")
    return te.create_function([a], [te.compute((n,), lambda i: te.sum(square[i, k], axis=k), "c")], "outer")


def test_intermediate_results_larger_than_memory_are_an_error() -> None:
    called = build(outer())
    np.testing.assert_array_equal(called(np.arange(5, dtype=F32)), np.arange(5) * 10)
    message = "outer: cannot allocate memory for the intermediate results"
    refuses(called, message, np.zeros(1 << 21, F32))


# --- whole functions ------------------------------------------------------------------------------


def matmul() -> Any:
    a = te.placeholder((24, 32), "float32", "a")
    b = te.placeholder((16, 32), "float32", "b")
    k = te.reduce_axis(32, "k")
    c = te.compute((24, 16), lambda i, j: te.sum(a[i, k] * b[j, k], axis=k), "c")
    return te.create_function([a, b], [c], "matmul")


def test_a_built_function_agrees_with_the_interpreter() -> None:
    fn = matmul()
    random = np.random.default_rng(0)
    inputs = {"a": random.random((24, 32), F32), "b": random.random((16, 32), F32)}
    want = interpret(fn, inputs)["c"]
    np.testing.assert_array_equal(build(fn, contract=False)(**inputs), want)
    np.testing.assert_allclose(build(fn)(**inputs), want, rtol=1e-6)


def test_a_kernel_for_another_machine_is_not_loaded() -> None:
    with pytest.raises(NativeError, match=re.escape("matmul: target must be of this machine's architecture, ")):
        build(matmul(), "cortex-a9")
    with pytest.raises(ValueError, match=r"^target: name must be one of host, .*, got 'z80'$"):
        build(matmul(), "z80")
    alien = replace(Target.named("host"), triple="riscv64-unknown-linux-gnu")
    with pytest.raises(TargetError, match=r"^target: architecture must be one of .*, got riscv64$"):
        build(matmul(), alien)
    with pytest.raises(ValueError, match=r"^compile_native: fn must be a Function, as of schedule\.fn, got str$"):
        build("matmul")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["exp", "free", "vdla_parallel", "vdla_threads"])
def test_kernels_with_reserved_names_are_compiled_and_called(name: str) -> None:
    a = te.placeholder((4,), "float32", "a")
    s = Schedule(te.create_function([a], [te.compute((4,), lambda i: te.call("exp", a[i]), "b")], name))
    s.parallel("i")
    built = compile_native(s.fn)
    assert built.name == f"{name}_kernel"
    assert f"int32_t {name}_kernel(const vdla_tensor *arguments, int32_t count);" in built.header
    x = np.linspace(-1, 1, 4, dtype=F32)
    np.testing.assert_allclose(load(built)(x), np.exp(x), rtol=1e-6)
