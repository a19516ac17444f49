"""What the intrinsics of CPUs can be asked for: a wrong argument is refused with those that there are."""

from __future__ import annotations

from collections.abc import Iterable

from vdla.compiler.tensorize.intrinsic import IntrinsicError


def one_of(where: str, what: str, value: object, choices: Iterable[object]) -> None:
    """Refuse a value that is not one of `choices`."""
    known = list(choices)
    if value not in known:
        raise IntrinsicError(f"intrinsic {where}: {what} must be one of {', '.join(map(str, known))}, got {value!r}")
