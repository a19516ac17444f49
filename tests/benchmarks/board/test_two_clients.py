# SPDX-License-Identifier: Apache-2.0
"""Two processes on one virtual board: no run is wrong, and every error says why."""

import pytest

from vdla.benchmarks.board.two_clients import two_clients

pytest.importorskip("pynq", reason="pynq is not installed (make test-board)")


def test_two_clients_are_right_or_say_that_they_were_not_alone():
    ends = two_clients("sim", 12, "pynq_z1")
    assert (ends["wrong_sim"], ends["unnamed_sim"]) == (0, 0) and ends["right_sim"] > 0
    assert sum(ends.values()) == 12
