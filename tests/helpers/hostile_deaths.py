# SPDX-License-Identifier: Apache-2.0
"""A reader of files that dies, for processes of the hostile benchmark to import."""

from __future__ import annotations

import os


def dying(seed: int) -> str:
    """Case 1 kills its process, case 2 raises an error that is none of the toolkit's."""
    if seed == 1:
        os.abort()
    if seed == 2:
        raise KeyError("q")
    return "read"
