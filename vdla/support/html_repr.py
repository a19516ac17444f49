# SPDX-License-Identifier: Apache-2.0
"""The `_repr_html_` of objects that notebooks show; `vdla.notebook` makes the HTML.

It is imported at the first use, so that an object that a board has needs NumPy only.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

_ROOM = "vdla.notebook"


def shown_by(module: str, function: str) -> Callable[[Any], str | None]:
    """A method: the HTML by a function of a module of `vdla.notebook`.

    Where that is not installed, as on a board, it is None: the notebook shows the repr.
    """

    def html_of(value: Any) -> str | None:  # noqa: ANN401  any object with this method
        try:
            import_module(_ROOM)
        except ModuleNotFoundError:
            return None
        html: str = getattr(import_module(f"{_ROOM}.{module}"), function)(value)
        return html

    return html_of
