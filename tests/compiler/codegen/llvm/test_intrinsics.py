# SPDX-License-Identifier: Apache-2.0
"""CPU intrinsics on random and extreme numbers against the interpreter; also under QEMU."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.native_programs import call, toolchain

from vdla.compiler import ir, te
from vdla.compiler.codegen.llvm import compile_native
from vdla.compiler.codegen.llvm.intrinsics import bitserial, dot, window_dot
from vdla.compiler.codegen.llvm.intrinsics.dot import LaneOperand
from vdla.compiler.interpret import interpret
from vdla.compiler.ir import limits
from vdla.compiler.schedule import Schedule
from vdla.compiler.schedule.reorder import reorder
from vdla.compiler.target import TARGETS, Target, host
from vdla.compiler.tensorize import Intrinsic
from vdla.runtime.native import build

STEPS = 5  # calls along the reduction, which accumulate

DOTS = {
    intrinsic.name: intrinsic
    for side in LaneOperand
    for intrinsic in (
        *(dot.vnni(lanes, side) for lanes in (16, 8, 4)),
        *(dot.avx_vnni(lanes, side) for lanes in (8, 4)),
        *(dot.vnni_pairs(lanes, side) for lanes in (16, 8, 4)),
        *(dot.madd(lanes, side) for lanes in (16, 8, 4)),
        dot.neon_pairs(side),
        dot.neon_mac(side),
        dot.neon_dot(side),
    )
}
SPECIAL = {
    intrinsic.name: intrinsic
    for intrinsic in (
        dot.maddubs("int4"),
        dot.maddubs("int2"),
        *(window_dot.vnni_windows(lanes, stride) for lanes in (16, 8) for stride in (1, 2, 3, 4)),
        *(bitserial.unipolar(lanes, w, x) for lanes in (16, 4) for w in (1, 2) for x in (1, 2)),
        bitserial.unipolar(16, 2, 2, signed=True),
        bitserial.unipolar(8, 2, 1, signed=True),
        *(bitserial.planes(bits) for bits in (1, 2)),
        bitserial.bipolar(16),
        bitserial.bipolar(4),
    )
}
EVERY = DOTS | SPECIAL
INSTRUCTIONS = {
    "vnni_16": ("x86-64-avx512", "vpdpbusd\t"),
    "vnni_8_data": ("x86-64-avx512", "vpdpbusd\t"),
    "vnni_pairs_16": ("x86-64-avx512", "vpdpwssd\t"),
    "madd_8": ("x86-64-avx2", "vpmaddwd\t"),
    "madd_4": ("x86-64", "pmaddwd\t"),
    "maddubs_int4": ("x86-64-avx2", "vpmaddubsw\t"),
    "neon_mac": ("cortex-a9", "vmlal.s16\t"),
    "neon_pairs": ("cortex-a9", "vpadal.s16\t"),
    "bitserial_u2u2_4": ("aarch64", "cnt\t"),
}
ARM = {
    "cortex-a9": ("neon_pairs", "neon_mac", "neon_mac_data", "bitserial_u2u2_4", "bitserial_bipolar_4"),
    "aarch64": ("neon_pairs", "neon_pairs_data", "neon_mac", "bitserial_s2u2_16", "bitserial_bipolar_4"),
}
# VNNI in its AVX encoding, without AVX-512
AVX_VNNI = replace(
    TARGETS["x86-64-avx2"],
    name="avxvnni",
    cpu="alderlake",
    features=TARGETS["x86-64-avx2"].features | {"avxvnni"},
)


def stage(intrinsic: Intrinsic) -> Schedule:
    """A tensorized reduction of several calls of the intrinsic."""
    behaviour = intrinsic.behaviour
    block = next(stmt for stmt in ir.walk(behaviour.body) if isinstance(stmt, ir.Block))
    inputs = [te.placeholder((STEPS, *buffer.dims), buffer.dtype, name)
              for name, buffer in behaviour.buffers.items() if name != intrinsic.output.name]  # fmt: skip
    given = {tensor.name: tensor for tensor in inputs}
    k = te.reduce_axis(STEPS, "k")
    (place,) = (axis.var for axis in block.axes if axis.kind is ir.AxisKind.SPATIAL)
    reduced = [axis for axis in block.axes if axis.kind is ir.AxisKind.REDUCE]
    own = {axis.var: te.reduce_axis(axis.size, axis.var[1:]) for axis in reduced}
    term = intrinsic.output.stage.value

    def value(o: te.Value) -> te.Value:
        at = {place: o, **own}
        return te.sum(rebuilt(term.expr, given, k, at), axis=[k, *own.values()])

    sums = te.compute(behaviour.buffers[intrinsic.output.name].dims, value, "sums")
    schedule = Schedule(te.create_function(inputs, [sums], "steps"))
    lane, outer, *inner = schedule.loops("sums")
    schedule.reorder(outer, lane, *inner)
    schedule.tensorize(lane, intrinsic)
    return schedule


def rebuilt(expr: ir.Expr, given: dict[str, te.Tensor], k: Any, at: dict[str, Any]) -> Any:
    """An expression of the behaviour, rebuilt over the test's tensors."""
    match expr:
        case ir.Var(name=name):
            return at[name]
        case ir.Const(value=number, dtype=dtype):
            return te.const(number, dtype)
        case ir.Load(buffer=name, indices=indices):
            return given[name][(k, *(rebuilt(index, given, k, at) for index in indices))]
        case ir.Cast(dtype=dtype, value=inner):
            return te.cast(dtype, rebuilt(inner, given, k, at))
        case ir.Select(cond=cond, a=a, b=b):
            return te.select(*(rebuilt(part, given, k, at) for part in (cond, a, b)))
        case ir.Binary(op=op, a=a, b=b):
            return te.binary(op, rebuilt(a, given, k, at), rebuilt(b, given, k, at))
    raise AssertionError(expr)


