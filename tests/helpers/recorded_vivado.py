# SPDX-License-Identifier: Apache-2.0
"""The recorded Vivado flow, for tests that skip where there is no Tcl."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from vdla.boards.board import Board
from vdla.verification.vivado import recorded
from vdla.verification.vivado.recorded import Recorded, write_flow

__all__ = ["Recorded", "require_tcl", "run_flow", "write_flow"]


def require_tcl() -> None:
    if shutil.which("tclsh") is None:
        pytest.skip("needs tclsh (apt-get install tcl)")


def run_flow(folder: Path, board: Board, **answers: Any) -> Recorded:
    require_tcl()
    return recorded.run_flow(folder, board, **answers)
