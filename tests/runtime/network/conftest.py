# SPDX-License-Identifier: Apache-2.0
"""Networks of a file have many layers alike: each is scheduled once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from vdla.compiler.operators.vdla.operator import shared_operators


@pytest.fixture(autouse=True, scope="module")
def layers() -> Iterator[None]:
    """The operators that the tests of a file share, as one compilation does."""
    with shared_operators():
        yield
