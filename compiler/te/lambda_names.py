"""The parameter names of a user's function, which name the axes of what it defines.

Parameters with a default do not count, so that a lambda in a loop can capture by default arguments.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from vdla.compiler.te.expr import TeError

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def parameter_names(where: str, rule: str, function: object, count: int) -> list[str]:
    """The names of the parameters; `*args` fills up to `count` with i0, i1, ... by position.

    `rule` is the requirement on `function`, for the error message.
    """
    try:
        parameters = inspect.signature(function).parameters.values()  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise TeError(f"{where}: {rule}, got {function!r}") from None
    needed = [p for p in parameters if p.default is p.empty]
    for parameter in needed:
        if parameter.kind is parameter.KEYWORD_ONLY:
            raise TeError(f"{where}: {rule}, got one that needs the keyword {parameter.name}")
    names = [p.name for p in needed if p.kind in _POSITIONAL]
    if any(p.kind is p.VAR_POSITIONAL for p in needed):
        names += [f"i{place}" for place in range(len(names), count)]
    return names


def with_axes(names: Sequence[str], function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of any number of indices, as the body of a `compute` with axes of these names."""

    def body(*indices: Any) -> Any:  # noqa: ANN401  elements, and what the function gives
        return function(*indices)

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    body.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])  # type: ignore[attr-defined]
    return body
