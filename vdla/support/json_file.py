# SPDX-License-Identifier: Apache-2.0
"""JSON files that hold one table of fields: machines, boards, parts, coefficients."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import Any

from vdla.support.file_kind import unreadable


def read_table(path: str | PathLike[str], error: type[Exception]) -> dict[str, Any]:
    """The table in a file; `error`, with the path and what is wrong, where it has none."""
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8-sig"))
    except OSError as reason:
        raise error(unreadable(path, reason)) from None
    except json.JSONDecodeError as reason:
        raise error(f"{path}: content must be JSON, got an error in line {reason.lineno}: {reason.msg}") from None
    except (ValueError, RecursionError) as reason:
        raise error(f"{path}: content must be JSON, got {reason}") from None
    if not isinstance(document, dict):
        raise error(f"{path}: content must be a table of fields, got {document!r}")
    return document
