# SPDX-License-Identifier: Apache-2.0
"""Definitions: what they compute, against NumPy, and the options that they refuse."""

import numpy as np
import pytest
from helpers.plain_operators import expected, random_arrays

from vdla.compiler.operators import definitions
from vdla.compiler.operators.definitions import DefinitionError


def naive_transposed(data, weight, stride, pad, dilation, extra):
    """Every input element scattered by the kernel, along one axis."""
    size, taps = data.shape[2], weight.shape[2]
    full = np.zeros((len(data), weight.shape[1], (size - 1) * stride + (taps - 1) * dilation + 1 + extra), np.int64)
    for i in range(size):
        for k in range(taps):
            full[:, :, i * stride + k * dilation] += np.einsum("nc,co->no", data[:, :, i], weight[:, :, k])
    return full[:, :, pad : full.shape[2] - pad]


@pytest.mark.parametrize("kernel", [1, 3, 4])
@pytest.mark.parametrize(
    ("stride", "pad", "dilation", "extra"),
    [(1, 0, 1, 0), (2, 1, 1, 1), (3, 2, 1, 2), (3, 1, 2, 0), (2, 1, 2, 1), (4, 3, 2, 0), (4, 1, 6, 1), (2, 0, 5, 0)],
)
def test_a_transposed_convolution_is_its_scattered_sum(kernel, stride, pad, dilation, extra):
    definition = definitions.transposed_convolution(
        batch=2, in_channels=3, out_channels=2, size=(5,), kernel=kernel, strides=stride, pads=pad,
        output_padding=extra, dilations=dilation,
    )  # fmt: skip
    arrays = random_arrays(definition, np.random.default_rng(kernel))
    wide = (arrays[name].astype(np.int64) for name in ("data", "weight"))
    assert np.array_equal(expected(definition, arrays), naive_transposed(*wide, stride, pad, dilation, extra))


def test_an_average_that_leaves_padding_out_has_a_scale_for_each_class_of_places():
    definition = definitions.pooling(
        kind="average", batch=1, channels=3, size=(9, 4), kernel=3, pads=1, count_include_pad=False, raw=False
    )
    assert definition.inputs[1].shape == (3, 3, 3)


def refusal(define, **options):
    with pytest.raises(DefinitionError) as error:
        define(**options)
    return str(error.value)


def test_options_out_of_range_are_refused():
    window = {"batch": 1, "channels": 4, "size": (5, 5), "kernel": 3}
    transposed = {"batch": 1, "in_channels": 2, "out_channels": 2, "size": (3,), "kernel": 3}
    depthwise, pooling, plain = definitions.depthwise_convolution, definitions.pooling, {"batch": 1, "channels": 4}
    assert refusal(depthwise, **window | {"kernel": 6}) == (
        "depthwise_convolution: kernel must fit the padded input of [5, 5], got [6, 6]"
    )
    assert refusal(pooling, **window, kind="min") == "pooling: kind must be max or average, got 'min'"
    assert refusal(pooling, **window, kind="max", pads=3) == (
        "pooling: pads must be less than the kernel, got [3, 3, 3, 3] for [3, 3]"
    )
    assert refusal(definitions.transposed_convolution, **transposed, strides=2, output_padding=2) == (
        "transposed_convolution: output_padding must be less than the stride or the dilation of x, got 2"
    )
    assert refusal(definitions.transposed_convolution, **transposed, pads=3) == (
        "transposed_convolution: pads must leave at least one result along x, got 3 and 3"
    )
    assert refusal(definitions.residual_addition, **plain, size=(2,), factors=(1, 2.5)) == (
        "residual_addition: factors must be two integers, got (1, 2.5)"
    )
    assert refusal(definitions.rescaling, **plain, size=()) == "rescaling: size must have 1 to 3 axes, got []"
    assert refusal(definitions.extremum, **plain, size=(2,), kind="most") == (
        "extremum: kind must be maximum or minimum, got 'most'"
    )
