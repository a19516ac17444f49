# SPDX-License-Identifier: Apache-2.0
"""The wheel for boards in the benchmark: its figures, and a command of it that fails."""

import re
import sys

import pytest

from vdla.benchmarks.board import on_board as part
from vdla.benchmarks.board.on_board import OnBoardError, on_board


@pytest.mark.slow
def test_a_network_has_the_bits_of_the_simulator(monkeypatch):
    monkeypatch.setattr(part, "EMULATED", {"cortex-a9": type("Absent", (), {"is_here": False})})
    monkeypatch.setattr(part, "image_python", lambda folder: sys.executable)
    figures = on_board("tiny", ("digits",), small=True, seed=0)
    for python in ("this_python", "image_python"):
        assert figures[f"{python}_tests_failed"] == 0
        assert figures[f"{python}_network_equal"] == 1
    assert (figures["on_board_tests_failed"], figures["on_board_equal"]) == (0, 1)
    assert 0 < figures["on_board_peak_mib"] < 1000
    assert figures["on_board_trusted_share"] > 0


def test_what_fails_is_counted(monkeypatch):
    figures = {"a_tests_failed": 0, "b_tests_failed": 2, "a_network_equal": 1, "b_network_equal": 0}
    figures |= {"a_peak_mib": 90.0, "b_peak_mib": 80.0, "a_trusted_share": 0.1, "b_trusted_share": 0.2}
    figures |= {"cortex-a9_peak_mib": 300.0, "a_trusted_peak_mib": 50.0}
    assert part._of_all(figures) == {
        "on_board_pythons": 2,
        "on_board_tests_failed": 2,
        "on_board_equal": 0,
        "on_board_peak_mib": 90.0,
        "on_board_trusted_share": 0.2,
    }


def test_a_command_that_fails_is_named(tmp_path):
    python = part._Python("this_python", [sys.executable], "host", tmp_path)
    message = "bench board: this_python must run ('-c', 'raise SystemExit(\"no\")'), got no"
    with pytest.raises(OnBoardError, match=f"^{re.escape(message)}$"):
        python.run("-c", 'raise SystemExit("no")')