def numbers(fn: ir.Function, kind: str) -> dict[str, Any]:
    """Inputs: random, or only the lowest or highest numbers of their type, or both."""
    random = np.random.default_rng(len(kind))
    made = {}
    for name in fn.params[:-1]:
        buffer = fn.buffers[name]
        low, high = limits(buffer.dtype)
        ends = {"low": [low], "high": [high], "mixed": [low, high]}.get(kind)
        shape, dtype = buffer.dims, "int8" if buffer.dtype in ("int2", "int4") else buffer.dtype
        if ends is None:
            made[name] = random.integers(low, high, shape, dtype="int64", endpoint=True).astype(dtype)
        else:
            made[name] = random.choice(np.array(ends, "int64"), shape).astype(dtype)
    return made


@pytest.mark.sampled
@pytest.mark.parametrize("kind", ["random", "low", "high", "mixed"])
@pytest.mark.parametrize("name", EVERY)
def test_intrinsics_compute_their_behaviour(name: str, kind: str) -> None:
    intrinsic = EVERY[name]
    if not host().has(*intrinsic.requires):
        pytest.skip(f"needs a CPU with {', '.join(intrinsic.requires)}")
    fn = stage(intrinsic).fn
    inputs = numbers(fn, kind)
    expected = interpret(fn, inputs)["sums"]
    np.testing.assert_array_equal(build(fn)(*inputs.values()), expected)


@pytest.mark.parametrize("name", EVERY)
def test_a_cpu_without_the_features_runs_the_behaviour(name: str) -> None:
    plain = Target(
        name="plain",
        triple=host().triple,
        cpu="x86-64" if "x86" in host().triple else "generic",
        features=frozenset(),
        vector_bytes=16,
        vector_registers=16,
    )
    fn = stage(EVERY[name]).fn
    inputs = numbers(fn, "random")
    np.testing.assert_array_equal(build(fn, plain)(*inputs.values()), interpret(fn, inputs)["sums"])


@pytest.mark.parametrize("target", ARM)
@pytest.mark.parametrize("kind", ["random", "mixed"])
def test_intrinsics_compute_their_behaviour_on_emulated_arm_cpus(target: str, kind: str, tmp_path: Path) -> None:
    toolchain(target)
    for name in ARM[target]:
        fn = stage(EVERY[name]).fn
        inputs = numbers(fn, kind)
        folder = tmp_path / name
        folder.mkdir()
        found = call(folder, target, compile_native(fn, target), inputs)["sums"]
        np.testing.assert_array_equal(found, interpret(fn, inputs)["sums"], err_msg=name)


@pytest.mark.parametrize("side", LaneOperand)
def test_sdot_computes_its_behaviour_on_an_emulated_arm_cpu(side: LaneOperand, tmp_path: Path) -> None:
    toolchain("aarch64")
    fn = stage(dot.neon_dot(side)).fn
    inputs = numbers(fn, "mixed")
    found = call(tmp_path, "aarch64", compile_native(fn, "neoverse-n1"), inputs)["sums"]
    np.testing.assert_array_equal(found, interpret(fn, inputs)["sums"])


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_intrinsics_become_their_instructions(name: str) -> None:
    target, instruction = INSTRUCTIONS[name]
    assert instruction in compile_native(stage(EVERY[name]).fn, target).assembly


