# SPDX-License-Identifier: Apache-2.0
"""The page of ONNX's operators is generated from the tables."""

from importlib.metadata import version
from pathlib import Path

import pytest
from onnx import defs

from vdla.compiler.graph.onnx.support import why_unsupported
from vdla.compiler.graph.onnx.support_page import render
from vdla.compiler.graph.onnx.upgrades import UPGRADES

ROOT = Path(__file__).resolve().parents[4]
DOMAINS = ("", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training")


def test_the_committed_page_is_up_to_date():
    text = (ROOT / "docs" / "onnx-support.md").read_text(encoding="utf-8")
    if f"onnx\n{version('onnx')} " not in text:
        pytest.skip(f"the page is that of another onnx than {version('onnx')}")
    assert text == render(), "run python -m vdla.compiler.graph.onnx.support_page > docs/onnx-support.md"


def test_every_operator_has_a_row_and_every_refusal_a_reason():
    page = render().partition("## Operators of ONNX Runtime")[0]
    for schema in defs.get_all_schemas():
        if schema.domain not in DOMAINS:
            continue
        (row,) = [line for line in page.splitlines() if line.startswith(f"| `{schema.name}` |")]
        reason = why_unsupported(schema.domain, schema.name)
        assert ("| refused |" in row) == bool(reason)
        assert reason in row


def test_every_operator_of_another_domain_has_a_row():
    page = render()
    for name in UPGRADES:
        if "." in name and not name.startswith(("ai.onnx", "onnx.brevitas", "finn")):
            assert f"| `{name.rpartition('.')[2]}` | others |" in page
