"""The error of the mapper, and what it says of one intrinsic or mapping."""

from __future__ import annotations

from dataclasses import dataclass

from vdla.support.errors import Error


@dataclass(frozen=True, slots=True)
class Refusal:
    """A mapping that is not legal, and the first reason."""

    mapping: str
    reason: str

    def __str__(self) -> str:
        return f"{self.mapping}: {self.reason}"


class MapError(Error, ValueError):
    """An expression that no intrinsic covers, or a mapping that is not legal.

    Of an expression without a mapping, `refused` are the mappings that are not legal, or, where
    there are none, `others` the intrinsics that compute something else.
    """

    def __init__(self, message: str, refused: tuple[Refusal, ...] = (), others: tuple[Refusal, ...] = ()) -> None:
        super().__init__(message)
        self.refused, self.others = refused, others
