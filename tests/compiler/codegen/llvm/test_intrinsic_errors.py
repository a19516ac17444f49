# SPDX-License-Identifier: Apache-2.0
"""Errors of CPU intrinsics: contradictory declarations, nests that do not match; windows."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from vdla.compiler import ir, te
from vdla.compiler.codegen.llvm.intrinsics import bitserial, dot, window_dot
from vdla.compiler.codegen.vdla.compile import compile_function
from vdla.compiler.codegen.vdla.tiles import LoweringError
from vdla.compiler.ir import Match
from vdla.compiler.schedule import Schedule
from vdla.compiler.tensorize import MEMORY, Intrinsic, IntrinsicError, TensorizeError
from vdla.hardware.config import Config


def declared(**changes: Any) -> Intrinsic:
    x = te.placeholder((4,), "float32", "x")
    y = te.compute((4,), lambda i: x[i] + x[i], "y")
    options: dict[str, Any] = {"scopes": {"x": MEMORY, "y": MEMORY}, "lower": lambda step: None, "target": "cpu"}
    return Intrinsic("mine", y, **{**options, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"target": "tpu"}, "target must be one of vdla, cpu, gpu, got 'tpu'"),
        (
            {"target": "gpu"},
            "scope of x must be one of shared, warp, got 'memory'",
        ),
        ({"requires": "avx2"}, "requires must be a tuple of names of features, got 'avx2'"),
        ({"requires": (2,)}, "requires must be a tuple of names of features, got (2,)"),
        (
            {"target": "vdla", "requires": ("avx2", "fma")},
            "requires must be empty for target vdla, got avx2, fma",
        ),
        ({"epilogue": True}, "epilogue must be False for target cpu, got True"),
        (
            {"scopes": {"x": "inp", "y": MEMORY}},
            "scope of x must be one of memory, immediate, condition, got 'inp'",
        ),
        (
            {"target": "vdla"},
            "scope of x must be one of global, inp, wgt, scl, acc, out, immediate, condition, got 'memory'",
        ),
        ({"scopes": {"x": MEMORY}}, "scopes must name exactly x, y, got x"),
    ],
)
def test_a_cpu_intrinsic_that_contradicts_itself_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(IntrinsicError, match=f"^{re.escape(f'intrinsic mine: {message}')}$"):
        declared(**changes)


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda: dot.vnni(5), "vnni: lanes must be one of 16, 8, 4, got 5"),
        (lambda: dot.avx_vnni(16), "avx_vnni: lanes must be one of 8, 4, got 16"),
        (lambda: dot.vnni_pairs(2), "vnni_pairs: lanes must be one of 16, 8, 4, got 2"),
        (lambda: dot.madd("8"), "madd: lanes must be one of 16, 8, 4, got '8'"),  # type: ignore[arg-type]
        (lambda: dot.maddubs("int8"), "maddubs: weights must be one of int4, int2, got 'int8'"),
        (
            lambda: dot.neon_mac("data"),  # type: ignore[arg-type]
            "neon_mac: side must be one of LaneOperand.WEIGHTS, LaneOperand.DATA, got 'data'",
        ),
        (lambda: window_dot.vnni_windows(4, 1), "vnni_windows: lanes must be one of 16, 8, got 4"),
        (lambda: window_dot.vnni_windows(16, 5), "vnni_windows: stride must be one of 1, 2, 3, 4, got 5"),
        (lambda: bitserial.planes(9), "bitserial_planes: bits must be one of 1, 2, 3, 4, 5, 6, 7, 8, got 9"),
    ],
)
def test_parameters_without_an_instruction_are_refused(declare: Callable[[], Intrinsic], message: str) -> None:
    with pytest.raises(IntrinsicError, match=f"^{re.escape(f'intrinsic {message}')}$"):
        declare()


# --- matching -------------------------------------------------------------------------------------


def product(dtype: str = "uint8", lanes: int = 16, transposed: bool = False, stride: int = 1) -> Schedule:
    """c[m, o] = sum over k, i of x[m, k, i] * w[k, o, i], in that loop order."""
    x = te.placeholder((3, 2, 4 * stride), dtype, "x")
    w = te.placeholder((2, 4, lanes) if transposed else (2, lanes, 4), "int8", "w")
    k, i = te.reduce_axis(2, "k"), te.reduce_axis(4, "i")

    def total(m: te.Value, o: te.Value) -> te.Value:
        right = w[k, i, o] if transposed else w[k, o, i]
        return te.sum(te.cast("int32", x[m, k, i * stride]) * te.cast("int32", right), axis=[k, i])

    schedule = Schedule(te.create_function([x, w], [te.compute((3, lanes), total, "c")], "product"))
    m, o, k_loop, i_loop = schedule.loops("c")
    schedule.reorder(m, k_loop, o, i_loop)
    return schedule


def step(schedule: Schedule, intrinsic: Intrinsic, depth: int = 2) -> Match:
    schedule.tensorize(schedule.loops("c")[-depth], intrinsic)
    block = next(s for s in ir.walk(schedule.fn.body) if isinstance(s, ir.Block) and s.name == "c")
    match = block.annotations["intrinsic"]
    assert isinstance(match, Match)
    return match


def test_operands_may_lie_in_any_buffer() -> None:
    schedule = product()
    schedule.cache_read("c", "x", "stack")
    match = step(schedule, dot.vnni(16))
    assert match.buffers == {"acc": "c", "x": "x_stack", "w": "w"}
    assert match.entries["w"] == (ir.Var("vk"),)


AT = "tensorize vnni_16 at block c: "


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lanes": 8}, "axis vo must have extent 16, got 8; pad that dimension to 16"),
        (
            {"dtype": "int8"},
            "operand x must be uint8, got x of int8; vnni_16 has no int8 operand, so declare placeholder x as uint8",
        ),
        (
            {"transposed": True},
            "index vo of operand w must be axis vo as elsewhere, got vi in w; swap the last dimensions of that tensor",
        ),
        (
            {"stride": 2},
            "the first index of operand x must be vi plus a term that is constant inside the tensorized loop, "
            "got vi * 2 in x; reorder the loops, or pack the tensor",
        ),
    ],
)
def test_a_nest_that_does_not_match_is_refused_with_the_reason(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TensorizeError, match=f"^{re.escape(AT + message)}$"):
        step(product(**options), dot.vnni(16))


def sliding(stride: int, offset: int = 0) -> Schedule:
    """c[b, o] = sum over i of x[b * 16 + o * stride + i + offset] * w[i]."""
    x, w = te.placeholder((100,), "uint8", "x"), te.placeholder((4,), "int8", "w")
    i = te.reduce_axis(4, "i")

    def total(b: te.Value, o: te.Value) -> te.Value:
        return te.sum(te.cast("int32", x[b * 16 + o * stride + i + offset]) * te.cast("int32", w[i]), axis=i)

    return Schedule(te.create_function([x, w], [te.compute((2, 16), total, "c")], "sliding"))


@pytest.mark.parametrize("stride", [1, 2])
def test_outer_loops_give_the_start_of_a_window(stride: int) -> None:
    match = step(sliding(stride, offset=3), window_dot.vnni_windows(16, stride))
    (start,) = match.entries["x"]
    assert start == ir.Binary("add", ir.Binary("mul", ir.Var("vb"), ir.Const(16)), ir.Const(3))


def test_windows_of_another_stride_do_not_match() -> None:
    message = (
        "tensorize vnni_windows_16_2 at block c: the first index of operand x must be vo * 2 + vi plus a term "
        "that is constant inside the tensorized loop, got vb * 16 + vo + vi in x; reorder the loops, or pack the tensor"
    )
    with pytest.raises(TensorizeError, match=f"^{re.escape(message)}$"):
        step(sliding(1), window_dot.vnni_windows(16, 2))


def test_a_window_must_be_read_whole() -> None:
    """An entry larger than the window that the behaviour reads could exceed the buffer."""
    x, w = te.placeholder((20,), "uint8", "x"), te.placeholder((4,), "int8", "w")
    i = te.reduce_axis(4, "i")
    acc = te.compute((16,), lambda o: te.sum(te.cast("int32", x[o + i]) * te.cast("int32", w[i]), axis=i), "acc")
    scopes = {"x": MEMORY, "w": MEMORY, "acc": MEMORY}
    wide = Intrinsic(name="wide", output=acc, scopes=scopes, lower=lambda step: None, target="cpu")
    message = "tensorize wide at block c: operand x must be read whole to be a window, got 19 of 20"
    with pytest.raises(TensorizeError, match=f"^{re.escape(message)}$"):
        step(sliding(1), wide)


def test_the_accelerator_refuses_cpu_intrinsics() -> None:
    schedule = product()
    step(schedule, dot.vnni(16))
    message = "product: the intrinsic of block c must be of target vdla, got vnni_16 of cpu"
    with pytest.raises(LoweringError, match=f"^{re.escape(message)}$"):
        compile_function(Config.preset("pynq_z1"), schedule.fn)


NO_TARGET = "target must be a Target, such as Target.named('host')"
WRONG_ARGUMENTS = [
    (lambda: dot.best_dot("host"), f"best_dot: {NO_TARGET}, got 'host'"),
    (lambda: window_dot.best_window_dot(None, 16, 1), f"best_window_dot: {NO_TARGET}, got None"),
    (lambda: dot.dot_layout(3), "dot_layout: dot must be an Intrinsic, got 3"),
    (lambda: dot.vnni([1]), "intrinsic vnni: an argument must be a number or a name, got [1]"),
    (lambda: bitserial.bipolar([1]), "intrinsic bipolar: an argument must be a number or a name, got [1]"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), WRONG_ARGUMENTS, ids=[message[:20] for _, message in WRONG_ARGUMENTS])
def test_intrinsics_refuse_arguments_of_a_wrong_type(call: Callable[[], Intrinsic], message: str) -> None:
    with pytest.raises(IntrinsicError) as failure:
        call()
    assert str(failure.value) == message
