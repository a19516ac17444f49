# SPDX-License-Identifier: Apache-2.0
"""Constructors that suggest the field for a keyword that they do not have."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, TypeVar

from vdla.support.suggest import one_of

T = TypeVar("T")


def checked_keywords(error: type[Exception], place: Callable[[], str] | None = None) -> Callable[[type[T]], type[T]]:
    """A decorator of classes: an unknown keyword of the constructor raises `error`, which lists the
    known ones, and not TypeError. The message begins with `place`, where that is given.
    """

    def decorate(cls: type[T]) -> type[T]:
        construct = cls.__init__
        known = [name for name in signature(construct).parameters if name != "self"]

        @wraps(construct)
        def checked(self: T, *arguments: Any, **keywords: Any) -> None:  # noqa: ANN401  any field
            for name in keywords:
                if name not in known:
                    where = f"{place()}: " if place is not None else ""
                    raise error(f"{where}{cls.__name__}: keyword must be {one_of(name, known)}")
            construct(self, *arguments, **keywords)

        setattr(cls, "__init__", checked)  # noqa: B010  type checkers refuse an assignment
        return cls

    return decorate
