# SPDX-License-Identifier: Apache-2.0
"""The reference page of the instruction set is generated from the table."""

from __future__ import annotations

from vdla.hardware.config import Config
from vdla.hardware.generate.isa_page import render
from vdla.hardware.isa import FORMATS


def test_the_committed_isa_page_is_up_to_date(root):
    text = (root / "docs" / "isa.md").read_text()
    assert text == render(Config.preset("pynq_z1")), "run python -m vdla.hardware.generate.isa_page > docs/isa.md"


def test_every_field_has_a_row():
    page = render(Config.preset("tiny"))
    for slots in FORMATS.values():
        for field in slots:
            assert f"| `{field.name}` |" in page
            assert f"| {field.doc} |" in page
