# SPDX-License-Identifier: Apache-2.0
"""A compiled network for the commands that take one: digits, quantised, for pynq_z1."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from vdla.cli import main
from vdla.commands import OK
from vdla.commands.console import output
from vdla.networks.digits_images import held_out_digits, training_digits
from vdla.networks.registry import NETWORKS


@pytest.fixture(autouse=True)
def fresh_output() -> None:
    """Every test makes the console of its own environment."""
    output.cache_clear()


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with digits.onnx, calibration.npy, x.npy (3 images) and digits.vdla."""
    folder = tmp_path_factory.mktemp("digits")
    (folder / "digits.onnx").write_bytes(NETWORKS["digits"].build().SerializeToString())
    np.save(folder / "calibration.npy", training_digits().images[:32])
    np.save(folder / "x.npy", held_out_digits().images[:3])
    words = ["compile", str(folder / "digits.onnx"), "-o", str(folder / "digits.vdla")]
    assert main([*words, "--calibration", str(folder / "calibration.npy")]) == OK
    return folder
