# SPDX-License-Identifier: Apache-2.0
"""The benchmark of the mapper: rows of layers, and kinds of operators."""

import pytest

from vdla.benchmarks.map import _is_exact, _layer_row
from vdla.benchmarks.mapped_layers import mapped_layers
from vdla.hardware.config import Config

LAYERS = {layer.name: layer for layer in mapped_layers()}


@pytest.mark.parametrize(("layer", "ratio"), [("C11", 1.0), ("residual 7x7", 1.0), ("average pooling 7x7", 1.0)])
def test_a_row_compares_the_mapper_with_the_template(layer, ratio):
    row = _layer_row(LAYERS[layer], Config.preset("pynq_z1"))
    assert row["over_template"] == round(row["cycles"] / row["template_cycles"], 5) <= ratio


@pytest.mark.parametrize(
    "kind",
    ["grouped 3-D convolution", "correlation", "dilated transposed convolution", "average pooling", "extremum"],
)
def test_kinds_of_operators_are_exact(kind):
    assert _is_exact(kind, 3)
