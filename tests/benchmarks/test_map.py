"""The benchmark of the mapper: a row of a layer, and a kind of operator."""

import pytest

from vdla.benchmarks.map import _is_exact, _layer_row
from vdla.compiler.operators.workloads import workload
from vdla.hardware.config import Config


def test_a_row_compares_the_mapper_with_the_template():
    row = _layer_row(workload("C11"), Config.preset("pynq_z1"))
    assert row["cycles"] < row["template_cycles"]
    assert row["over_template"] == round(row["cycles"] / row["template_cycles"], 5)


@pytest.mark.parametrize("kind", ["grouped 3-D convolution", "correlation"])
def test_kinds_of_operators_are_exact(kind):
    assert _is_exact(kind, 3)