ARMS = {"aarch64": "generic", "arm64": "generic", "armv8.2a": "cortex-a55"}  # architecture of a triple to LLVM's CPU


def arm(architecture: str, *features: str) -> Target:
    triple = f"{architecture}-unknown-linux-gnu{'' if '64' in architecture else 'eabihf'}"
    return Target(
        name="arm",
        triple=triple,
        cpu=ARMS[architecture],
        features=frozenset({"neon", *features}),
        vector_bytes=16,
        vector_registers=32,
    )


@pytest.mark.parametrize("architecture", ARMS)
def test_sdot_needs_the_dotprod_feature(architecture: str) -> None:
    machine = arm(architecture, "dotprod")
    assert dot.best_dot(machine) is dot.neon_dot()
    assert re.search(r"\tv?sdot(\.s8)?\t", compile_native(stage(dot.neon_dot()).fn, machine).assembly)
    assert "sdot" not in compile_native(stage(dot.neon_dot()).fn, arm(architecture)).assembly


def test_a_triple_may_begin_with_arm64() -> None:
    assert "\tsadalp\t" in compile_native(stage(dot.neon_pairs()).fn, arm("arm64")).assembly


def test_avx_vnni_uses_no_512_bit_registers() -> None:
    assert dot.best_dot(AVX_VNNI).name == "avx_vnni_8"
    assembly = compile_native(stage(dot.avx_vnni(8)).fn, AVX_VNNI).assembly
    assert "vpdpbusd" in assembly
    assert "zmm" not in assembly


@pytest.mark.parametrize(
    ("target", "name"),
    [("x86-64-avx512", "vnni_16"), ("x86-64-avx2", "madd_8"), ("x86-64", "madd_4"), ("aarch64", "neon_pairs"),
     ("cortex-a9", "neon_pairs"), ("neoverse-n1", "neon_dot")],
)  # fmt: skip
def test_best_dot_depends_on_the_target(target: str, name: str) -> None:
    assert dot.best_dot(TARGETS[target]).name == name


def test_dot_for_layout_prefers_what_the_target_has() -> None:
    assert dot.dot_for_layout(TARGETS["x86-64-avx512"], 8, 4, "uint8") is dot.vnni(8)
    assert dot.dot_for_layout(AVX_VNNI, 8, 4, "uint8") is dot.avx_vnni(8)
    assert dot.dot_for_layout(TARGETS["x86-64-avx2"], 4, 2, "int8") is dot.neon_pairs()


def test_a_nest_whose_loops_moved_runs_the_behaviour() -> None:
    """Schedules refuse to move tensorized loops; lowering checks again."""
    schedule = stage(dot.madd(4))
    _, lane, inner = schedule.loops("sums")
    moved = reorder(schedule.fn, inner, lane)
    inputs = numbers(moved, "random")
    np.testing.assert_array_equal(build(moved)(*inputs.values()), interpret(moved, inputs)["sums"])


def test_a_tensorized_nest_follows_later_changes_of_buffers() -> None:
    schedule = stage(dot.madd(4))
    schedule.cache_write("sums", "stack")
    inputs = numbers(schedule.fn, "random")
    np.testing.assert_array_equal(build(schedule.fn)(*inputs.values()), interpret(schedule.fn, inputs)["sums"])


def test_axes_of_extent_1_inside_a_nest_select_no_entry() -> None:
    x, w = te.placeholder((3, 1, 4), "uint8", "x"), te.placeholder((2, 1, 4, 4), "int8", "w")
    k, i = te.reduce_axis(1, "k"), te.reduce_axis(4, "i")
    wide = lambda value: te.cast("int32", value)  # noqa: E731
    sums = te.compute((3, 2, 4), lambda y, b, o: te.sum(wide(x[y, k, i]) * wide(w[b, k, o, i]), axis=[k, i]), "sums")
    schedule = Schedule(te.create_function([x, w], [sums], "dots"))
    schedule.tensorize("o", dot.vnni(4))
    inputs = numbers(schedule.fn, "random")
    np.testing.assert_array_equal(build(schedule.fn)(*inputs.values()), interpret(schedule.fn, inputs)["sums"])
