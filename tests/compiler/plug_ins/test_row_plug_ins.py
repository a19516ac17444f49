# SPDX-License-Identifier: Apache-2.0
"""Softmax and norms of rows: the integers against floats, and the programs, datapaths and the RTL
against the integers.
"""

from __future__ import annotations

import numpy as np
import pytest

import vdla
from vdla import definitions, te
from vdla.compiler.graph.machine.layer_call import with_results
from vdla.compiler.plug_ins import norm, softmax
from vdla.hardware.config import Config
from vdla.hardware.numerics import pack_scale, scales_from_floats
from vdla.runtime.checks.datapath_check import DatapathMismatch
from vdla.runtime.numpy_operators.integer_rows import row_norm, row_softmax

TINY = vdla.extend(Config.preset("tiny"), "softmax", "norm")
RESULTS = {"y_zero_point": -128, "low": -128, "high": 127}
SHAPES = [(2, 20, 37), (1, 5, 3), (1, 70, 64)]


def lanes(bias, multiplier, shift):
    return pack_scale(bias, multiplier, shift).view(np.int64)


def softmax_case(shape, scale=0.05):
    """A definition, its arrays and the wanted result."""
    matrices, rows, keys = shape
    x = np.random.default_rng(0).normal(0, 30, shape).clip(-128, 127).astype(np.int8)
    factor = definitions.softmax_factor(scale)
    multiplier, shift = scales_from_floats(np.array([255 / 2**24]))
    wanted = row_softmax(x, factor=factor, multiplier=multiplier, shift=shift, **RESULTS)
    made = definitions.row_softmax(matrices=matrices, rows=rows, keys=keys, factor=factor, zero_point=-128)
    return made, {"data": x, "scale": lanes(np.zeros(1, np.int64), multiplier, shift)}, wanted


def norm_case(shape, centred=True, mean=10.0, deviation=20.0):
    """The same of a norm, and the result in real numbers, over a step of 6 / 127."""
    rng, (matrices, rows, features) = np.random.default_rng(0), shape
    x = rng.normal(mean, deviation, shape).clip(-128, 127).astype(np.int8)
    sign = rng.choice([-1, 1], features).astype(np.int8)
    scale, offset = rng.uniform(0.5, 1.5, features), rng.uniform(-1, 1, features)
    multiplier, shift = scales_from_floats(scale / 4096 * 127 / 6)
    bias = np.rint(offset / scale * 4096).astype(np.int64)
    factors = {"multiplier": multiplier, "shift": shift}
    results = {**RESULTS, "y_zero_point": 0}
    wanted = row_norm(x, sign, bias, centred=int(centred), least=0, **factors, **results)
    options = {"matrices": matrices, "rows": rows, "features": features, "centred": centred}
    made = definitions.row_norm(**options)
    arrays = {"data": x, "sign": sign, "scale": lanes(bias, multiplier, shift)}
    distance = x - x.mean(axis=-1, keepdims=True) * centred
    real = distance / np.sqrt((distance**2).mean(axis=-1, keepdims=True)) * scale * sign + offset
    return made, arrays, wanted, real * 127 / 6


# --- integers against floats ----------------------------------------------------------------------


@pytest.mark.parametrize("scale", [0.01, 0.05, 0.15, 0.5])
def test_shares_are_those_of_floats_within_less_than_a_percent(scale):
    _, arrays, wanted = softmax_case((2, 40, 200), scale)
    powers = np.exp((arrays["data"].astype(np.float64) - 127) * scale)
    shares = powers / powers.sum(axis=-1, keepdims=True)
    assert (np.abs(wanted + 128.0 - 255 * shares) <= 0.5 + 0.008 * 255 * shares).all()


@pytest.mark.parametrize(("mean", "deviation", "most"), [(0, 30, 0.6), (-20, 40, 0.6), (60, 20, 0.7), (0, 1, 1.5)])
def test_normal_numbers_are_those_of_floats_within_a_step(mean, deviation, most):
    _, _, wanted, real = norm_case((1, 60, 96), True, mean, deviation)
    assert np.abs(wanted - real)[np.abs(real) < 120].max() < most


def test_a_norm_that_is_not_centred_is_that_of_root_mean_squares():
    _, _, wanted, real = norm_case((1, 60, 96), centred=False)
    assert np.abs(wanted - real)[np.abs(real) < 120].max() < 0.6


