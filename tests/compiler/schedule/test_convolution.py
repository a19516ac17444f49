# SPDX-License-Identifier: Apache-2.0
"""The accelerator's schedule of a convolution keeps its meaning after every primitive."""

import numpy as np
import pytest
from helpers.packed_convolution import convolution, model, random_inputs, same_result, schedule
from helpers.work import lines_executed

from vdla.compiler.interpret import interpret

PROBLEMS = [
    {"h": 5, "w": 4, "co": 3, "ci": 3, "stride": 1, "dilation": 1, "padding": 1},
    {"h": 7, "w": 5, "co": 2, "ci": 3, "stride": 2, "dilation": 1, "padding": 1},
    {"h": 8, "w": 6, "co": 2, "ci": 2, "stride": 2, "dilation": 2, "padding": 2},
    {"h": 6, "w": 4, "co": 2, "ci": 3, "k": 1, "stride": 2, "dilation": 1, "padding": 0, "batch": 2},
    {"h": 8, "w": 7, "co": 1, "ci": 2, "n": 2, "stride": 3, "dilation": 2, "padding": 3},
]
TILES = [(2, 2, 1), (3, 1, 2), (9, 4, 4)]


@pytest.mark.sampled
@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
@pytest.mark.parametrize("tiles", TILES, ids=str)
def test_every_primitive_preserves_the_convolution(problem, tiles):
    fn = convolution(**problem)
    arrays = random_inputs(fn)
    expected = model(fn, arrays, problem["stride"], problem["dilation"], problem["padding"])
    schedule(fn, *tiles, check=same_result(arrays, expected))


def test_the_expression_equals_numpy():
    fn = convolution(stride=2, dilation=2, padding=3, h=9, w=8)
    arrays = random_inputs(fn)
    np.testing.assert_array_equal(interpret(fn, arrays)["out"], model(fn, arrays, 2, 2, 3))


def test_cached_windows_have_minimal_extents():
    s = schedule(convolution(h=13, w=9, stride=2, co=4, ci=4), 3, 2, 1, check=lambda s, step: None)
    extents = {line.split()[1]: line for line in str(s.fn).splitlines() if "for i" in line}
    assert [extents[f"i{d}"].split("range")[1] for d in range(6)] == ["(1):", "(1):", "(7):", "(11):", "(1):", "(2):"]


def test_every_result_is_computed_once():
    text = str(schedule(convolution(co=4, ci=4, h=6), 3, 2, 1, check=lambda s, step: None).fn)
    (header,) = (line.strip() for line in text.splitlines() if line.strip().startswith("block q("))
    assert header == (
        "block q(vn=n + q_n, vco=cog * 2 + co + q_co, vy=yo * 3 + y + q_y, vx=x + q_x, vb=q_b, vo=q_o) "
        "where cico == 1 and vt == 1:"
    )


def test_the_work_of_scheduling_does_not_grow_with_the_layer():
    def work(side, channels):
        fn = convolution(ci=channels, co=channels, h=side, w=side, block=16)
        schedule(fn, 7, 2, 1, check=lambda s, step: None)  # fills caches
        return lines_executed(lambda: schedule(fn, 7, 2, 1, check=lambda s, step: None))

    assert work(112, 16) < 1.1 * work(14, 4)
