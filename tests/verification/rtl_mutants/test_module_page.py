# SPDX-License-Identifier: Apache-2.0
"""The page of modules says what there is."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyslang")

from vdla.hardware.generate.extension_files import extension_rtl_files
from vdla.hardware.generate.rtl_files import rtl_files
from vdla.verification.rtl_mutants.module_page import FORMAL, render

ROOT = Path(__file__).resolve().parents[3]


def test_the_page_is_up_to_date() -> None:
    text = (ROOT / "docs" / "module-checks.md").read_text(encoding="utf-8")
    command = "python -m vdla.verification.rtl_mutants.module_page > docs/module-checks.md"
    assert text == render(), f"run {command}"
    assert [path for path in (*rtl_files(), *extension_rtl_files()) if f"| `{path.stem}` |" not in text] == []
    assert [path for path in FORMAL.glob("*.sv") if text.count(f"`{path.stem}`") < 1] == []
