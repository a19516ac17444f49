"""A layer of a network as data, which can be kept in a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class LayerRecord:
    """A definition with its options, as JSON can hold it; a network has it `count` times."""

    name: str
    define: str
    options: dict[str, Any]
    count: int
