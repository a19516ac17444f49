"""Forms whose axes have fixed places: their layouts, and the places that no intrinsic has."""

import pytest

from vdla.compiler.map import MapError
from vdla.compiler.map.fixed_form import fixed_form
from vdla.compiler.map.packed_expression import packed_tensors
from vdla.compiler.operators import definitions
from vdla.hardware.config import Config

BATCH4 = Config.preset("batch4")


def shapes(form):
    return {tensor.name: tensor.shape for tensor in packed_tensors(form)}


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
