# SPDX-License-Identifier: Apache-2.0
"""docs/remote.md: its code prints the text below it; its table has every limit with its default."""

from dataclasses import fields

import pytest
from helpers.documents import check_page

from vdla.runtime.remote import farm
from vdla.runtime.remote.limits import Limits


def test_the_page_shows_the_output_of_its_examples(root, tmp_path, request, monkeypatch):
    monkeypatch.setattr(farm.FarmBoard.status, "__defaults__", (0.5,))
    check_page(root / "docs" / "remote.md", tmp_path, request.config.getoption("--update-golden"))


@pytest.mark.parametrize("field", fields(Limits), ids=lambda field: field.name)
def test_the_page_names_every_limit(root, field):
    page = (root / "docs" / "remote.md").read_text(encoding="utf-8")
    rows = page.partition("## Limits")[2].splitlines()
    row = next(line for line in rows if line.startswith("| ") and f"`{field.name}`" in line.split("|")[1])
    names = [name.strip(" `") for name in row.split("|")[1].split(",")]
    default = row.split("|")[2].split(",")[names.index(field.name)].strip()
    number, _, unit = default.partition(" ")
    assert float(number) * {"": 1, "MiB": 1 << 20, "GiB": 1 << 30}[unit] == field.default
