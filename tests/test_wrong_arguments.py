# SPDX-License-Identifier: Apache-2.0
"""Public calls refuse arguments of a wrong type with a VDLA error; NumPy scalars are accepted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from vdla import (
    Config,
    Dram,
    Program,
    Schedule,
    default_schedule,
    interpret,
    intrinsics,
    load,
    open_device,
    run,
    simulate,
    te,
    verify,
)
from vdla import compile as compile_for
from vdla.compiler.codegen.vdla.tiles import LoweringError
from vdla.compiler.interpret.memory import InterpretError
from vdla.compiler.operators.vdla.operator import Operator, TemplateError
from vdla.compiler.operators.vdla.tiling_problem import Tiling
from vdla.compiler.schedule import ScheduleError
from vdla.compiler.templates import conv2d, dense, pool2d, residual_add
from vdla.compiler.tensorize import IntrinsicError
from vdla.hardware.asm import AsmError, assemble
from vdla.hardware.checks import ConfigError
from vdla.hardware.isa import instruction_bytes
from vdla.hardware.program import ProgramError
from vdla.runtime.compile import CompileError
from vdla.runtime.devices import DeviceError
from vdla.runtime.devices.sim import SimDevice
from vdla.simulator.support.errors import SimulationError

WHAT = "compile: what must be a Schedule, a Function or a network (a path, bytes or a model), got "

TINY = Config.preset("tiny")
A = te.placeholder((16, 8), "int8", "a")
FLOATS = te.placeholder((2,), "float32", "x")


@pytest.fixture(scope="module")
def operator() -> Operator:
    return dense(TINY, rows=4, in_features=8, out_features=8)


@pytest.fixture(scope="module")
def arrays(operator: Operator) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return operator.pack(rng.integers(-8, 8, (4, 8)), rng.integers(-8, 8, (8, 8)), multiplier=1.0)


def schedule() -> Schedule:
    return Schedule(te.create_function([A], [te.compute((16, 8), lambda i, j: A[i, j], "c")], "copy"))


def sum_over(axis: object) -> te.Tensor:
    return te.compute((16,), lambda i: te.sum(A[i, 0], axis=axis), "c")  # type: ignore[arg-type]


CALLS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: simulate(3, {}), SimulationError, "simulate: program must be a Program, got int"),
    (lambda: verify("p.vdla"), SimulationError,
     'verify: program must be a Program, got the path p.vdla (vdla.load("p.vdla") reads it)'),
    (lambda: run(None, {}), SimulationError, "run: program must be a Program, got NoneType"),
    (lambda: SimDevice(TINY, 1 << 16).run(3, {}), SimulationError, "device sim: program must be a Program, got int"),
    (lambda: SimDevice("tiny"), DeviceError, "device sim: config must be a Config, got str"),
    (
        lambda: SimDevice(TINY, 1 << 50),
        DeviceError,
        "device sim: size of memory in bytes must be from 1 to 1099511627776, got 1125899906842624",
    ),
    (lambda: SimDevice(TINY, 4.0), DeviceError, "device sim: size of memory in bytes must be an integer, got 4.0"),
    (
        lambda: SimDevice(TINY, 99).allocate("9"),
        DeviceError,
        "device sim: allocation in bytes must be an integer, got '9'",
    ),
    (lambda: SimDevice(TINY, 99).read(None, 1), DeviceError, "device sim: address must be an integer, got None"),
    (lambda: SimDevice(TINY, 99).free(0.0), DeviceError, "device sim: address to free must be an integer, got 0.0"),
    (
        lambda: SimDevice(TINY, 99).write(0, [1]),
        DeviceError,
        "device sim: data to write must be an array of numbers, got [1]",
    ),
    (lambda: open_device(["sim"], TINY), DeviceError, "device: name must be one of sim, rtl, pynq, got ['sim']"),
    (
        lambda: compile_for(3, TINY),
        CompileError,
        WHAT + "int",
    ),
    (lambda: compile_for(None, "host"), CompileError, WHAT + "NoneType"),
    (
        lambda: compile_for(te.create_function([FLOATS], [te.compute((2,), lambda i: FLOATS[i], "y")], "f"), TINY),
        LoweringError,
        "compile_function: elements of x must be integers, got float32",
    ),
    (
        lambda: compile_for(schedule(), ["tiny"]),
        CompileError,
        "compile: target must be a Config, a Target or a name, got list",
    ),
    (
        lambda: intrinsics.gemm.gemm("tiny"),
        IntrinsicError,
        "intrinsic gemm: config must be a Config, such as Config.preset('pynq_z1'), got 'tiny'",
    ),
    (
        lambda: interpret(3, {}),
        InterpretError,
        "interpret: fn must be a Function, as of schedule.fn, got int",
    ),
    (lambda: load(3), ProgramError, "program file: path must be a string or a path, got 3"),
    (lambda: default_schedule(3), ScheduleError, "schedule: fn must be a Function, as of te.create_function, got int"),
    (lambda: Schedule(None), ScheduleError, "schedule: fn must be a Function, as of te.create_function, got NoneType"),
    (lambda: schedule().reorder("i", 3), ScheduleError, "reorder of i, 3: loops must be given by name, got 3"),
    (
        lambda: schedule().split("i", factor=4, names=3),
        ScheduleError,
        "split of i: names must be two different names, got 3",
    ),
    (
        lambda: schedule().fuse("i", "j", name=[4]),
        ScheduleError,
        "fuse of i and j: a loop name must be an identifier, got [4]",
    ),
    (
        lambda: pool2d(TINY, kind="max", count_include_pad="x", batch=1, height=4, width=4, channels=4, kernel=2),
        TemplateError,
        "max_pool2d: count_include_pad must be True or False, got 'x'",
    ),
    (lambda: assemble(b""), AsmError, "assemble: source must be text, got bytes"),
    (lambda: Program.load(None), ProgramError, "program file: path must be a string or a path, got None"),
    (lambda: Config.load(3), ConfigError, "config: path must be a string or a path, got 3"),
    (
        lambda: residual_add(TINY, batch=1, height=4, width=4, channels=4, input_zero_points=3),
        TemplateError,
        "residual_add: input_zero_points must be two integers, got 3",
    ),
    (lambda: conv2d("tiny", batch=1), TemplateError, "conv2d: config must be a Config, got str"),
    (
        lambda: dense(TINY, rows=4, in_features=8, out_features=8, raw="no"),
        TemplateError,
        "dense: raw must be True or False, got 'no'",
    ),
    (
        lambda: dense(TINY, rows=4, in_features=8, out_features=8, ceiling=1.5),
        TemplateError,
        "dense: ceiling must be in -128..127, got 1.5",
    ),
    (
        lambda: dense(TINY, rows=4, in_features=8, out_features=8, tiling=3),
        TemplateError,
        "dense: tiling must be a Tiling, got 3",
    ),
    (
        lambda: te.placeholder((1 << 31, 4), "int8", "a"),
        te.TeError,
        "te.placeholder a: extent 0 of the shape must be at most 2147483647, got 2147483648",
    ),
    (
        lambda: te.placeholder((4,), ["int8"], "a"),
        te.TeError,
        "te.placeholder a: the dtype must be one of int2, int4, int8, int16, int32, int64, uint8, uint16, uint32, "
        "uint64, float16, bfloat16, float32, float64, bool, got ['int8']",
    ),
    (
        lambda: te.compute((4,), 3, "c"),
        te.TeError,
        "te.compute c: the body must be a function of the indices, got 3",
    ),
    (lambda: te.pad(A, 1, 1, 0), te.TeError, "te.pad a: padding must be 2 integers >= 0, got 1"),
    (lambda: sum_over(0), te.TeError, "te.sum: axis must be one or more te.reduce_axis, got 0"),
    (
        lambda: te.create_function([A], [3], "f"),
        te.TeError,
        "te.create_function f: outputs must be a list of tensors, got [3]",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), CALLS, ids=[case[2][:40] for case in CALLS])
def test_public_calls_refuse_arguments_of_a_wrong_type(
    call: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as failure:
        call()
    assert str(failure.value) == message


def test_numpy_scalars_are_accepted_as_numbers() -> None:
    four, eight = np.int64(4), np.uint8(8)
    assert replace(TINY, block_in=four, clock_mhz=np.float32(50), dram=Dram(read_latency=np.int32(80))) == replace(
        TINY, clock_mhz=50.0, dram=Dram()
    )
    assert type(Config(batch=np.int64(2)).batch) is int
    assert te.placeholder((four, eight), "int8", "b").shape == (4, 8)
    assert str(te.reduce_axis(four, "k").extent) == "4"
    assert schedule().split("i", factor=four) == ("i_o", "i_i")
    value = te.compute((16, 8), lambda i, j: np.int8(3) * A[i, j] + four, "c")
    assert value.dtype == "int8"
    plain = dense(TINY, rows=4, in_features=8, out_features=8)
    assert dense(TINY, rows=four, in_features=eight, out_features=np.int16(8)).program.hash == plain.program.hash
    device = SimDevice(TINY, np.int64(4096))
    assert device.read(np.int64(device.allocate(four)), four).tolist() == [0, 0, 0, 0]


def test_pairs_and_tilings_may_hold_numpy_scalars() -> None:
    image = {"batch": 1, "height": 8, "width": 8}
    tiling = Tiling(rows=2, cols=2, out_blocks=1, in_blocks=1, keep_weights=False, threads=2, threads_over="chunks")
    layer = {**image, "in_channels": 8, "out_channels": 8}
    plain = conv2d(TINY, **layer, kernel=(3, 1), tiling=tiling)
    kernel, tiling = (np.int64(3), np.int64(1)), replace(tiling, rows=np.int64(2), threads=np.uint8(2))
    assert conv2d(TINY, **layer, kernel=kernel, tiling=tiling).program.hash == plain.program.hash
    options: dict[str, Any] = {**image, "channels": 8}
    added = residual_add(TINY, **options, factors=(2, 1), input_zero_points=(1, 2))
    zeros, factors = np.array([1, 2]), (np.int64(2), np.uint8(1))
    same = residual_add(TINY, **options, factors=factors, input_zero_points=zeros)
    assert same.program.hash == added.program.hash


@pytest.mark.parametrize(("wrong", "rule"), [
    ({"rows": True}, "rows of the tiling must be an integer from 1 to 6, got True"),
    ({"threads": True}, "threads of the tiling must be at least 1, got True"),
    ({"strips": 1.5}, "strips of the tiling must be at least 1, got 1.5"),
    ({"keep_weights": 3}, "keep_weights of the tiling must be True or False, got 3"),
])  # fmt: skip
def test_tilings_with_wrong_fields_are_refused(wrong: dict[str, Any], rule: str) -> None:
    right = Tiling(rows=2, cols=2, out_blocks=1, in_blocks=1, keep_weights=False, threads=2, threads_over="chunks")
    tiling = replace(right, **wrong)
    with pytest.raises(TemplateError) as failure:
        conv2d(TINY, batch=1, height=8, width=8, in_channels=8, out_channels=8, kernel=3, tiling=tiling)
    assert str(failure.value) == f"conv2d: {rule}"


def test_inputs_may_have_any_memory_layout_and_byte_order(operator: Operator, arrays: dict[str, Any]) -> None:
    expected = simulate(operator.program, arrays).outputs["output"]
    scale = arrays["scale"]
    fixed = scale.copy()
    fixed.flags.writeable = False
    for form in (scale.astype(">i8"), scale.view(np.uint64), np.asfortranarray(scale), scale[::-1].copy()[::-1], fixed):
        for call in (simulate, run):
            assert np.array_equal(call(operator.program, {**arrays, "scale": form}).outputs["output"], expected)


def refused_arrays(program: Program, arrays: Any) -> str:
    with pytest.raises(ProgramError) as failure:
        simulate(program, arrays)
    return str(failure.value)


def test_inputs_without_tensor_names_are_refused(operator: Operator, arrays: dict[str, Any]) -> None:
    program = operator.program
    assert refused_arrays(program, [1]) == "program dense: inputs must be a mapping from tensor names, got list"
    shape = list(program.tensor("data").shape)
    assert refused_arrays(program, {1: 2}) == (
        f"program dense: inputs must include data, got 1; add an array int8{shape} of that name"
    )


def test_missing_and_misshapen_outputs_are_refused(operator: Operator) -> None:
    for outputs, got in (({}, "dict"), (None, "NoneType"), ({"output": np.zeros(3)}, "one of shape [3]")):
        with pytest.raises(TemplateError) as failure:
            operator.unpack(outputs)  # type: ignore[arg-type]
        assert str(failure.value) == f"unpack: outputs must have an array 'output' of 6 dimensions, got {got}"


def test_ragged_rows_are_refused(operator: Operator) -> None:
    with pytest.raises(TemplateError) as failure:
        operator.pack([[1], [1, 2]], np.zeros((8, 8), int))
    assert str(failure.value).endswith("rows must be of equal length, got a ragged list")


@pytest.mark.parametrize(("field", "value", "rule"), [
    ("config", None, "config must be a Config, got None"),
    ("tensors", 3, "tensors must be a tuple of ProgramTensor, got 3"),
    ("source_lines", ["x"], "source_lines must be a tuple of str, got ['x']"),
])  # fmt: skip
def test_program_fields_of_a_wrong_type_are_refused(operator: Operator, field: str, value: object, rule: str) -> None:
    with pytest.raises(ProgramError) as failure:
        replace(operator.program, **{field: value})
    assert str(failure.value) == f"program dense: {rule}"


def test_missing_and_invalid_addresses_are_refused(operator: Operator) -> None:
    where = "program dense: address of data must be"
    for addresses, rule in ((None, "given, got addresses of nothing"), ({"data": "x"}, "an integer, got 'x'")):
        with pytest.raises(ProgramError) as failure:
            operator.program.link(addresses)  # type: ignore[arg-type]
        assert str(failure.value) == f"{where} {rule}"


def test_an_empty_program_runs_without_effect() -> None:
    none = np.empty(0, np.int32)
    words = np.empty((0, instruction_bytes(TINY)), np.uint8)
    program = Program(
        config=TINY, name="empty", words=words, tensors=(), tensor_of=none, source_lines=(), source_of=none
    )
    assert run(program, {}).outputs == {}