@pytest.mark.parametrize("case", [softmax_case((2, 9, 13)), norm_case((2, 9, 13))[:3]])
def test_the_definition_computes_the_integers(case):
    made, arrays, wanted = case
    fn = te.create_function(list(made.inputs), [made.output], "definition")
    np.testing.assert_array_equal(vdla.interpret(fn, arrays)[made.output.name], wanted)


def test_what_is_no_such_operator_is_refused():
    with pytest.raises(vdla.Error) as error:
        definitions.row_softmax(matrices=1, rows=1, keys=4, factor=1 << 18)
    assert str(error.value) == "row_softmax: factor must be from 1 to 262143, got 262144"
    with pytest.raises(vdla.Error) as error:
        definitions.row_softmax(matrices=1, rows=1, keys=40000, factor=1)
    assert str(error.value) == "row_softmax: keys must be at most 32768, got 40000"
    with pytest.raises(vdla.Error) as error:
        definitions.row_norm(matrices=1, rows=1, features=4, least=1 << 16)
    assert str(error.value) == "row_norm: least must be from 0 to 65535, got 65536"
    with pytest.raises(vdla.Error) as error:
        definitions.row_norm(matrices=1, rows=1, features=70000)
    assert str(error.value) == "row_norm: features must be at most 65536, got 70000"


# --- programs -------------------------------------------------------------------------------------


def run(given, arrays, zero_point, device="sim"):
    return vdla.run(with_results(given.program, (zero_point, -128, 127)), given.pack(arrays), device)


@pytest.mark.parametrize("shape", SHAPES)
def test_programs_of_softmax_compute_it(shape):
    made, arrays, wanted = softmax_case(shape)
    given = softmax.program(made, TINY)
    np.testing.assert_array_equal(given.unpack(run(given, arrays, -128).outputs), wanted)


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_programs_of_norms_compute_them(shape, centred):
    made, arrays, wanted, _ = norm_case(shape, centred)
    given = norm.program(made, TINY)
    np.testing.assert_array_equal(given.unpack(run(given, arrays, 0).outputs), wanted)


def test_machines_on_which_entries_differ_have_no_program():
    machine = vdla.extend(Config.preset("batch4"), "softmax")
    with pytest.raises(vdla.LayerError) as error:
        softmax.program(softmax_case((1, 4, 4))[0], machine)
    rule = "block_in must be block_out, since entries of both buffers hold the same elements"
    assert str(error.value) == f"{rule}, got 16 and 8"


def test_a_row_beyond_the_buffers_has_no_program():
    made = definitions.row_softmax(matrices=1, rows=1, keys=200, factor=1)
    with pytest.raises(vdla.LayerError) as error:
        softmax.program(made, TINY)
    assert str(error.value) == "a row must fit half of a buffer, 32 entries, got 50"


# --- hardware -------------------------------------------------------------------------------------


@pytest.mark.sampled
@pytest.mark.rtl
@pytest.mark.parametrize("name", ["softmax", "norm"])
def test_datapaths_compute_the_steps(name):
    machine = vdla.extend(Config.preset("tiny"), name)
    assert vdla.check_datapath(machine, machine.extensions[0]) > 0


@pytest.mark.rtl
@pytest.mark.parametrize("change", [("32'd49152 -", "32'd49153 -"), ("6'd14 : 6'd8", "6'd14 : 6'd9")])
def test_a_fault_of_a_step_of_rows_reaches_a_result(monkeypatch, change):
    assert norm.DATAPATH.count(change[0]) == 1
    monkeypatch.setattr(norm, "DATAPATH", norm.DATAPATH.replace(*change))
    machine = vdla.extend(Config.preset("tiny"), norm.declare)
    with pytest.raises(DatapathMismatch, match=r": datapath of norm: norm_result_o\[0\]\[\d\] of step \d+, blocks = "):
        vdla.check_datapath(machine, machine.extensions[0])


@pytest.mark.slow
@pytest.mark.rtl
def test_programs_on_the_rtl_are_equal_in_results_and_cycles():
    cases = [(softmax.program, softmax_case((2, 9, 37))[:2]), (norm.program, norm_case((1, 9, 37))[:2])]
    for program, (made, arrays) in cases:
        given = program(made, TINY)
        simulated, built = (run(given, arrays, 0, device) for device in ("sim", "rtl"))
        np.testing.assert_array_equal(given.unpack(simulated.outputs), given.unpack(built.outputs))
        assert simulated.statistics.total_cycles == built.statistics.total_cycles
