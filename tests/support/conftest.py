# SPDX-License-Identifier: Apache-2.0
"""Workers start at once, whatever the rest of the tests has set."""

from __future__ import annotations

import pytest

from vdla.support import parallel


@pytest.fixture(autouse=True)
def impatient_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work of these tests is short, and what they test is the workers."""
    monkeypatch.setattr(parallel, "PATIENCE_S", 0.0)
