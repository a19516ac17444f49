"""The names of the tensors that operators compute: the user's, else one made of the first operand's."""

from __future__ import annotations

from vdla.compiler import te


def name_of(x: te.Tensor, operator: str, name: str | None) -> str:
    """The name of an operator's result: as given, else `<x>_<operator>`."""
    return f"{x.name}_{operator}" if name is None else name
