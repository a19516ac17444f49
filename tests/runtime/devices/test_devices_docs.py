# SPDX-License-Identifier: Apache-2.0
"""docs/devices.md: its code prints the text below it; it names every device."""

from __future__ import annotations

import pytest
from helpers.documents import check_page

from vdla.runtime.devices import DEVICES


@pytest.fixture
def page(root):
    return (root / "docs" / "devices.md").read_text(encoding="utf-8")


def test_the_device_page_shows_the_output_of_its_examples(root, tmp_path, request):
    check_page(root / "docs" / "devices.md", tmp_path, request.config.getoption("--update-golden"))


def test_the_page_names_every_device(page):
    for name in DEVICES:
        assert f"| `{name}` |" in page
