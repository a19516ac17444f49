# SPDX-License-Identifier: Apache-2.0
"""ResNet-18 as one program: exact, and near the bound."""

from __future__ import annotations

import numpy as np
import pytest

from vdla.benchmarks import chain
from vdla.hardware.config import Config


@pytest.mark.long
def test_resnet18_is_one_exact_program_near_the_bound() -> None:
    result = chain.run()
    assert result.figures["all_exact"] == 1
    assert result.figures["offloaded_cycles"] < 6_300_000
    assert result.figures["bound_share"] > 0.97
    assert sum(row["cycles"] for row in result.rows) == result.figures["cycles"]


def test_the_chain_has_the_operators_of_resnet18() -> None:
    found = chain.resnet18_chain(Config.preset("pynq_z1"))
    names = [step.operator.name for step in found.steps]
    assert names.count("residual_add") == 8
    repeats = {"C1": 1, "C2": 4, "C4": 1, "C5": 1, "C6": 3, "C7": 1, "C8": 1, "C9": 3, "C10": 1, "C11": 1, "C12": 3}
    assert {name: names.count(name) for name in names if name.startswith("C")} == repeats
    macs = sum(step.operator.macs for step in found.steps if step.operator.name in repeats)
    assert macs == 1_695_547_392 + 118_013_952


def test_random_inputs_fill_every_input_of_the_program() -> None:
    found = chain.resnet18_chain(Config.preset("pynq_z1"))
    inputs = chain.random_inputs(found, 0)
    assert len(np.unique(inputs["C2.a0.weight"])) == 256
    assert {"image", "C12.b7.weight", "add7.scale", "classes.scale"} <= inputs.keys()
