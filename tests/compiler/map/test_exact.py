# SPDX-License-Identifier: Apache-2.0
"""Every mapping of every kind of operator computes what the plain expression does."""

import numpy as np
import pytest
from helpers.plain_operators import expected, kinds, random_arrays
from hypothesis import given, settings
from hypothesis import strategies as st

from vdla.compiler import te
from vdla.compiler.interpret import interpret
from vdla.compiler.map import candidates
from vdla.compiler.map.packing import gather
from vdla.compiler.operators import definitions
from vdla.hardware.config import Config
from vdla.simulator.simulate import simulate

MOST = 3  # mappings that run, spread over all of them: the cheapest, the dearest, between
KINDS = list(kinds(Config.preset("tiny")))
OF_INT4 = ("conv2d", "dense", "depthwise", "max_pooling", "residual")
CASES = [(kind, machine) for kind in KINDS for machine in ("tiny", "batch4")] + [(kind, "int4") for kind in OF_INT4]


def spread(operators):
    """The first, the last and one between."""
    places = np.unique(np.linspace(0, len(operators) - 1, MOST).astype(int))
    return [operators[place] for place in places]


@pytest.mark.sampled
@pytest.mark.parametrize(("kind", "machine"), CASES)
def test_mappings_are_exact(kind, machine):
    config = Config.preset(machine)
    definition = kinds(config)[kind]
    arrays = random_arrays(definition, np.random.default_rng(len(kind)))
    result = expected(definition, arrays)
    for operator in spread(candidates(definition.output, config).found):
        outputs = simulate(operator.program, operator.pack(**arrays)).outputs
        assert np.array_equal(operator.unpack(outputs), result), operator.description


@pytest.mark.long
@pytest.mark.parametrize("kind", ["conv2d", "conv2d_grouped", "conv1d", "correlation"])
def test_all_mappings_are_exact(kind):
    config = Config.preset("batch4")
    definition = kinds(config)[kind]
    arrays = random_arrays(definition, np.random.default_rng(1))
    result = expected(definition, arrays)
    for operator in candidates(definition.output, config).found[::4]:
        outputs = simulate(operator.program, operator.pack(**arrays)).outputs
        assert np.array_equal(operator.unpack(outputs), result), operator.description


@given(data=st.data())
@settings(max_examples=12, deadline=None, derandomize=True)
def test_random_convolutions_are_exact(data):
    draw, config = data.draw, Config.preset("tiny")
    axes, groups = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    kernel = [draw(st.integers(1, 3)) for _ in range(axes)]
    dilations = [draw(st.integers(1, 2)) for _ in range(axes)]
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    definition = definitions.convolution(
        batch=draw(st.integers(1, 2)),
        in_channels=groups * draw(st.integers(1, 6)),
        out_channels=groups * draw(st.integers(1, 6)),
        size=[span + draw(st.integers(0, 4)) for span in spans],
        kernel=kernel,
        strides=[draw(st.integers(1, 2)) for _ in range(axes)],
        pads=[draw(st.integers(0, k - 1)) for k in kernel],
        dilations=dilations,
        groups=groups,
        raw=draw(st.booleans()),
    )
    arrays = random_arrays(definition, np.random.default_rng(draw(st.integers(0, 99))))
    found = candidates(definition.output, config).found
    operator = found[draw(st.integers(0, len(found) - 1))]
    outputs = simulate(operator.program, operator.pack(**arrays)).outputs
    assert np.array_equal(operator.unpack(outputs), expected(definition, arrays)), operator.description


@pytest.mark.parametrize("kind", ["conv2d", "conv2d_grouped", "dense", "depthwise", "average_pooling", "transposed"])
def test_packing_is_a_tensor_expression(kind):
    """The interpreter and the gather agree on every packed input."""
    config = Config.preset("tiny")
    definition = kinds(config)[kind]
    arrays = random_arrays(definition, np.random.default_rng(2))
    for operator in spread(candidates(definition.output, config).found):
        for tensor in operator.packing.values():
            (source,) = tensor.stage.reads
            function = te.create_function([source], [tensor], "pack")
            by_definition = interpret(function, {source.name: arrays[source.name]})[tensor.name]
            assert np.array_equal(gather(tensor, arrays[source.name]), by_definition)
