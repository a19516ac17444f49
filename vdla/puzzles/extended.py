# SPDX-License-Identifier: Apache-2.0
"""Puzzles whose try is an intrinsic, an instruction of one's own, or the datapath of one."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from vdla.compiler import te
from vdla.compiler.codegen.vdla import compile_function
from vdla.compiler.codegen.vdla.intrinsics import dma, requantise, vector
from vdla.compiler.extensions import Extension, extend, extension_intrinsic
from vdla.compiler.schedule import Schedule
from vdla.compiler.tensorize import Intrinsic
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import Operand
from vdla.hardware.program import Program
from vdla.puzzles.attempt import Attempt, AttemptError, function_of, run
from vdla.puzzles.puzzle import Puzzle
from vdla.puzzles.scheduled import MACHINE
from vdla.runtime.checks.intrinsic_check import check_intrinsic
from vdla.support.errors import Error

_LATENCY = 2


# --- an intrinsic ---------------------------------------------------------------------------------


def residual() -> te.Tensor:
    """y = max(a + b, 0), for 16 entries."""
    shape = (16, 1, 4)
    a, b = te.placeholder(shape, "int8", "a"), te.placeholder(shape, "int8", "b")
    start = te.compute(shape, lambda p, r, o: te.cast("int32", a[p, r, o]), "start")
    sums = te.compute(shape, lambda p, r, o: te.maximum(start[p, r, o] + te.cast("int32", b[p, r, o]), 0), "sums")
    results = te.compute(shape, lambda p, r, o: sums[p, r, o], "results")
    return te.compute(shape, lambda p, r, o: results[p, r, o], "y")


def from_intrinsic(attempt: Attempt, puzzle: Puzzle) -> Program:
    """The program of `residual` by the intrinsic that the function `declare(config)` returns."""
    intrinsic: Any = run(attempt, partial(function_of(attempt, "declare"), MACHINE))
    if not isinstance(intrinsic, Intrinsic):
        raise AttemptError(f"{attempt.file}: declare must return an Intrinsic, got {type(intrinsic).__name__}")
    run(attempt, lambda: check_intrinsic(intrinsic, MACHINE))
    s = Schedule(puzzle.function())
    for stage, scope in (("start", "acc"), ("sums", "acc"), ("results", "out")):
        s.set_scope(stage, scope)
    copies = [s.cache_read("start", "a", "inp"), s.cache_read("sums", "b", "inp")]
    steps = {
        **dict.fromkeys(copies, dma.load(MACHINE, Buffer.INP)),
        "start": vector.move(MACHINE, Operand.SRC),
        "sums": intrinsic,
        "results": requantise.raw(MACHINE),
        "y": dma.store(MACHINE, raw=True),
    }
    for stage, step in steps.items():
        s.tensorize(stage, step)
    return run(attempt, lambda: compile_function(MACHINE, s.fn))


# --- an instruction -------------------------------------------------------------------------------


def distances() -> te.Tensor:
    """y[m, o] = sum over i of (x[m, i] - w[o, i])^2, in two blocks of inputs."""
    x, w = te.placeholder((2, 16, 1, 4), "int8", "x"), te.placeholder((2, 4, 4), "int8", "w")
    k, i = te.reduce_axis(2, "k"), te.reduce_axis(4, "i")

    def square(m: te.Value, r: te.Value, o: te.Value) -> te.Value:
        difference = te.cast("int32", x[k, m, r, i]) - te.cast("int32", w[k, o, i])
        return difference * difference

    return te.compute((16, 1, 4), lambda m, r, o: te.sum(square(m, r, o), axis=[k, i]), "y")


def declare_distance(config: Config, datapath: str | None = None) -> Extension:
    """The instruction that adds the squares of differences of an input and the weights."""
    x = te.placeholder((config.batch, config.block_in), config.inp_dtype, "x")
    w = te.placeholder((config.block_out, config.block_in), config.wgt_dtype, "w")
    i = te.reduce_axis(config.block_in, "i")

    def square(b: te.Value, o: te.Value) -> te.Value:
        difference = te.cast("int32", x[b, i]) - te.cast("int32", w[o, i])
        return difference * difference

    return Extension(
        name="distance",
        doc="Adds squares of differences.",
        output=te.compute((config.batch, config.block_out), lambda b, o: te.sum(square(b, o), axis=i), "acc"),
        scopes={"x": "inp", "w": "wgt", "acc": "acc"},
        latency=_LATENCY,
        datapath=datapath,
    )


def from_extension(attempt: Attempt, puzzle: Puzzle) -> Program:
    """The program of `distances` by the instruction that `declare(config)` returns."""
    declare = function_of(attempt, "declare")
    declared: Any = run(attempt, partial(declare, MACHINE))
    if not isinstance(declared, Extension):
        raise AttemptError(f"{attempt.file}: declare must return an Extension, got {type(declared).__name__}")
    for name, wanted in (("interval", 1), ("latency", _LATENCY)):
        if (got := getattr(declared, name)) != wanted:
            rule = f"{name} of the instruction must be {wanted}, as the puzzle says"
            raise AttemptError(f"{attempt.file}: {rule}, got {got}")
    return run(attempt, partial(_distance_program, declare, puzzle))


def from_datapath(attempt: Attempt, puzzle: Puzzle) -> Program:
    """The same by the puzzle's own instruction, whose datapath is the try."""
    if not isinstance(attempt.content, str):
        raise AttemptError(f"{attempt.file}: the try must be SystemVerilog, got {type(attempt.content).__name__}")
    text = attempt.content
    from vdla.runtime.checks.datapath_check import check_datapath

    def declare(config: Config) -> Extension:
        return declare_distance(config, text)

    try:
        machine = extend(MACHINE, declare)
        check_datapath(machine, machine.extensions[-1])
    except Error as error:  # which names the declaration, the puzzle's own
        raise AttemptError(re.sub(rf"^{re.escape(__file__)}:\d+", attempt.file, str(error))) from None
    return _distance_program(declare, puzzle)


def _distance_program(declare: Callable[[Config], Extension], puzzle: Puzzle) -> Program:
    machine = extend(MACHINE, declare)
    s = Schedule(puzzle.function())
    inputs, weights = s.cache_read("y", "x", "inp"), s.cache_read("y", "w", "wgt")
    results = s.cache_write("y", "acc")
    output = s.cache_write(results, "out")
    s.reorder("m", "k", "r", "o", "i")
    s.tensorize(inputs, dma.load(machine, Buffer.INP))
    s.tensorize(weights, dma.load(machine, Buffer.WGT))
    s.tensorize("y", extension_intrinsic(declare(machine), machine))
    s.tensorize(results, requantise.raw(machine))
    s.tensorize(output, dma.store(machine, raw=True))
    return compile_function(machine, s.fn)
