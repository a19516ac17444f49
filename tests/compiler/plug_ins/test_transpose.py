# SPDX-License-Identifier: Apache-2.0
"""Second factors of products: programs of both forms, the datapath and the RTL."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import vdla
from vdla import definitions
from vdla.compiler.extensions import ExtensionError
from vdla.compiler.graph.machine.factor_layout import FactorLayout
from vdla.compiler.plug_ins import transpose
from vdla.hardware.config import Config
from vdla.hardware.numerics import pack_scale, scales_from_floats

TINY = vdla.extend(Config.preset("tiny"), "transpose")
BATCHED = vdla.extend(replace(Config.preset("tiny"), name="two rows", batch=2), "transpose")
ONE = pack_scale(np.zeros(1, np.int64), *scales_from_floats(np.ones(1))).view(np.int64)


def case(shape, transposed):
    """A program, its arrays and the wanted factor."""
    matrices, rows, columns = shape
    made = definitions.second_factor(matrices=matrices, rows=rows, columns=columns, transposed=transposed)
    data = np.random.default_rng(0).integers(-128, 128, shape).astype(np.int8)
    given = transpose.program(made, TINY)
    return given, given.pack({"data": data, "scale": ONE}), data.swapaxes(1, 2) if transposed else data


@pytest.mark.parametrize("transposed", [True, False])
@pytest.mark.parametrize("shape", [(2, 13, 8), (1, 5, 10), (3, 16, 4)])
def test_programs_lay_out_the_factor_as_products_read_it(shape, transposed):
    given, arrays, wanted = case(shape, transposed)
    result = vdla.simulate(given.program, arrays).outputs["results"]
    np.testing.assert_array_equal(given.unpack({"results": result}), wanted)
    np.testing.assert_array_equal(FactorLayout(wanted.shape, 4, 4).unpacked(result), wanted)


def test_rows_behind_the_last_one_are_zero():
    given, arrays, _ = case((1, 5, 4), False)
    result = vdla.simulate(given.program, arrays).outputs["results"].reshape(2, 4, 4)
    assert not result[1, :, 1:].any()


def test_a_batch_divides_the_rows_of_a_square():
    wide = replace(Config.preset("batch4"), batch=16)
    with pytest.raises(ExtensionError, match=r"batch must divide block_out, the rows of a square, 8, got 16$"):
        vdla.extend(wide, "transpose")


def test_a_factor_has_rows_of_one_image():
    made = definitions.second_factor(matrices=1, rows=8, columns=8, transposed=True)
    with pytest.raises(vdla.LayerError) as error:
        transpose.program(made, BATCHED)
    assert str(error.value) == "batch must be 1, as a line has rows of one image, got 2"


def test_a_line_beyond_the_buffers_has_no_program():
    made = definitions.second_factor(matrices=1, rows=100, columns=4, transposed=True)
    with pytest.raises(vdla.LayerError) as error:
        transpose.program(made, TINY)
    assert str(error.value) == "a line must fit half of a buffer, 32 entries, got 100"


@pytest.mark.rtl
@pytest.mark.parametrize("config", [TINY, BATCHED], ids=lambda config: config.name)
def test_the_datapath_computes_the_steps(config):
    assert vdla.check_datapath(config, config.extensions[0]) > 0


@pytest.mark.slow
@pytest.mark.rtl
def test_programs_on_the_rtl_are_equal_in_results_and_cycles():
    given, arrays, wanted = case((2, 13, 8), False)
    simulated, built = (vdla.run(given.program, arrays, device) for device in ("sim", "rtl"))
    np.testing.assert_array_equal(given.unpack(built.outputs), wanted)
    assert simulated.statistics.total_cycles == built.statistics.total_cycles
