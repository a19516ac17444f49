# SPDX-License-Identifier: Apache-2.0
"""The benchmark of messages: its table, and that a wrong message is found."""

import pytest

from vdla.benchmarks import messages
from vdla.benchmarks.messages import MessageCase, cases
from vdla.commands import COMMANDS


def test_every_case_gives_its_sentence():
    result = messages.run()
    assert [row["words"] for row in result.rows if not row["expected"] or row["traceback"]] == []
    assert result.figures == {"cases": len(result.rows), "unexpected": 0, "without_remedy": 0, "tracebacks": 0}
    assert len(result.rows) >= 200


def test_the_table_has_every_command():
    named = {case.words.split()[0] for case in cases() if case.is_command}
    assert set(COMMANDS) <= named


@pytest.mark.parametrize(
    ("message", "got", "fits"),
    [("a (b)", "a (b)", True), ("a ... c", "a b c", True), ("a ... c", "a b d", False), ("a", "a b", False)],
)
def test_dots_stand_for_any_text(message, got, fits):
    assert MessageCase("x", True, message).fits(got) is fits


def test_other_messages_and_internal_errors_are_counted(monkeypatch):
    table = [
        MessageCase("dem", True, "command must be ..."),
        MessageCase("--version", True, "no such option"),
        MessageCase("vdla.load(3)", False, "another sentence"),
        MessageCase("1 / 0", False, "ZeroDivisionError: division by zero"),
    ]
    monkeypatch.setattr(messages, "cases", lambda: iter(table))
    assert messages.run().figures == {"cases": 4, "unexpected": 2, "without_remedy": 2, "tracebacks": 2}
