# SPDX-License-Identifier: Apache-2.0
"""Random edits of board descriptions: refused with a sentence, or sound flows."""

from __future__ import annotations

import pytest
from helpers.recorded_vivado import require_tcl

from vdla.boards import board
from vdla.verification.vivado.board_edits import try_edits


def test_edited_descriptions_are_sound_boards_or_one_sentence() -> None:
    require_tcl()
    outcomes = try_edits(120, seed=3)
    assert set(outcomes) == {"accepted", "refused"}, outcomes
    assert min(outcomes.values()) > 10


@pytest.mark.parametrize("rule", ["_check_addresses", "_check_ports"])
def test_descriptions_that_a_rule_would_refuse_fail_in_the_flow(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    require_tcl()
    monkeypatch.setattr(board, rule, lambda *_: None)
    outcomes = try_edits(60, seed=7)
    assert outcomes["failing"] + outcomes["internal"] > 0
