# SPDX-License-Identifier: Apache-2.0
"""Forms whose axes have fixed places: their layouts, and the places that no intrinsic has."""

import pytest

from vdla.compiler.map import MapError
from vdla.compiler.map.candidates import fixed_form
from vdla.compiler.operators import definitions
from vdla.hardware.config import Config

BATCH4 = Config.preset("batch4")


def shapes(form):
    return {tensor.name: tensor.shape for tensor in form.tensors}


def test_pooling_has_batches_as_rows_and_channels_as_lanes():
    definition = definitions.pooling(kind="max", batch=5, channels=20, size=(6, 1), kernel=(2, 1))
    form = fixed_form(BATCH4, definition.output, {"b": ("n",), "o": ("c",)})
    assert shapes(form) == {"data": (2, 3, 6, 1, 4, 8), "output": (2, 3, 5, 1, 4, 8)}


def test_phases_of_a_transposed_convolution_follow_their_axis():
    definition = definitions.transposed_convolution(
        batch=1, in_channels=20, out_channels=9, size=(3, 4), kernel=(2, 4), strides=(1, 2), pads=(0, 1)
    )
    form = fixed_form(BATCH4, definition.output, {"b": ("n",), "o": ("o",), "i": ("c",)})
    assert shapes(form) == {
        "data": (1, 2, 3, 4, 4, 16),
        "weight": (2, 2, 1, 2, 2, 2, 8, 16),
        "output": (1, 2, 4, 1, 4, 2, 4, 8),
    }


def test_sections_and_blocks_lie_in_the_order_of_the_plain_dimensions():
    grouped = definitions.convolution(
        batch=5, in_channels=60, out_channels=20, size=(3, 4), kernel=(1, 2), groups=2, raw=False
    )
    form = fixed_form(BATCH4, grouped.output, {"b": ("n",), "o": ("o_l",), "i": ("c",)})
    assert shapes(form) == {
        "data": (2, 2, 2, 3, 4, 4, 16),
        "weight": (2, 2, 2, 1, 2, 8, 16),
        "scale": (2, 2, 8),
        "output": (2, 2, 2, 3, 3, 4, 8),
    }
    product = definitions.batched_product(batch=3, rows=5, depth=20, columns=9)
    form = fixed_form(BATCH4, product.output, {"b": ("m",), "o": ("n",), "i": ("k",)})
    assert shapes(form) == {"data": (3, 2, 2, 4, 16), "other": (3, 2, 2, 8, 16), "output": (1, 3, 2, 1, 2, 4, 8)}


def test_tiles_have_several_sections_of_one_block_each():
    shape = {"batch": 1, "size": (3, 3), "kernel": 3, "groups": 4}
    places = {"b": ("n",), "o": ("o_l",), "i": ("c",)}
    small = fixed_form(BATCH4, definitions.convolution(in_channels=64, out_channels=32, **shape).output, places)
    problem = small.problem
    assert (problem.separate, problem.sections, problem.out_blocks, problem.in_blocks) == (True, 1, 4, 1)
    large = fixed_form(BATCH4, definitions.convolution(in_channels=64, out_channels=36, **shape).output, places)
    problem = large.problem
    assert (problem.separate, problem.sections, problem.out_blocks, problem.in_blocks) == (False, 4, 2, 1)


DEPTHWISE = definitions.depthwise_convolution(batch=1, channels=4, size=(3, 3), kernel=2)
POOLING = definitions.pooling(kind="max", batch=1, channels=4, size=(3, 3), kernel=2)


@pytest.mark.parametrize(
    ("definition", "groups", "reason"),
    [
        (POOLING, {"b": ("n",), "o": ("c",), "i": ()}, "none with the axes b, o, i"),
        (POOLING, {"b": ("n",), "o": ("z",)}, "axis vz must be one of vn, vc, vy, vx, vky, vkx, got none of that name"),
        (DEPTHWISE, {"b": ("c",), "o": ()}, "axis vc must index only what vb does, got wgt"),
    ],
)
def test_places_that_no_intrinsic_has_are_refused(definition, groups, reason):
    with pytest.raises(MapError) as error:
        fixed_form(BATCH4, definition.output, groups)
    assert str(error.value) == f"map sums: some intrinsic must have its axes at fixed places, got {reason}"
