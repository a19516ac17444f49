# SPDX-License-Identifier: Apache-2.0
"""Rotary embedding: the integers against floats, and programs, datapath and RTL against them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import vdla
from vdla import definitions, te
from vdla.compiler.extensions import ExtensionError
from vdla.compiler.graph.machine.layer_call import with_results
from vdla.compiler.graph.passes.rotations import turns_of
from vdla.compiler.plug_ins import rotary
from vdla.hardware.config import Config
from vdla.hardware.numerics import pack_scale, scales_from_floats
from vdla.runtime.numpy_operators import integer_rows

TINY = vdla.extend(Config.preset("tiny"), "rotary")
LARGE = vdla.extend(Config.preset("pynq_z1"), "rotary")
SHAPES = [(1, 3, 8, 8), (3, 2, 8, 4), (5, 2, 6, 6), (20, 3, 16, 16), (1, 3, 24, 24), (1, 2, 5, 4)]
"""Rows, heads, the elements of one, and those that are turned."""


def case(shape, interleaved=False, zero_point=3):
    """A definition, its arrays, the wanted result, and the same in real numbers, not rounded."""
    rows, heads, size, turned = shape
    rng = np.random.default_rng(0)
    x = rng.integers(-128, 128, (1, rows, heads * size)).astype(np.int8)
    angles = rng.uniform(0, 7, (rows, turned // 2))
    turns = turns_of(np.cos(angles), np.sin(angles), size, turned, interleaved)[None]
    multiplier, shift = scales_from_floats(np.array([0.7 / 127]))
    results = {"y_zero_point": zero_point, "low": -128, "high": 127}
    options = {"heads": heads, "turned": turned, "interleaved": interleaved}
    wanted = integer_rows.rotary(x, turns, **options, multiplier=multiplier, shift=shift, **results)
    made = definitions.rotary(matrices=1, rows=rows, size=size, zero_point=zero_point, **options)
    scale = pack_scale(np.zeros(1, np.int64), multiplier, shift).view(np.int64)
    parts = x.astype(float).reshape(rows, heads, size)
    part, rest = parts[..., :turned], parts[..., turned:]
    first, second = (part[..., ::2], part[..., 1::2]) if interleaved else np.split(part, 2, -1)
    pairs = (first + 1j * second) * np.exp(1j * angles)[:, None]
    both = (pairs.real, pairs.imag)
    real = np.stack(both, -1).reshape(part.shape) if interleaved else np.concatenate(both, -1)
    real = 0.7 * np.concatenate([real, rest], -1).reshape(x.shape)
    return made, {"data": x, "turns": turns, "scale": scale}, wanted, real


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("shape", [(200, 4, 32, 32), (50, 2, 10, 6)])
def test_elements_are_those_of_floats_within_the_stated_error(shape, interleaved):
    _, arrays, wanted, real = case(shape, interleaved, zero_point=0)
    longest = 0.7 * 128 * 2**0.5
    error = np.abs(wanted - real)[np.abs(real) < 126]
    assert error.max() <= 0.5 + longest / 180
    assert (np.abs(arrays["turns"]) <= 127).all()


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_definition_and_the_programs_compute_the_integers(shape, interleaved):
    made, arrays, wanted, _ = case(shape, interleaved)
    fn = te.create_function(list(made.inputs), [made.output], "definition")
    np.testing.assert_array_equal(vdla.interpret(fn, arrays)[made.output.name], wanted)
    for machine in (TINY, LARGE):
        given = rotary.program(made, machine)
        result = vdla.run(with_results(given.program, (3, -128, 127)), given.pack(arrays))
        np.testing.assert_array_equal(given.unpack(result.outputs), wanted)


def test_a_row_is_rotated_on_a_machine_with_a_batch():
    several = {"batch": 2, "axi_bits": 256, "axi_ports": 4}
    machine = vdla.extend(replace(Config.preset("pynq_z1_lm"), **several), "rotary")
    made, arrays, wanted, _ = case((1, 6, 48, 48))
    given = rotary.program(made, machine)
    result = vdla.run(with_results(given.program, (3, -128, 127)), given.pack(arrays))
    np.testing.assert_array_equal(given.unpack(result.outputs), wanted)


def test_what_has_no_program_says_why():
    several = vdla.extend(Config.preset("batch4"), "rotary")
    for machine, shape, rule in (
        (several, (2, 2, 8, 8), "rows must be 1, as rows of an entry share their factors, got 2"),
        (TINY, (600, 1, 8, 8), "factors must fit the weight buffer, 64 entries, got 900"),
        (TINY, (1, 6, 64, 64), "a row must fit half of a buffer, 32 entries, got 96"),
    ):
        with pytest.raises(vdla.LayerError) as error:
            rotary.program(case(shape)[0], machine)
        assert str(error.value) == rule
    with pytest.raises(vdla.LayerError) as error:
        rotary.program(definitions.rotary(matrices=2, rows=1, heads=1, size=4, turned=4), TINY)
    assert str(error.value) == "matrices must be 1, whose rows are those of factors, got 2"
    with pytest.raises(vdla.Error) as error:
        definitions.rotary(matrices=1, rows=1, heads=1, size=8, turned=3)
    assert str(error.value) == "rotary: turned must be an even number from 2 to the 8 elements, got 3"


def test_a_machine_with_other_numbers_has_no_rotary():
    with pytest.raises(ExtensionError, match=r"inputs and weights must have 8 bits, got 4 and 4$"):
        vdla.extend(Config.preset("int4"), "rotary")


@pytest.mark.rtl
def test_the_datapath_computes_the_steps():
    assert vdla.check_datapath(TINY, TINY.extensions[0]) > 0


@pytest.mark.slow
@pytest.mark.rtl
@pytest.mark.parametrize("interleaved", [False, True])
def test_programs_on_the_rtl_are_equal_in_results_and_cycles(interleaved):
    made, arrays, wanted, _ = case((3, 2, 8, 6), interleaved, zero_point=0)
    given = rotary.program(made, TINY)
    simulated, built = (vdla.run(given.program, given.pack(arrays), device) for device in ("sim", "rtl"))
    np.testing.assert_array_equal(given.unpack(built.outputs), wanted)
    assert simulated.statistics.total_cycles == built.statistics.total_cycles
