"""The parameter names of a user's function, which name the axes of what it defines.

Parameters with a default do not count, so that a lambda in a loop can capture by default arguments.
"""

from __future__ import annotations

import inspect

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
