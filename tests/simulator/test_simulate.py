# SPDX-License-Identifier: Apache-2.0
"""`simulate`: results, modes, and the exact text of its errors."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.small_programs import small_gemm

from vdla.hardware.config import Config
from vdla.hardware.isa import encode
from vdla.hardware.program import Program, ProgramTensor, from_bytes, to_bytes
from vdla.simulator.simulate import Mode, simulate
from vdla.simulator.support.errors import SimulationError
from vdla.simulator.verify import VerifyError
from vdla.support.errors import Error

TINY = Config.preset("tiny")


@pytest.mark.parametrize("portable", [False, True])
@pytest.mark.parametrize("preset", ["pynq_z1", "tiny", "int4", "batch4", "zcu104"])
def test_a_simulated_product_is_exact(preset, portable):
    program, arrays, expected = small_gemm(Config.preset(preset))
    result = simulate(program, arrays, portable=portable)
    assert (result.outputs["out"] == expected).all()
    assert result.statistics.total_cycles > 0


def test_timing_or_function_may_be_simulated_alone():
    program, arrays, expected = small_gemm(TINY)
    timing = simulate(program, mode="timing")
    assert timing.outputs == {}
    function = simulate(program, arrays, mode=Mode.FUNCTION)
    with pytest.raises(SimulationError) as error:
        function.trace  # noqa: B018
    assert str(error.value) == f"result of {program.name}: statistics need mode both or timing, got function"
    assert (function.outputs["out"] == expected).all()
    assert simulate(program, arrays).statistics.differences(timing.statistics) == []


def test_another_memory_changes_timing_but_not_results():
    program, arrays, expected = small_gemm(TINY)
    slow = replace(TINY, dram=replace(TINY.dram, beat_cycles=4))
    result = simulate(program, arrays, slow)
    assert (result.outputs["out"] == expected).all()
    assert result.statistics.total_cycles > simulate(program, arrays).statistics.total_cycles


def message(call):
    with pytest.raises(Error) as error:
        call()
    return str(error.value)


def test_errors_name_tensor_rule_and_value():
    program, arrays, _ = small_gemm(Config.preset("int4"))
    name = program.name

    def with_(**changes):
        return lambda: simulate(program, {**arrays, **changes})

    assert message(lambda: simulate(program, arrays, mode="fast")) == (
        "simulate: mode must be one of function, timing, both, got fast"
    )
    assert message(lambda: simulate(program, {})) == (
        f"program {name}: inputs must include inp, got none; "
        f"add an array int8{list(program.tensor('inp').shape)} of that name"
    )
    assert message(with_(other=np.zeros(1))) == f"program {name}: inputs must be of inp, wgt, scl, got other"
    assert message(with_(inp=[1])) == "tensor inp: value must be a numpy array, got list"
    assert message(with_(inp=np.zeros((1, 2), np.int8))) == (
        f"tensor inp: shape must be {program.tensor('inp').shape}, got (1, 2)"
    )
    hint = '(inp.astype("int8") converts it)'
    assert message(with_(inp=arrays["inp"].astype(np.int32))) == f"tensor inp: dtype must be int8, got int32 {hint}"
    assert message(with_(inp=np.full_like(arrays["inp"], 8))) == "tensor inp: values must be from -8 to 7, got 8"


def test_simulate_refuses_an_unsafe_program():
    from vdla.hardware.isa import Store

    words = encode(TINY, [Store()])
    out = ProgramTensor(name="out", role="output", shape=(4,), dtype="int8", layout="packed", nbytes=4)
    program = Program(
        config=TINY,
        name="bad",
        words=words,
        tensors=(out,),
        tensor_of=np.zeros(1, np.int32),
        source_lines=("store",),
        source_of=np.zeros(1, np.int32),
    )
    with pytest.raises(VerifyError):
        simulate(program, {})


@pytest.mark.parametrize(("dtype", "low", "high"), [("int2", -2, 1), ("int4", -8, 7), ("int8", -128, 127)])
def test_arrays_survive_a_round_trip_through_bytes(dtype, low, high):
    bits = int(dtype[3:])
    tensor = ProgramTensor(name="t", role="input", shape=(3, 8), dtype=dtype, layout="packed", nbytes=3 * bits)
    array = np.random.default_rng(0).integers(low, high + 1, (3, 8)).astype(np.int8)
    data = to_bytes(tensor, array)
    assert len(data) == tensor.nbytes
    assert (from_bytes(tensor, data) == array).all()
