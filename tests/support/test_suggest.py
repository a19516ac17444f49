# SPDX-License-Identifier: Apache-2.0
"""Suggestions for an unknown name."""

import pytest

from vdla.support.suggest import did_you_mean


@pytest.mark.parametrize(("name", "hint"), [
    ("compil", " (did you mean compile?)"),
    ("COMPARE", " (did you mean compare?)"),
    ("zzz", ""),
    (None, ""),
    (["run"], ""),
])  # fmt: skip
def test_the_closest_known_name_is_suggested(name: object, hint: str) -> None:
    assert did_you_mean(name, ["compile", "compare", "run"]) == hint
