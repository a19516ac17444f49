# SPDX-License-Identifier: Apache-2.0
"""Programs that authors of extensions write, as layers of networks, against the plain machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vdla.compiler.extensions import extend
from vdla.hardware.config import Config
from vdla.networks.mobilenet import mobilenet_v1
from vdla.runtime.executor.model import Model
from vdla.runtime.network.compile_network import compile_network

DEPTHWISE = Path(__file__).parents[3] / "examples" / "depthwise" / "depthwise.py"
DATA = np.random.default_rng(0).standard_normal((3, 1, 3, 48, 48)).astype(np.float32)


def compiled(config: Config, batch: int = 1, **options: Any) -> Any:
    """A network whose depthwise layers have blocks of channels, for a machine."""
    model = mobilenet_v1(batch=batch, image=48, width=0.5, depth=4, classes=10)
    data = np.repeat(DATA, batch, axis=1)[:, :batch]
    return compile_network(model, config, calibration=[{"image": data[0]}], method="minmax", **options)


def extensions_of(model: Any) -> list[str]:
    """The operators that extensions run, by name."""
    placed = [op for step in model.artifact.plan.steps for op in step.placement.operators]
    return [op.name for op in placed if op.extensions]


@pytest.mark.slow
@pytest.mark.parametrize(("preset", "batch"), [("pynq_z1", 1), ("ultra96", 1)])
def test_layers_are_run_by_an_extension_in_fewer_cycles(preset: str, batch: int, tmp_path: Path) -> None:
    plain = Config.preset(preset)
    machine = extend(plain, DEPTHWISE)
    before, after = compiled(plain, batch), compiled(machine, batch)
    assert extensions_of(before) == []
    assert len(extensions_of(after)) >= 2 and all(
        "relu1" in name or "depthwise" in name for name in extensions_of(after)
    )
    cycles = [sum(step.placement.cycles or 0 for step in model.artifact.plan.steps) for model in (before, after)]
    assert cycles[1] < cycles[0]
    after.save(tmp_path / "after.vdla")
    with before, after, Model.load(tmp_path / "after.vdla") as loaded:
        for data in DATA:
            image = np.repeat(data, batch, axis=0)
            wanted = before.run({"image": image}).outputs["logits"]
            for model in (after, loaded):
                np.testing.assert_array_equal(model.run({"image": image}).outputs["logits"], wanted)
