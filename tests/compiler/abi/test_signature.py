# SPDX-License-Identifier: Apache-2.0
"""Signatures of functions and their JSON; extents as the C entry and Python evaluate them."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from helpers import native_modules

from vdla.compiler import ir, te
from vdla.compiler.abi import Argument, ExtentExpr, Signature, evaluate_extent, format_extent, format_shape
from vdla.compiler.abi.signature import EXTENT_OPERATORS, is_reserved
from vdla.compiler.codegen.llvm import SignatureError, compile_module, signature_of
from vdla.compiler.codegen.llvm.functions import DOUBLE_FROM_C_LIBRARY
from vdla.compiler.codegen.llvm.objects import POOL_SYMBOLS, pool_text
from vdla.compiler.target import Target
from vdla.runtime.native import load

EXTENTS: dict[str, ExtentExpr] = {
    "n + 1": ("add", "n", 1),
    "n - 20": ("sub", "n", 20),
    "(n - 20) * 3": ("mul", ("sub", "n", 20), 3),
    "(n - 20) // 7": ("floordiv", ("sub", "n", 20), 7),
    "(n - 20) % 7": ("mod", ("sub", "n", 20), 7),
    "(n - 20) // (0 - 7)": ("floordiv", ("sub", "n", 20), ("sub", 0, 7)),
    "(n - 20) % (0 - 7)": ("mod", ("sub", "n", 20), ("sub", 0, 7)),
    "n // (n - 20)": ("floordiv", "n", ("sub", "n", 20)),
    "n % (n - 20)": ("mod", "n", ("sub", "n", 20)),
    "min(n, 4)": ("min", "n", 4),
    "max(n, 4)": ("max", "n", 4),
}


@pytest.mark.parametrize("text", EXTENTS)
def test_extents_print_and_evaluate_as_in_python(text: str) -> None:
    assert format_extent(EXTENTS[text]) == text
    for n in range(1, 40):
        assert evaluate_extent(EXTENTS[text], {"n": n}) == python(text, n)


def python(text: str, n: int) -> int:
    """The value in Python; division by 0 gives 0, as in the IR."""
    try:
        return int(eval(text, {"n": n, "min": min, "max": max}))
    except ZeroDivisionError:
        return 0


@pytest.mark.parametrize("text", EXTENTS)
def test_the_entry_computes_extents_as_python_does(text: str) -> None:
    """The entry accepts the shape that Python computes; 200 more keep extents positive."""
    output = Argument("b", "int8", (("add", EXTENTS[text], 200),), True)
    signature = Signature("extents", (Argument("a", "int8", ("n",), False), output), ("n",))
    made = native_modules.nothing(signature)
    called = load(compile_module(made, signature, Target.named("host"), cached=False))
    for n in range(1, 45):
        assert called(np.zeros(n, np.int8)).shape == (evaluate_extent(EXTENTS[text], {"n": n}) + 200,)


def test_extents_and_indices_have_the_same_operators() -> None:
    """`abi` does not import the IR, since a board has no compiler; its table must agree."""
    assert tuple(EXTENT_OPERATORS) == ir.INDEX_OPS
    for name, operator in EXTENT_OPERATORS.items():
        for a in (-7, 0, 5):
            for b in (-3, 0, 2):
                assert operator(a, b) == ir.OPERATORS[name].on_ints(a, b)


def test_signatures_round_trip_through_json() -> None:
    arguments = tuple(Argument(f"a{k}", "int4", (extent, 3), k > 2) for k, extent in enumerate(EXTENTS.values()))
    signature = Signature("many", (Argument("x", "bool", ("n",), False), *arguments), ("n",))
    assert Signature.from_json(signature.to_json()) == signature


def test_the_signature_lists_arguments_and_symbols() -> None:
    n = te.var("n")
    a, b = te.placeholder((4, n), "int8", "a"), te.placeholder((n,), "bool", "b")
    fn = te.create_function([a, b], [te.compute((n + 1,), lambda i: te.cast("int16", i), "c")], "shapes")
    c = Argument("c", "int16", (("add", "n", 1),), True)
    assert signature_of(fn) == Signature(
        "shapes", (Argument("a", "int8", (4, "n"), False), Argument("b", "bool", ("n",), False), c), ("n",)
    )
    assert signature_of(fn).source("n") == (0, 1)
    assert (format_shape((4, "n")), format_shape(("n",)), format_shape(())) == ("(4, n)", "(n,)", "()")


@pytest.mark.parametrize(
    "name", ["exp", "expf", "int32_t", "INT8_MAX", "linux", "co_await", "memcmp", "y1", "vdla_pool", "VDLA_OK"]
)
def test_reserved_names_get_another_symbol(name: str) -> None:
    assert Signature(name, ()).symbol == f"{name}_kernel"


def test_symbols_that_objects_call_or_define_are_reserved() -> None:
    """Functions of the thread pool, of the heap, and of the C library's float64 mathematics."""
    pool = re.findall(r"^(?:declare|define) .*?@([a-z_]+)\(", pool_text(Target.named("host").triple), re.MULTILINE)
    assert {"vdla_pool_work", "strtoll", "sched_getaffinity"} <= set(pool)
    for name in (
        *pool,
        *POOL_SYMBOLS,
        "vdla_pool",
        *DOUBLE_FROM_C_LIBRARY,
        "aligned_alloc",
        "free",
        "memset",
        "memcpy",
        "memmove",
    ):
        assert is_reserved(name), name
    assert not any(map(is_reserved, ("conv2d", "softmax", "dense", "kernel", "arguments", "count", "x_train")))


def assert_refused(fn: ir.Function, message: str) -> None:
    with pytest.raises(SignatureError, match=f"^{re.escape(message)}$"):
        signature_of(fn)


def test_functions_that_c_cannot_call_are_refused() -> None:
    a = te.placeholder((4,), "int8", "a")
    fn = te.create_function([a], [te.compute((4,), lambda i: a[i], "b")], "copy")
    for name in ("2d", "a-b", "", "été", "café"):
        rule = "native: function name must be a C identifier that starts with a letter"
        assert_refused(replace(fn, name=name), f"{rule}, got {name!r}")
    assert_refused(replace(fn, scalars=("n",)), "copy: n must be a whole dimension of some parameter, got none")
    shift = ir.Binary("shl", ir.Const(1), ir.Const(2))
    buffers = {**fn.buffers, "a": ir.Buffer("a", (shift,), "int8")}
    rule = "copy: extent of a must use only the operators add, sub, mul, floordiv, mod, min, max"
    assert_refused(replace(fn, buffers=buffers), f"{rule}, got 1 << 2")
