"""Calibration data from files, as the commands that quantise take them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from vdla.commands import CommandError


def calibration_data(path: Path) -> Any:  # noqa: ANN401  an array, or arrays by name
    """The content of a .npy or .npz file; pickled objects are refused."""
    try:
        loaded = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise CommandError(f"{path}: content must be arrays in .npy or .npz format, got {error}") from None
    if isinstance(loaded, np.ndarray):
        return loaded
    with loaded:
        return dict(loaded)
