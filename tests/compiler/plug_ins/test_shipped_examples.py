# SPDX-License-Identifier: Apache-2.0
"""Plug-ins that pages explain as examples are the same there."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(("name", "example"), [("argmax", "argmax/argmax.py"), ("lut", "look_up_table/lut.py")])
def test_a_plug_in_is_the_beginning_of_its_example(name: str, example: str) -> None:
    shipped, shown = ((ROOT / path).read_text() for path in (f"compiler/plug_ins/{name}.py", f"examples/{example}"))
    code = shipped[shipped.index("import vdla") :].rstrip()
    assert code in shown
    assert "def declare" in code
