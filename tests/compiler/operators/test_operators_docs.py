# SPDX-License-Identifier: Apache-2.0
"""docs/operators.md: its code prints the text below it; it lists every operator."""

import re

from helpers.documents import check_page

from vdla.compiler import operators


def test_the_page_of_operators_shows_its_output(root, tmp_path, request):
    check_page(root / "docs" / "operators.md", tmp_path, request.config.getoption("--update-golden"))


def test_every_operator_is_on_the_page(root):
    words = set(re.findall(r"\w+", (root / "docs" / "operators.md").read_text(encoding="utf-8")))
    assert [name for name in operators.__all__ if name not in words] == []
